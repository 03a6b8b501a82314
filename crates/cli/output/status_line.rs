//! The progress line of a terminal: one line at the bottom that is drawn again and again, and removed before any other
//! output.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Minimum time between two drawings of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// Minimum number of cells of a bar.
const MIN_CELLS: usize = 10;
/// Maximum number of cells of a bar.
const MAX_CELLS: usize = 30;

/// Columns of a terminal whose size is unknown.
const DEFAULT_WIDTH: usize = 80;

/// The number of columns of the text on the screen; 0 if no line is shown.
static SHOWN: Mutex<usize> = Mutex::new(0);

fn shown() -> MutexGuard<'static, usize> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether stderr is a terminal that can remove a line.
pub fn is_available() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// The progress line of a piece of work.
pub struct StatusLine {
    drawn: Option<Instant>,
}

impl StatusLine {
    /// Creates a line that is not drawn yet.
    #[must_use]
    pub fn new() -> Self {
        Self { drawn: None }
    }

    /// Draws the line, unless it was drawn a moment ago.
    pub fn draw(&mut self, content: &Content<'_>) {
        if self.drawn.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        self.drawn = Some(Instant::now());
        let width = width();
        let text = content.fit(width.saturating_sub(1));
        let mut shown = shown();
        let _ = write!(stderr(), "{}{text}", erasure(*shown, width));
        *shown = text.width();
    }
}

impl Default for StatusLine {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        write_above("");
    }
}

/// Writes complete lines to stderr, in place of the progress line. A closed stderr is ignored.
pub fn write_above(lines: &str) {
    let mut shown = shown();
    let erasure = if *shown == 0 { String::new() } else { erasure(*shown, width()) };
    let _ = write!(stderr(), "{erasure}{lines}");
    *shown = 0;
}

fn width() -> usize {
    terminal_size::terminal_size_of(stderr()).map_or(DEFAULT_WIDTH, |(width, _)| width.0.into())
}

/// Returns the control sequence that removes a line of this many columns. A terminal that has become narrower shows it
/// in several rows.
fn erasure(shown: usize, width: usize) -> String {
    let rows_above = shown.saturating_sub(1) / width.max(1);
    match rows_above {
        0 => "\r\x1b[J".to_string(),
        rows => format!("\r\x1b[{rows}A\x1b[J"),
    }
}

/// The parts of a progress line.
pub struct Content<'a> {
    /// The name of the work.
    pub title: &'a str,
    /// The finished work, as `53/500` or `10 %`, and the remaining time.
    pub done: String,
    /// The finished fraction, if the total is known.
    pub fraction: Option<f64>,
    /// Details, separated by commas; the last are left out if the line is too long.
    pub details: &'a str,
}

impl Content<'_> {
    /// Returns the line in at most `width` columns: with a bar if at least [`MIN_CELLS`] cells are left for it, and with
    /// the details that fit.
    fn fit(&self, width: usize) -> String {
        let Self { title, done, fraction, details } = self;
        let separator = if fraction.is_some() { ", " } else { " " };
        let rest = if details.is_empty() { done.clone() } else { format!("{done}{separator}{details}") };
        let without_bar = format!("{title} {rest}");
        let free = width.saturating_sub(without_bar.width() + 3);
        if let Some(fraction) = fraction.filter(|_| free >= MIN_CELLS) {
            let cells = free.min(MAX_CELLS);
            let full = ((fraction.clamp(0.0, 1.0) * cells as f64) as usize).min(cells);
            return format!("{title} [{}{}] {}", "#".repeat(full), "-".repeat(cells - full), rest);
        }
        let mut line = without_bar.as_str();
        while line.width() > width
            && let Some((shorter, _)) = line.rsplit_once(", ")
        {
            line = shorter;
        }
        let mut columns = 0;
        let fits = |character: &char| {
            columns += character.width().unwrap_or(0);
            columns <= width
        };
        line.chars().take_while(fits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_every_width() {
        let details = "loss 5.1396, mlm 4.4709, nsp 0.6687, lr 1.8e-3, 46.3 sequences/s, loader wait 0.1 %";
        let line =
            Content { title: "pretrain", done: "53/500, 4m47s left".into(), fraction: Some(0.106), details };
        for width in 0..200 {
            let text = line.fit(width);
            assert!(text.width() <= width, "{width}: {text}");
            if let Some((_, bar)) = text.split_once('[') {
                let cells = bar.split_once(']').expect("the end of the bar").0;
                assert!((MIN_CELLS..=MAX_CELLS).contains(&cells.len()), "{width}: {text}");
                assert!(text.ends_with(details), "{width}: a bar takes the place of details: {text}");
            }
        }
        assert_eq!(line.fit(40), "pretrain 53/500, 4m47s left, loss 5.1396");
        assert!(line.fit(160).starts_with("pretrain [###---"), "{}", line.fit(160));
        let spinner = Content { title: "merge", done: "12".into(), fraction: None, details: "MB" };
        assert_eq!(spinner.fit(80), "merge 12 MB");
        let wide = Content { title: "\u{6cb3}\u{5ddd}", done: "1/2".into(), fraction: None, details: "" };
        assert_eq!(
            [4, 7, 8].map(|width| wide.fit(width)),
            ["\u{6cb3}\u{5ddd}", "\u{6cb3}\u{5ddd} 1/", "\u{6cb3}\u{5ddd} 1/2"]
        );
    }

    #[test]
    fn a_narrower_terminal_has_more_rows_to_remove() {
        assert_eq!(erasure(79, 80), "\r\x1b[J");
        assert_eq!(erasure(80, 80), "\r\x1b[J");
        assert_eq!(erasure(79, 60), "\r\x1b[1A\x1b[J");
        assert_eq!(erasure(79, 20), "\r\x1b[3A\x1b[J");
        assert_eq!(erasure(0, 0), "\r\x1b[J");
    }
}
