//! Defines the present state of a run or a fine-tuning.

use bert_pages::{CHART_SCRIPT, Head, Script, downsample, grouped, interactive_page, smooth, verdict};
use maud::html;
use serde::Serialize;
use serde_json::Value;

use crate::findings::Finding;

/// The state of a run: in progress, stopped or finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveState {
    /// A process holds the lock of the folder.
    Running,
    /// No process holds the lock, and steps are left.
    Stopped,
    /// All steps are done.
    Finished,
}

/// A name and its value as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveFigure {
    /// The name.
    pub name: &'static str,
    /// The value, with its unit.
    pub value: String,
}

/// The present state of a run or a fine-tuning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveStatus {
    /// The folder, as the user gave it.
    pub name: String,
    /// `pre-training` or `fine-tuning`.
    pub kind: &'static str,
    /// The state: in progress, stopped or finished.
    pub state: LiveState,
    /// The state as text: `running`, `stopped at step 30`, `finished`.
    pub state_text: String,
    /// Finished steps; in a fine-tuning, the steps of the present seed.
    pub step: u64,
    /// Total number of steps.
    pub steps: u64,
    /// Loss, held-out results, rate, speed and time left, as far as they are known.
    pub figures: Vec<LiveFigure>,
    /// The findings, warnings first.
    pub findings: Vec<Finding>,
    /// The data of the charts, for the script of the page.
    pub charts: Vec<Value>,
    /// All losses, averaged to at most 60 values and smoothed, for a small curve.
    pub losses: Vec<f64>,
}

/// Returns the state of a run, and its text.
pub(super) fn state(in_use: bool, step: u64, steps: u64) -> (LiveState, String) {
    match (in_use, step >= steps && steps > 0) {
        (true, _) => (LiveState::Running, "running".into()),
        (false, true) => (LiveState::Finished, "finished".into()),
        (false, false) => (LiveState::Stopped, format!("stopped at step {}", grouped(step))),
    }
}

/// Returns at most 60 smoothed losses, for a small curve.
pub(super) fn small_curve(losses: &[(f64, f64)]) -> Vec<f64> {
    smooth(&downsample(losses, 60), 3).into_iter().map(|(_, loss)| loss).collect()
}

const LIVE_SCRIPT: &str = include_str!("live.js");

/// Returns the page. Its script reads server-sent events from `/events`, each a JSON list of
/// [`LiveStatus`](super::LiveStatus), or of objects with `name` and `error`.
#[must_use]
pub fn live_page() -> String {
    let body = html! {
        (verdict("plain", "No run has been read yet.", ""))
        p.note id="connection" { "connecting" }
        div #runs {}
        noscript { p { "This page needs JavaScript. In a terminal: bert watch RUN --tui" } }
    };
    let code = format!("'use strict';(() => {{\n{CHART_SCRIPT}{LIVE_SCRIPT}}})();");
    let style = include_str!("live.css");
    interactive_page(
        &Head { title: "Runs", about: &[] },
        &body,
        Script { code: &code, style, data: "null", connects: true },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_named_by_lock_and_step() {
        assert_eq!(state(true, 3, 10), (LiveState::Running, "running".into()));
        assert_eq!(state(false, 1000, 2000), (LiveState::Stopped, "stopped at step 1,000".into()));
        assert_eq!(state(false, 10, 10), (LiveState::Finished, "finished".into()));
    }

    #[test]
    fn page_connects_to_its_own_server_only() {
        let page = live_page();
        assert!(page.contains("; connect-src 'self'\"") && page.contains("new EventSource('/events')"));
        for outside in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
    }
}
