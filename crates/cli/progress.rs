//! Shows progress on stderr: a bar on a terminal, elsewhere a plain line every ten seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use bert_data::ShardProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::visible;

/// How often a program that is not on a terminal says where it is.
const EVERY: Duration = Duration::from_secs(10);

/// Shows how far a piece of work is.
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    title: String,
    total: u64,
    last_line: Instant,
}

impl Progress {
    /// Progress of the work called `title`, of `total` units (0 when unknown).
    pub fn new(title: &str, total: u64, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = if total == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(total) };
            bar.set_style(style(total));
            bar.set_prefix(title.to_string());
            bar
        });
        Self { bar, quiet, title: title.to_string(), total, last_line: Instant::now() }
    }

    /// The work turns out to be of `total` units.
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

    /// The work stands at `done` units; `message` says more.
    pub fn set(&mut self, done: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(visible(message).into_owned());
        } else if !self.quiet && self.last_line.elapsed() >= EVERY {
            self.last_line = Instant::now();
            let of = if self.total == 0 { String::new() } else { format!("/{}", self.total) };
            say(&format!("{} {done}{of} {message}", self.title));
        }
    }

    /// The work on shards stands at so many MB.
    pub fn set_shards(&mut self, at: ShardProgress) {
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        self.set_total(megabytes(at.total));
        self.set(megabytes(at.done), "MB");
    }

    /// A line that stays, above the bar.
    pub fn line(&self, text: &str) {
        if !self.quiet {
            self.above_the_bar(text);
        }
    }

    /// A warning, above the bar: no progress, so `--quiet` does not hide it.
    pub fn warn(&self, text: &str) {
        self.above_the_bar(&format!("warning: {text}"));
    }

    fn above_the_bar(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(visible(text)),
            None => say(text),
        }
    }
}

impl Drop for Progress {
    /// Takes the bar away.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(total: u64) -> ProgressStyle {
    let template = match total {
        0 => "{prefix} {spinner} {human_pos} {msg}",
        _ => "{prefix} [{wide_bar}] {human_pos}/{human_len} {eta} {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar())
}

/// A line on stderr, its control characters as escapes ([`visible`]); a closed stderr is ignored.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
}

/// Seconds as 1h02m, 3m04s or 5s.
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
