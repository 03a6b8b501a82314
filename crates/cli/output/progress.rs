//! Shows progress on stderr: one line that is redrawn on a terminal, otherwise a plain line every ten seconds.

use std::fmt::Display;
use std::time::{Duration, Instant};

use bert_data::ShardProgress;
use bert_storage::with_flags;

use crate::output::status_line::{self, Content, StatusLine, write_above};
use crate::output::terminal::{Word, stderr_width, visible, wrapped};

/// Interval between progress lines when stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress display of a piece of work.
pub struct Progress {
    /// The line of a terminal.
    line: Option<StatusLine>,
    quiet: bool,
    title: String,
    /// Whether the finished work is shown as a percentage of the total.
    in_percent: bool,
    total: u64,
    created: Instant,
    last_line: Instant,
    /// Units done at the first update, and its time: the start of the estimate of the remaining time. A resumed run does
    /// not begin at 0.
    start: Option<(u64, Instant)>,
}

impl Progress {
    /// Creates the display of the work called `title` with `total` units (0 if unknown).
    pub fn new(title: &str, total: u64, quiet: bool) -> Self {
        let line = (!quiet && status_line::is_available()).then(StatusLine::default);
        let now = Instant::now();
        Self {
            line,
            quiet,
            title: title.to_string(),
            in_percent: false,
            total,
            created: now,
            last_line: now,
            start: None,
        }
    }

    /// Creates the display of work whose finished part is shown as a percentage.
    pub fn percent(title: &str, total: u64, quiet: bool) -> Self {
        Self { in_percent: true, ..Self::new(title, total, quiet) }
    }

    /// Sets the total number of units.
    pub fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    /// Sets the number of units done and a message with details, separated by commas.
    pub fn set(&mut self, done: u64, message: &str) {
        let start = *self.start.get_or_insert_with(|| (done, Instant::now()));
        if self.line.is_none() && (self.quiet || self.last_line.elapsed() < LINE_INTERVAL) {
            return;
        }
        let done_and_left = self.amount(done) + &self.time_left(done, start);
        let Some(line) = &mut self.line else {
            self.last_line = Instant::now();
            return print_stderr(format!("{} {done_and_left} {message}", self.title).trim_end());
        };
        line.draw(&Content {
            title: &self.title,
            done: done_and_left,
            fraction: (self.total > 0).then(|| done as f64 / self.total as f64),
            details: &visible(message),
        });
    }

    /// Formats the finished work.
    fn amount(&self, done: u64) -> String {
        match (self.in_percent, self.total) {
            (_, 0) => done.to_string(),
            (false, total) => format!("{done}/{total}"),
            (true, total) => format!("{} %", done * 100 / total),
        }
    }

    /// Formats the estimate of the remaining time, from the mean speed since the start.
    fn time_left(&self, done: u64, (first, begun): (u64, Instant)) -> String {
        let rate = done.saturating_sub(first) as f64 / begun.elapsed().as_secs_f64();
        match self.total.checked_sub(done) {
            Some(left) if rate > 0.0 => format!(", {} left", duration(left as f64 / rate)),
            _ => String::new(),
        }
    }

    /// Sets the progress of work on shards, in MB.
    pub fn set_shards(&mut self, at: ShardProgress) {
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        self.set_total(megabytes(at.total));
        self.set(megabytes(at.done), "MB");
    }

    /// Prints the total time of the finished work.
    pub fn done(&self) {
        self.line(&format!("done in {}", duration(self.created.elapsed().as_secs_f64())));
    }

    /// Prints a permanent line.
    pub fn line(&self, text: &str) {
        if !self.quiet {
            print_stderr(text);
        }
    }

    /// Prints a note.
    pub fn note(&self, text: &str) {
        print_note_unless(self.quiet, text);
    }
}

/// Prints a warning to stderr.
pub fn print_warning(text: impl Display) {
    print_message(Word::Warning, &text.to_string());
}

/// Prints a note to stderr.
pub fn print_note(text: impl Display) {
    print_message(Word::Note, &text.to_string());
}

/// Prints a note to stderr, unless `quiet` is set.
pub fn print_note_unless(quiet: bool, text: impl Display) {
    if !quiet {
        print_note(text);
    }
}

/// Prints a message to stderr.
pub(super) fn print_message(word: Word, text: &str) {
    write_above(&format!("{}\n", word.message(text)));
}

/// Prints a line to stderr, with control characters escaped ([`visible`]). A closed stderr is ignored.
pub fn print_stderr(text: &str) {
    write_above(&format!("{}\n", wrapped(&visible(&with_flags(text)), stderr_width())));
}

/// Formats seconds as 1h02m, 3m04s or 5s.
pub fn duration(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn durations_are_short() {
        let shown = [0.4, 5.0, 184.0, 3720.0].map(super::duration);
        assert_eq!(shown, ["0s", "5s", "3m04s", "1h02m"]);
    }
}
