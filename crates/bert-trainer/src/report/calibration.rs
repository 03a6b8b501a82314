//! Draws the reliability diagram of a fine-tuning's best run: how sure it is, and how often it is right.

use serde_json::Value;

use super::chart::{Chart, Curve, Line};
use crate::significance::Calibration;

/// The diagram of a run; nothing for a regression, and for reports of earlier versions.
pub(super) fn calibration_figure(run: &Value) -> String {
    let Ok(calibration) = serde_json::from_value::<Calibration>(run["calibration"].clone()) else {
        return String::new();
    };
    let points = calibration.bins.iter().map(|bin| (bin.confidence, bin.accuracy)).collect();
    let curve = |name: &str, color, line, points| Curve { name: name.into(), color, line, points };
    let curves = vec![
        curve("as often right as it is sure", "var(--soft)", Line::Broken, vec![(0.0, 0.0), (1.0, 1.0)]),
        curve("this run", "var(--a)", Line::Marked, points),
    ];
    format!(
        "<h2>Calibration, seed {}</h2>\n<p class=\"note\">Expected calibration error {:.3}: by so much its confidence and \
         the share of its right answers differ, in the mean over the dev set. Points below the line: it is too sure.</p>\n{}",
        run["seed"],
        calibration.expected_error,
        Chart { x: "confidence", y: "share of right answers", curves, levels: Vec::new() }.svg()
    )
}
