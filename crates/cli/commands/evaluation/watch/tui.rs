//! Shows runs in a terminal, with plain ANSI escapes: all lines of a run if they fit, else two lines for each.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use bert_reports::{LiveState, LiveStatus};
use bert_storage::visible;
use terminal_size::terminal_size_of;

use super::watched::{Shown, Watched};
use crate::output::signals::end_on_signals;
use crate::output::stdout::print;
use crate::output::terminal::wrapped;

/// Maximum width and height where the output is not a terminal.
const SIZE: (usize, usize) = (60, usize::MAX);
const BAR: usize = 30;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Prints the states.
pub(super) fn print_once(runs: &[Shown]) -> anyhow::Result<()> {
    print(&screen(runs, (size().0, usize::MAX)))
}

/// Shows the states until Ctrl-C. Without a terminal, prints them after every change.
pub(super) fn run(mut watched: Watched, interval: Duration) -> anyhow::Result<()> {
    if !stdout().is_terminal() {
        let mut last = String::new();
        loop {
            let now = screen(&watched.read(), SIZE);
            if now != last {
                print(&now)?;
                last = now;
            }
            std::thread::sleep(interval);
        }
    }
    end_on_signals(|| {
        let mut out = stdout().lock();
        // Ignore an error, because it means that the terminal was closed.
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    })?;
    stdout().write_all(ENTER.as_bytes())?;
    loop {
        let lines = screen(&watched.read(), size()).replace('\n', "\x1b[K\n");
        let mut out = stdout().lock();
        write!(out, "\x1b[H{lines}\x1b[K\x1b[J")?;
        out.flush()?;
        drop(out);
        std::thread::sleep(interval);
    }
}

/// Returns the numbers of columns and rows of the terminal.
fn size() -> (usize, usize) {
    terminal_size_of(stdout()).map_or(SIZE, |(width, height)| (width.0.into(), height.0.into()))
}

/// Returns the text of the screen: running runs first, and fewer lines of each if not all fit.
fn screen(runs: &[Shown], (width, height): (usize, usize)) -> String {
    let mut blocks: Vec<(bool, Vec<String>)> = runs.iter().map(|shown| block(shown, width)).collect();
    blocks.sort_by_key(|(is_running, _)| !is_running);
    let all = |blocks: &[(bool, Vec<String>)]| {
        blocks.iter().map(|(_, lines)| lines.join("\n")).collect::<Vec<_>>().join("\n\n")
    };
    let text = all(&blocks);
    if text.lines().count() <= height {
        return text;
    }
    blocks.iter_mut().for_each(|(_, lines)| lines.truncate(2));
    let mut lines: Vec<&String> = blocks.iter().flat_map(|(_, lines)| lines).collect();
    let rest = format!("{} more lines: enlarge the terminal", (lines.len() + 1).saturating_sub(height));
    if lines.len() > height {
        lines.truncate(height.saturating_sub(1));
        lines.push(&rest);
    }
    lines.into_iter().cloned().collect::<Vec<_>>().join("\n")
}

/// Returns whether a run is in progress, and its lines.
fn block(shown: &Shown, width: usize) -> (bool, Vec<String>) {
    let cut = |line: String| line.chars().take(width).collect::<String>();
    match shown {
        Shown::Status(status) => {
            (status.state == LiveState::Running, lines(status, width).into_iter().map(cut).collect())
        }
        Shown::Waiting { name, error } => {
            (false, vec![cut(visible(name).into_owned()), cut(format!("  {}", visible(error)))])
        }
    }
}

/// Returns the lines of a run.
fn lines(status: &LiveStatus, width: usize) -> Vec<String> {
    let LiveStatus { name, kind, state, state_text, step, steps, figures, findings, losses, .. } = status;
    let mark = match state {
        LiveState::Running => ">",
        LiveState::Stopped => "!",
        LiveState::Finished => "=",
    };
    let mut lines = vec![format!("{mark} {} ({kind}, {state_text})", visible(name))];
    if *steps > 0 {
        let done = (BAR as u64 * step / steps).min(BAR as u64) as usize;
        let bar = "━".repeat(done) + &"─".repeat(BAR - done);
        lines.push(format!("  {bar} {step} of {steps}"));
    }
    if losses.len() > 1 {
        lines.push(format!("  {}", sparkline(losses, width)));
    }
    lines.extend(figures.iter().map(|figure| format!("  {:<18} {}", figure.name, figure.value)));
    let warnings = findings.iter().filter(|finding| finding.severity.word() == "warning");
    lines.extend(warnings.flat_map(|finding| {
        let text = wrapped(&visible(&format!("  warning: {}", finding.text)), width);
        text.lines().map(String::from).collect::<Vec<_>>()
    }));
    lines
}

/// Returns a curve of the last values, one character for each, at most `width - 4` columns wide.
fn sparkline(values: &[f64], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width.saturating_sub(4))..];
    let (low, high) =
        shown.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let level = |value: &f64| (7.0 * (value - low) / (high - low).max(1e-12)).round() as usize;
    shown.iter().map(|value| BLOCKS[level(value).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use bert_reports::LiveFigure;

    use super::*;

    fn run(name: &str, state: LiveState) -> Shown {
        Shown::Status(Box::new(LiveStatus {
            name: name.repeat(40),
            kind: "pre-training",
            state,
            state_text: "running".into(),
            step: 25,
            steps: 100,
            figures: vec![LiveFigure { name: "masked LM loss", value: "3.412 nats".into() }],
            findings: Vec::new(),
            charts: Vec::new(),
            losses: (0..100).map(f64::from).collect(),
        }))
    }

    #[test]
    fn lines_fit_the_width() {
        let screen = screen(&[run("a/", LiveState::Running)], (60, 24));
        assert!(screen.lines().all(|line| line.chars().count() <= 60), "{screen}");
        for part in ["━━━━━━━─", "25 of 100", "masked LM loss     3.412 nats", "▁▁▁", "██"]
        {
            assert!(screen.contains(part), "{part}\n{screen}");
        }
    }

    #[test]
    fn running_runs_are_on_a_low_screen() {
        let runs =
            [run("a", LiveState::Finished), run("b", LiveState::Finished), run("c", LiveState::Running)];
        let low = screen(&runs, (60, 6));
        assert!(low.lines().count() <= 6 && low.starts_with("> ccc"), "{low}");
        let lower = screen(&runs, (60, 3));
        assert!(
            lower.lines().count() == 3 && lower.ends_with("4 more lines: enlarge the terminal"),
            "{lower}"
        );
        assert_eq!(screen(&runs, (60, 24)).lines().count(), 3 * 4 + 2);
    }
}
