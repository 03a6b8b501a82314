//! Curves over an axis, with reference levels. The script `chart.js` draws them from their data, with values at the pointer,
//! zoom and other axes.

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::{Value, json};

/// Number of series with a colour of the style sheet.
const COLORS: usize = 10;

/// Returns the CSS colour of the series with this number, from 0; no two numbers have the same.
#[must_use]
pub fn series_color(number: usize) -> Cow<'static, str> {
    // The golden angle keeps the hues apart.
    let hue = (number as f64 * 137.508) % 360.0;
    if number < COLORS {
        format!("var(--s{number})").into()
    } else {
        format!("hsl({hue:.1} 60% var(--lightness))").into()
    }
}

/// The style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A line.
    Plain,
    /// A pale line, for raw values under a smoothed curve.
    Pale,
    /// A line with a mark at every point, which shows its value on hover.
    Marked,
    /// A dashed line, for a curve to compare with.
    Dashed,
}

/// One line of a [`chart`], in the form of the script.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    name: String,
    color: Cow<'static, str>,
    line: Line,
    xs: Vec<f64>,
    ys: Vec<f64>,
    scale: Option<StepScale>,
}

/// The data for converting the steps of a run to other x axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepScale {
    /// Sequences in a step.
    pub sequences: f64,
    /// Tokens in a step; 0 if unknown.
    pub tokens: f64,
    /// Steps, ascending, and the hours from the start of the run to each; between two steps, the time is interpolated
    /// linearly.
    pub hours: [Vec<f64>; 2],
}

impl Curve {
    /// Creates a curve in a CSS colour ([`series_color`]), with its points in the order of x. It is named at its end if it has
    /// a name; points that are not finite are skipped.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        color: Cow<'static, str>,
        line: Line,
        points: Vec<(f64, f64)>,
    ) -> Self {
        let finite = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (xs, ys) = finite.map(|(x, y)| (x, six_digits(y))).unzip();
        Self { name: name.into(), color, line, xs, ys, scale: None }
    }

    /// Returns a curve over steps with other x axes added.
    #[must_use]
    pub fn with_scale(self, scale: &StepScale) -> Self {
        Self { scale: Some(scale.clone()), ..self }
    }
}

/// Returns a value rounded to six significant digits, so that it is shorter as text.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the data of a chart for the script.
#[must_use]
pub fn chart_data(x: &str, y: &str, curves: &[Curve], levels: &[(&str, f64)]) -> Value {
    let levels: Vec<_> = levels.iter().filter(|(_, value)| value.is_finite()).collect();
    json!({ "x": x, "y": y, "curves": curves, "levels": levels })
}

/// Returns the element and the data of a chart: curves over the axes `x` and `y`, and reference levels as dashed
/// horizontal lines. The y axis has the range of the curves, pale ones excepted; levels outside it are named at the
/// edge. Returns a note if there is nothing to draw. A reader without JavaScript sees the name of the axis and a note.
#[must_use]
pub fn chart(x: &str, y: &str, curves: &[Curve], levels: &[(&str, f64)]) -> Markup {
    if curves.iter().all(|curve| curve.xs.is_empty()) {
        return html! { p.note { "No points to draw yet." } };
    }
    let data = chart_data(x, y, curves, levels).to_string().replace('<', "\\u003c");
    html! {
        div.chart {
            noscript { p.note { (y) " by " (x) ": JavaScript draws this chart." } }
            script type="application/json" { (PreEscaped(data)) }
        }
    }
}

/// Returns at most `max_points` points: means over segments of equal length, so that a long curve stays small.
#[must_use]
pub fn downsample(points: &[(f64, f64)], max_points: usize) -> Vec<(f64, f64)> {
    let segment = points.len().div_ceil(max_points.max(1)).max(1);
    points.chunks(segment).map(mean).collect()
}

/// Returns the mean over the `window` points around each point, fewer at both ends.
#[must_use]
pub fn smooth(points: &[(f64, f64)], window: usize) -> Vec<(f64, f64)> {
    let half = window / 2;
    let window_at = |index: usize| &points[index.saturating_sub(half)..points.len().min(index + half + 1)];
    points.iter().enumerate().map(|(index, point)| (point.0, mean(window_at(index)).1)).collect()
}

fn mean(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    (sum.0 / points.len() as f64, sum.1 / points.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_gets_the_points_and_the_scale() {
        let scale = StepScale { sequences: 8.0, tokens: 0.0, hours: [vec![1.0], vec![0.5]] };
        let curve = Curve::new("a", series_color(0), Line::Pale, vec![(1.0, 2.0 / 3.0)]).with_scale(&scale);
        let data = chart_data("step", "loss", &[curve], &[("b", f64::NAN), ("c", 1.0)]);
        let curve = &data["curves"][0];
        assert_eq!((&curve["xs"], &curve["ys"]), (&json!([1.0]), &json!([0.666667])));
        assert_eq!(curve["scale"], json!({ "sequences": 8.0, "tokens": 0.0, "hours": [[1.0], [0.5]] }));
        assert_eq!(data["levels"], json!([["c", 1.0]]));
    }

    #[test]
    fn names_are_escaped_and_empty_charts_are_noted() {
        let drawn = |y| {
            let curve = Curve::new("<b>", series_color(0), Line::Marked, vec![(0.0, y)]);
            chart("step", "loss", &[curve], &[]).into_string()
        };
        assert!(drawn(1.0).contains("\"name\":\"\\u003cb>\"") && !drawn(1.0).contains("<b>"));
        assert!(drawn(f64::NAN).contains("No points"));
    }

    #[test]
    fn no_two_series_have_one_colour() {
        let colors: std::collections::HashSet<_> = (0..100).map(series_color).collect();
        assert_eq!(colors.len(), 100);
    }

    #[test]
    fn downsampling_and_smoothing_keep_means() {
        let points: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), f64::from(i))).collect();
        assert_eq!(downsample(&points, 5), [(0.5, 0.5), (2.5, 2.5), (4.5, 4.5), (6.5, 6.5), (8.5, 8.5)]);
        assert_eq!(downsample(&points, 100), points);
        assert!(downsample(&[], 5).is_empty());
        let smoothed = smooth(&points, 3);
        assert_eq!((smoothed[0].1, smoothed[5].1, smoothed[9].1), (0.5, 5.0, 8.5));
        assert_eq!(smooth(&points, 1), points);
    }
}
