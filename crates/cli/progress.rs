//! Shows progress on stderr: a bar on a terminal, otherwise a plain line every ten seconds.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use bert_data::ShardProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::visible;

/// Interval between progress lines when stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress display of a piece of work.
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    title: String,
    total: u64,
    last_line: Instant,
    /// Units done at the first update, and its time: the start of the estimate of the remaining time.
    start: Option<(u64, Instant)>,
}

impl Progress {
    /// Creates the display of the work called `title` with `total` units (0 if unknown).
    pub fn new(title: &str, total: u64, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = if total == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(total) };
            bar.set_style(style(total));
            bar.set_prefix(title.to_string());
            bar
        });
        Self { bar, quiet, title: title.to_string(), total, last_line: Instant::now(), start: None }
    }

    /// Sets the total number of units.
    pub fn set_total(&mut self, total: u64) {
        if self.total == total {
            return;
        }
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_style(style(total));
        }
    }

    /// Sets the number of units done and a message with details.
    pub fn set(&mut self, done: u64, message: &str) {
        let is_first = self.start.is_none();
        let (first, begun) = *self.start.get_or_insert_with(|| (done, Instant::now()));
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(visible(message).into_owned());
            if is_first {
                // A resumed run does not begin at 0.
                bar.reset_eta();
            }
        } else if !self.quiet && self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            let of = if self.total == 0 { String::new() } else { format!("/{}", self.total) };
            let rate = done.saturating_sub(first) as f64 / begun.elapsed().as_secs_f64();
            let left = match self.total.checked_sub(done) {
                Some(left) if rate > 0.0 => format!(", {} left", duration(left as f64 / rate)),
                _ => String::new(),
            };
            print_stderr(format!("{} {done}{of}{left} {message}", self.title).trim_end());
        }
    }

    /// Sets the progress of work on shards, in MB.
    pub fn set_shards(&mut self, at: ShardProgress) {
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        self.set_total(megabytes(at.total));
        self.set(megabytes(at.done), "MB");
    }

    /// Prints a permanent line above the bar.
    pub fn line(&self, text: &str) {
        if !self.quiet {
            self.print_above_bar(text);
        }
    }

    /// Prints a warning above the bar, even with `--quiet`.
    pub fn warn(&self, text: &str) {
        self.print_above_bar(&format!("warning: {text}"));
    }

    fn print_above_bar(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(visible(text)),
            None => print_stderr(text),
        }
    }
}

impl Drop for Progress {
    /// Removes the bar.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(total: u64) -> ProgressStyle {
    let template = match total {
        0 => "{prefix} {spinner} {human_pos} {wide_msg}",
        // The bar has a fixed width, and a message that is too long for the terminal is cut.
        _ => "{prefix} [{bar:20}] {human_pos}/{human_len}, {eta} left {wide_msg}",
    };
    ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar())
}

/// Prints a warning to stderr.
pub fn print_warning(text: impl Display) {
    print_stderr(&format!("warning: {text}"));
}

/// Prints a note to stderr.
pub fn print_note(text: impl Display) {
    print_stderr(&format!("note: {text}"));
}

/// Prints a line to stderr, with control characters escaped ([`visible`]). A closed stderr is ignored.
pub fn print_stderr(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
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
