//! Shows runs in a terminal of 60 columns, with plain ANSI escapes.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use bert_reports::live::{LiveState, LiveStatus};
use bert_storage::visible;

use super::watched::{Shown, Watched, end_on_signals};
use crate::output::stdout::print;

/// Maximum width of a line.
const WIDTH: usize = 60;
const BAR: usize = 30;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Prints the states.
pub(super) fn print_once(runs: &[Shown]) -> anyhow::Result<()> {
    print(&screen(runs))
}

/// Shows the states until Ctrl-C. Without a terminal, prints them after every change.
pub(super) fn run(mut watched: Watched, interval: Duration) -> anyhow::Result<()> {
    if !stdout().is_terminal() {
        let mut last = String::new();
        loop {
            let now = screen(&watched.read());
            if now != last {
                print(&now)?;
                last = now;
            }
            std::thread::sleep(interval);
        }
    }
    end_on_signals(|| {
        let mut out = stdout().lock();
        // Nothing can be done for a terminal that is gone.
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    })?;
    stdout().write_all(ENTER.as_bytes())?;
    loop {
        let lines = screen(&watched.read()).replace('\n', "\x1b[K\n");
        let mut out = stdout().lock();
        write!(out, "\x1b[H{lines}\x1b[K\x1b[J")?;
        out.flush()?;
        drop(out);
        std::thread::sleep(interval);
    }
}

/// Returns the text of the screen.
fn screen(runs: &[Shown]) -> String {
    let run = |shown: &Shown| match shown {
        Shown::Status(status) => lines(status),
        Shown::Waiting { name, error } => vec![visible(name).into_owned(), format!("  {}", visible(error))],
    };
    let cut = |line: String| line.chars().take(WIDTH).collect::<String>();
    let blocks = runs.iter().map(|shown| run(shown).into_iter().map(cut).collect::<Vec<String>>().join("\n"));
    blocks.collect::<Vec<String>>().join("\n\n")
}

/// Returns the lines of a run.
fn lines(status: &LiveStatus) -> Vec<String> {
    let LiveStatus { name, kind, state, state_text, step, steps, figures, findings, losses, .. } = status;
    let mark = match state {
        LiveState::Running => ">",
        LiveState::Stopped => "!",
        LiveState::Finished => "=",
    };
    let mut lines = vec![format!("{mark} {} ({kind}, {state_text})", visible(name))];
    if *steps > 0 {
        let done = (BAR as u64 * step / steps).min(BAR as u64) as usize;
        let full = "#".repeat(done);
        let rest = "-".repeat(BAR - done);
        lines.push(format!("  [{full}{rest}] {step} of {steps}"));
    }
    if losses.len() > 1 {
        lines.push(format!("  {}", sparkline(losses)));
    }
    lines.extend(figures.iter().map(|figure| format!("  {:<18} {}", figure.name, figure.value)));
    let warnings = findings.iter().filter(|finding| finding.severity.word() == "warning");
    lines.extend(warnings.flat_map(|finding| wrapped(&format!("warning: {}", finding.text))));
    lines
}

/// Returns a curve of one character per value, at most as wide as the screen.
fn sparkline(values: &[f64]) -> String {
    let shown = &values[values.len().saturating_sub(WIDTH - 4)..];
    let (low, high) =
        shown.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let level = |value: &f64| (7.0 * (value - low) / (high - low).max(1e-12)).round() as usize;
    shown.iter().map(|value| BLOCKS[level(value).min(7)]).collect()
}

/// Breaks a text into lines that fit the screen, each indented.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::from(" ")];
    for word in visible(text).split(' ') {
        let last = lines.last_mut().expect("a line");
        if last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("   {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use bert_reports::live::LiveFigure;

    use super::*;

    #[test]
    fn lines_fit_sixty_columns() {
        let status = LiveStatus {
            name: "a/very/long/name/of/a/folder/".repeat(4),
            kind: "pre-training",
            state: LiveState::Running,
            state_text: "running".into(),
            step: 25,
            steps: 100,
            figures: vec![LiveFigure { name: "masked LM loss", value: "3.412 nats".into() }],
            findings: Vec::new(),
            charts: Vec::new(),
            losses: (0..100).map(f64::from).collect(),
        };
        let screen = screen(&[Shown::Status(Box::new(status))]);
        assert!(screen.lines().all(|line| line.chars().count() <= WIDTH), "{screen}");
        for part in
            ["[#######-----------------------] 25 of 100", "masked LM loss     3.412 nats", "▁▁▁", "██"]
        {
            assert!(screen.contains(part), "{part}\n{screen}");
        }
    }

    #[test]
    fn long_warnings_are_wrapped() {
        let lines = wrapped(&"word ".repeat(30));
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
    }
}
