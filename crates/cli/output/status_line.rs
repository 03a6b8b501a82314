//! The progress line of a terminal: one line at the bottom that is redrawn repeatedly, and removed before any other
//! output.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::builder::styling::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::terminal::shows_colour;

/// Minimum time between two drawings of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// Minimum number of cells of a bar.
const MIN_CELLS: usize = 10;
/// Maximum number of cells of a bar.
const MAX_CELLS: usize = 30;

/// Columns of a terminal whose size is unknown.
const DEFAULT_WIDTH: usize = 80;

/// The full, the last and the empty cells of a bar, where the terminal shows UTF-8 and where it may not.
const CELLS: [[&str; 3]; 2] = [["━", "╸", "─"], ["#", "#", "-"]];

/// Whether the result is being printed, after which no line is drawn.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The number of columns of the text on the screen; 0 if no line is shown.
static SHOWN: Mutex<usize> = Mutex::new(0);

fn shown() -> MutexGuard<'static, usize> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether stderr is a terminal that can remove a line.
pub fn is_available() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// The progress line of a piece of work; it is not drawn at first.
#[derive(Default)]
pub struct StatusLine {
    drawn: Option<Instant>,
}

impl StatusLine {
    /// Draws the line, unless it was drawn a moment ago.
    pub fn draw(&mut self, content: &Content<'_>) {
        if self.drawn.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        if IS_CLOSED.load(Ordering::Relaxed) {
            return;
        }
        self.drawn = Some(Instant::now());
        let width = width();
        let text = content.fit(width.saturating_sub(1));
        let mut shown = shown();
        let _ = write!(stderr(), "{}{}", erasure(*shown, width), in_colour(&text));
        *shown = text.width();
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        write_above("");
    }
}

/// Removes the line before the result is printed, and prevents further drawing.
pub fn close() {
    IS_CLOSED.store(true, Ordering::Relaxed);
    write_above("");
}

/// Returns the cells of a bar: full, last and empty.
fn cells() -> [&'static str; 3] {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = names.filter_map(std::env::var_os).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    CELLS[usize::from(!(locale.contains("utf-8") || locale.contains("utf8")))]
}

/// Returns a line with its bar in colour, if stderr shows colours.
fn in_colour(text: &str) -> String {
    let [full, last, empty] = cells();
    let is_bar = |c: char| [full, last, empty].iter().any(|cell| cell.starts_with(c));
    let bar = text.split(' ').find(|word| word.chars().count() >= MIN_CELLS && word.chars().all(is_bar));
    let Some(bar) = bar.filter(|_| shows_colour()) else { return text.to_string() };
    let (done, rest) = bar.split_at(bar.find(empty).unwrap_or(bar.len()));
    let done_style = AnsiColor::Cyan.on_default();
    let rest_style = Style::new().dimmed();
    text.replacen(bar, &format!("{done_style}{done}{done_style:#}{rest_style}{rest}{rest_style:#}"), 1)
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
    /// Returns the line in at most `width` columns: with a bar of at least [`MIN_CELLS`] cells, if the fraction is known and
    /// it fits, and with the details that fit.
    fn fit(&self, width: usize) -> String {
        let Self { title, done, fraction, details } = self;
        let separator = if fraction.is_some() { ", " } else { " " };
        let mut rest = if details.is_empty() { done.clone() } else { format!("{done}{separator}{details}") };
        let taken = |rest: &str| title.width() + rest.width() + 2;
        let least = if fraction.is_some() { MIN_CELLS } else { 0 };
        while taken(&rest) + least > width
            && let Some((shorter, _)) = rest.rsplit_once(", ")
        {
            rest.truncate(shorter.len());
        }
        let free = width.saturating_sub(taken(&rest));
        if let Some(fraction) = fraction.filter(|_| free >= MIN_CELLS) {
            let number = free.min(MAX_CELLS);
            let [full, last, empty] = cells();
            let half = ((fraction.clamp(0.0, 1.0) * 2.0 * number as f64) as usize).min(2 * number);
            let middle = if half % 2 == 1 { last } else { "" };
            let left = number - half / 2 - half % 2;
            return format!("{title} {}{middle}{} {rest}", full.repeat(half / 2), empty.repeat(left));
        }
        let mut columns = 0;
        let fits = |character: &char| {
            columns += character.width().unwrap_or(0);
            columns <= width
        };
        format!("{title} {rest}").chars().take_while(fits).collect()
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
        let [full, _, empty] = cells();
        for width in 0..200 {
            let text = line.fit(width);
            assert!(text.width() <= width, "{width}: {text}");
            let bar = text.chars().filter(|c| full.starts_with(*c) || empty.starts_with(*c)).count();
            assert!(bar <= MAX_CELLS && (width < 40 || bar + 1 >= MIN_CELLS), "{width}: {text}");
        }
        assert_eq!(line.fit(25), "pretrain 53/500");
        assert!(
            line.fit(79).ends_with("53/500, 4m47s left, loss 5.1396, mlm 4.4709, nsp 0.6687"),
            "{}",
            line.fit(79)
        );
        assert!(line.fit(160).ends_with(details), "{}", line.fit(160));
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
