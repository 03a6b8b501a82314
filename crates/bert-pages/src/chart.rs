//! Draws curves over an axis, with reference levels, as an SVG that a script makes interactive.
//!
//! The chart has labelled axes, round ticks and a legend, in the page's colours. In a [`crate::chart_page`] the script
//! `chart.js` draws it again from its data, with values under the pointer, zoom and other axes.

use std::fmt;

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::document::grouped;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 306.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 888.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 258.0;

/// The style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// One line of a [`chart`].
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    name: String,
    color: &'static str,
    line: Line,
    points: Vec<(f64, f64)>,
    scale: Option<StepScale>,
}

/// Converts the steps of a run to other x axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepScale {
    /// Sequences in a step.
    pub sequences: f64,
    /// Tokens in a step; 0 if unknown.
    pub tokens: f64,
    /// Steps, ascending, and the hours from the start of the run to each; between them the time is linear.
    pub hours: Vec<(f64, f64)>,
}

impl StepScale {
    fn json(&self) -> Value {
        let (steps, hours): (Vec<f64>, Vec<f64>) = self.hours.iter().copied().unzip();
        json!({ "sequences": self.sequences, "tokens": self.tokens, "hours": [steps, hours] })
    }
}

impl Curve {
    /// Creates a curve in a CSS colour, with its points in the order of x. It appears in the legend if it has a name;
    /// points that are not finite are skipped.
    #[must_use]
    pub fn new(name: impl Into<String>, color: &'static str, line: Line, points: Vec<(f64, f64)>) -> Self {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        Self {
            name: name.into(),
            color,
            line,
            points: points.into_iter().filter(finite).collect(),
            scale: None,
        }
    }

    /// Adds other x axes to a curve over steps.
    #[must_use]
    pub fn with_scale(self, scale: &StepScale) -> Self {
        Self { scale: Some(scale.clone()), ..self }
    }

    /// Returns the data of the script.
    fn json(&self) -> Value {
        let line = match self.line {
            Line::Plain => "plain",
            Line::Pale => "pale",
            Line::Marked => "marked",
            Line::Dashed => "dashed",
        };
        let (xs, ys): (Vec<f64>, Vec<f64>) = self.points.iter().map(|&(x, y)| (x, six_digits(y))).unzip();
        let scale = self.scale.as_ref().map(StepScale::json);
        json!({ "name": self.name, "color": self.color, "line": line, "xs": xs, "ys": ys, "scale": scale })
    }

    fn class(&self) -> Option<&'static str> {
        match self.line {
            Line::Plain | Line::Marked => None,
            Line::Pale => Some("pale"),
            Line::Dashed => Some("dashed"),
        }
    }
}

/// Returns a value with six significant digits, which is shorter as text.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the data of a chart for the script.
#[must_use]
pub fn chart_data(x: &str, y: &str, curves: &[Curve], levels: &[(&str, f64)]) -> Value {
    let levels: Vec<_> = levels.iter().filter(|(_, value)| value.is_finite()).collect();
    let curves: Vec<Value> = curves.iter().map(Curve::json).collect();
    json!({ "x": x, "y": y, "curves": curves, "levels": levels })
}

/// Draws curves over the axes `x` and `y`, and reference levels as dashed horizontal lines. The y axis has the range of
/// the curves, pale ones excepted; levels outside it are named at the edge. Returns a note if there is nothing to draw.
#[must_use]
pub fn chart(x: &str, y: &str, curves: &[Curve], levels: &[(&str, f64)]) -> Markup {
    if curves.iter().all(|curve| curve.points.is_empty()) {
        return html! { p.note { "No points to draw yet." } };
    }
    let data = chart_data(x, y, curves, levels).to_string().replace('<', "\\u003c");
    html! {
        div.chart {
            (picture(x, y, curves, levels))
            script type="application/json" { (PreEscaped(data)) }
        }
    }
}

/// Draws a chart for browsers without JavaScript.
fn picture(x: &str, y: &str, curves: &[Curve], levels: &[(&str, f64)]) -> Markup {
    let levels: Vec<_> = levels.iter().filter(|(_, value)| value.is_finite()).collect();
    let points = |with_pale: bool| {
        curves
            .iter()
            .filter(move |curve| with_pale || curve.line != Line::Pale)
            .flat_map(|curve| &curve.points)
    };
    let x_max = points(true).map(|point| point.0).fold(1e-9, f64::max);
    let only_pale = points(false).next().is_none();
    let (low, high) = y_range(points(only_pale).map(|point| point.1));
    let tenths = |value: f64| format!("{value:.1}");
    let x_at = |value: f64| tenths(LEFT + (RIGHT - LEFT) * value / x_max);
    let y_at = |value: f64| tenths(BOTTOM - (BOTTOM - TOP) * (value.clamp(low, high) - low) / (high - low));
    let rule = |value: f64, class: Option<&str>| {
        html! { line class=[class] x1=(LEFT) x2=(RIGHT) y1=(y_at(value)) y2=(y_at(value)) {} }
    };
    let outside =
        |y: f64, text: fmt::Arguments| html! { text.halo x=(RIGHT) y=(y) text-anchor="end" { (text) } };
    // A label at the right end would be cut off.
    let anchor = |value: f64| if value > 0.97 * x_max { "end" } else { "middle" };
    html! {
        (legend(curves))
        div.scroll {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (y) " over " (x) } {
                @for (value, text) in ticks(low, high) {
                    (rule(value, None))
                    text x=(LEFT - 8.0) y=(y_at(value)) dy="4" text-anchor="end" { (text) }
                }
                @for (value, text) in ticks(0.0, x_max) {
                    text x=(x_at(value)) y=(BOTTOM + 18.0) text-anchor=(anchor(value)) { (text) }
                }
                text x=((LEFT + RIGHT) / 2.0) y=(HEIGHT - 8.0) text-anchor="middle" { (x) }
                text transform={ "translate(14 " ((TOP + BOTTOM) / 2.0) ") rotate(-90)" } text-anchor="middle" { (y) }
                @for &&(name, value) in levels.iter().filter(|(_, value)| (low..=high).contains(value)) {
                    (rule(value, Some("level")))
                    text.halo x=(RIGHT) y=(y_at(value)) dy="-5" text-anchor="end" {
                        (name) (format_args!(" {value:.3}"))
                    }
                }
                @for (row, (name, value)) in levels.iter().filter(|(_, value)| *value > high).enumerate() {
                    (outside(TOP + 11.0 + 16.0 * row as f64, format_args!("{name} {value:.3} ↑")))
                }
                @for (row, (name, value)) in levels.iter().filter(|(_, value)| *value < low).enumerate() {
                    (outside(BOTTOM - 5.0 - 16.0 * row as f64, format_args!("{name} {value:.3} ↓")))
                }
                @for curve in curves {
                    g class=[curve.class()] style={ "--color:" (curve.color) } {
                        polyline points={ @for &(x, y) in &curve.points { (x_at(x)) "," (y_at(y)) " " } } {}
                        @for &(x, y) in curve.points.iter().filter(|_| curve.line == Line::Marked) {
                            circle cx=(x_at(x)) cy=(y_at(y)) r="3.5" {
                                title { (tick_text(x, 0.01)) (format_args!(": {y:.4}")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the names of the curves in their colours.
fn legend(curves: &[Curve]) -> Markup {
    html! {
        p.legend {
            @for curve in curves.iter().filter(|curve| !curve.name.is_empty()) {
                span class=[curve.class()] style={ "--color:" (curve.color) } { (curve.name) }
            }
        }
    }
}

/// Returns the range from the lowest to the highest value with a margin; it ends at zero if no value is negative.
fn y_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    let margin = 0.06 * (high - low).max(1e-6 * high.abs()).max(1e-9);
    (if low >= 0.0 { (low - margin).max(0.0) } else { low - margin }, high + margin)
}

/// Returns four to eight round values between `low` and `high`, with their labels.
fn ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|n| n as f64 * step).map(|value| (value, tick_text(value, step))).collect()
}

/// Formats a value with as many decimals as its step needs: `0.25`, `1,500`, `2e-4`.
fn tick_text(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    if step < 1e-3 {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let whole = |x: f64| (x - x.round()).abs() < 1e-6;
    if value > 0.0 && whole(value) {
        return grouped(value.round() as u64);
    }
    let decimals = (0..4).find(|d| whole(step * 10f64.powi(*d))).unwrap_or(4) as usize;
    format!("{value:.decimals$}")
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

    fn drawn(points: Vec<(f64, f64)>, name: &str) -> String {
        let curve = Curve::new(name, "var(--a)", Line::Marked, points);
        chart("step", "loss (nats)", &[curve], &[(name, 2.0), ("unknown", f64::NAN)]).into_string()
    }

    #[test]
    fn axes_are_labelled_and_ticks_are_round() {
        let svg = drawn(vec![(0.0, 1.0), (1500.0, 3.0), (2000.0, f64::NAN)], "training");
        for text in [">step<", ">loss (nats)<", ">training<", ">500<", ">1,500<", ">1.5<", ">training 2.000<"]
        {
            assert!(svg.contains(text), "{text}\n{svg}");
        }
        assert!(svg.contains("<title>1,500: 3.0000</title>") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn levels_outside_the_curves_are_named_at_the_edge() {
        let svg = drawn(vec![(0.0, 5.0), (10.0, 6.0)], "unigram");
        assert!(svg.contains(">unigram 2.000 ↓<"), "{svg}");
        assert!(
            svg.contains(">5.2<") && !svg.contains(">2.0<"),
            "the axis has the range of the curve: {svg}"
        );
    }

    #[test]
    fn script_gets_the_points_and_the_scale() {
        let scale = StepScale { sequences: 8.0, tokens: 0.0, hours: vec![(1.0, 0.5)] };
        let curve = Curve::new("a", "red", Line::Pale, vec![(1.0, 2.0 / 3.0)]).with_scale(&scale);
        let data = chart_data("step", "loss", &[curve], &[("b", f64::NAN), ("c", 1.0)]);
        let curve = &data["curves"][0];
        assert_eq!((&curve["xs"], &curve["ys"]), (&json!([1.0]), &json!([0.666667])));
        assert_eq!(curve["scale"], json!({ "sequences": 8.0, "tokens": 0.0, "hours": [[1.0], [0.5]] }));
        assert_eq!(data["levels"], json!([["c", 1.0]]));
    }

    #[test]
    fn ticks_are_multiples_of_a_round_step() {
        let texts = |low, high| -> Vec<String> { ticks(low, high).into_iter().map(|t| t.1).collect() };
        assert_eq!(texts(0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(texts(0.0, 1200.0), ["0", "200", "400", "600", "800", "1,000", "1,200"]);
        assert_eq!(texts(-0.3, 1.2), ["-0.25", "0", "0.25", "0.50", "0.75", "1"]);
        assert_eq!(texts(0.48, 0.9), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(texts(0.0, 1e-3), ["0", "2e-4", "4e-4", "6e-4", "8e-4", "1e-3"]);
        assert_eq!(texts(0.0, 9000.0), ["0", "2,000", "4,000", "6,000", "8,000"]);
        assert!(texts(3.0, 3.0 + 1e-9).len() < 12);
    }

    #[test]
    fn names_are_escaped_and_empty_charts_are_noted() {
        assert!(drawn(vec![(0.0, 1.0)], "<script>").contains("&lt;script&gt;"));
        assert!(!drawn(vec![(0.0, 1.0)], "<script>").contains("<script>"));
        assert!(drawn(vec![(0.0, 1.0)], "<b>").contains("\"name\":\"\\u003cb>\""));
        assert!(drawn(vec![(0.0, f64::NAN)], "x").contains("No points"));
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
