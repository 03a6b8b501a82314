//! Draws curves over steps or epochs, with levels to compare them with, as an SVG.
//!
//! The chart has labelled axes, round ticks and a legend, in the colours of the page.

use std::fmt::Write as _;

use bert_data::html::{escape, grouped};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 888.0;
/// The legend stands above.
const TOP: f64 = 34.0;
const BOTTOM: f64 = 282.0;

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line.
    Plain,
    /// A pale line, for what a smoother one is drawn over.
    Pale,
    /// A line with a mark at every point, whose value is shown to the pointer.
    Marked,
    /// A broken line, for another run.
    Broken,
}

/// One line of a [`Chart`].
pub(crate) struct Curve {
    /// What it is called in the legend; not in it when empty.
    pub(crate) name: String,
    /// CSS colour.
    pub(crate) color: &'static str,
    /// How it is drawn.
    pub(crate) line: Line,
    /// Points in x order; those that are not finite are left out.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A value to compare with, drawn as a broken horizontal line.
pub(crate) struct Level {
    /// What it is called.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) value: f64,
}

/// Curves over one axis.
pub(crate) struct Chart {
    /// What the horizontal axis counts.
    pub(crate) x: &'static str,
    /// What the vertical axis measures, with its unit.
    pub(crate) y: &'static str,
    /// The lines.
    pub(crate) curves: Vec<Curve>,
    /// Values to compare with.
    pub(crate) levels: Vec<Level>,
}

impl Chart {
    /// The chart, or a note where there is nothing to draw.
    pub(crate) fn svg(mut self) -> String {
        for curve in &mut self.curves {
            curve.points.retain(|(x, y)| x.is_finite() && y.is_finite());
        }
        self.levels.retain(|level| level.value.is_finite());
        if self.curves.iter().all(|curve| curve.points.is_empty()) {
            return String::from("<p class=\"note\">No points to draw yet.</p>\n");
        }
        let scale = Scale::new(&self);
        let label = escape(&format!("{} over {}", self.y, self.x));
        // A narrow screen scrolls the chart instead of shrinking its figures until nobody can read them.
        let mut out = format!(
            "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n"
        );
        self.axes(&scale, &mut out);
        for level in &self.levels {
            draw_level(level, &scale, &mut out);
        }
        for curve in &self.curves {
            draw_curve(curve, &scale, &mut out);
        }
        self.legend(&mut out);
        out + "</svg></div>\n"
    }

    fn axes(&self, scale: &Scale, out: &mut String) {
        for (value, text) in ticks(scale.y.0, scale.y.1) {
            let y = scale.y(value);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--line)\"/>\
                 <text x=\"{}\" y=\"{y:.1}\" dy=\"4\" text-anchor=\"end\">{text}</text>",
                LEFT - 8.0
            );
        }
        for (value, text) in ticks(0.0, scale.x_max) {
            let x = scale.x(value);
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                BOTTOM + 18.0
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(self.x),
            (TOP + BOTTOM) / 2.0,
            escape(self.y)
        );
    }

    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for curve in self.curves.iter().filter(|curve| !curve.name.is_empty()) {
            let dash = if curve.line == Line::Broken { " stroke-dasharray=\"7 4\"" } else { "" };
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"14\" y2=\"14\" stroke=\"{}\" stroke-width=\"3\"{dash}/>\
                 <text x=\"{:.1}\" y=\"14\" dy=\"4\">{}</text>",
                x + 22.0,
                escape(curve.color),
                x + 28.0,
                escape(&curve.name)
            );
            x += 58.0 + 7.5 * curve.name.chars().count() as f64;
        }
    }
}

/// From values to places.
struct Scale {
    x_max: f64,
    y: (f64, f64),
}

impl Scale {
    fn new(chart: &Chart) -> Self {
        let points = || chart.curves.iter().flat_map(|curve| &curve.points);
        let ys = || points().map(|p| p.1).chain(chart.levels.iter().map(|level| level.value));
        let (low, high) = (ys().fold(f64::INFINITY, f64::min), ys().fold(f64::NEG_INFINITY, f64::max));
        let margin = 0.06 * (high - low).max(1e-6 * high.abs()).max(1e-9);
        // Nothing that is drawn can be negative: the margin stops at zero.
        let bottom = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
        Self { x_max: points().map(|p| p.0).fold(1e-9, f64::max), y: (bottom, high + margin) }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * value / self.x_max
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (value - self.y.0) / (self.y.1 - self.y.0)
    }
}

fn draw_level(level: &Level, scale: &Scale, out: &mut String) {
    let y = scale.y(level.value);
    let _ = writeln!(
        out,
        "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--soft)\" \
         stroke-dasharray=\"2 5\"/><text class=\"halo\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">{} {:.3}</text>",
        y - 5.0,
        escape(&level.name),
        level.value
    );
}

fn draw_curve(curve: &Curve, scale: &Scale, out: &mut String) {
    let mut path = String::new();
    for (place, (x, y)) in curve.points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if place == 0 { "M" } else { "L" }, scale.x(*x), scale.y(*y));
    }
    let color = escape(curve.color);
    let how = match curve.line {
        Line::Pale => "stroke-width=\"1\" opacity=\".35\"",
        Line::Broken => "stroke-width=\"2\" stroke-dasharray=\"7 4\"",
        Line::Plain | Line::Marked => "stroke-width=\"2\"",
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-linejoin=\"round\" {how}/>"
    );
    if curve.line == Line::Marked {
        for (x, y) in &curve.points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{color}\"><title>{}: {y:.4}</title></circle>",
                scale.x(*x),
                scale.y(*y),
                escape(&tick_text(*x, 0.01))
            );
        }
    }
}

/// Round values between `low` and `high`, four to eight of them, with their texts.
fn ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|n| n as f64 * step).map(|value| (value, tick_text(value, step))).collect()
}

/// A value with the decimals its step needs: `0.25`, `1,500`, `2e-4`.
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

/// At most `most` points: means over equal stretches, so that a long curve stays small.
pub(crate) fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(most.max(1)).max(1);
    points.chunks(stretch).map(mean).collect()
}

/// The mean over the `window` points around each point, fewer at both ends.
pub(crate) fn smooth(points: &[(f64, f64)], window: usize) -> Vec<(f64, f64)> {
    let half = window / 2;
    let around = |at: usize| &points[at.saturating_sub(half)..points.len().min(at + half + 1)];
    points.iter().enumerate().map(|(at, point)| (point.0, mean(around(at)).1)).collect()
}

fn mean(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    (sum.0 / points.len() as f64, sum.1 / points.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, name: &str) -> String {
        let curve = Curve { name: name.into(), color: "var(--a)", line: Line::Marked, points };
        let levels = vec![Level { name: name.into(), value: 2.0 }];
        Chart { x: "step", y: "loss (nats)", curves: vec![curve], levels }.svg()
    }

    #[test]
    fn axes_are_labelled_and_ticks_are_round() {
        let svg = chart(vec![(0.0, 1.0), (1500.0, 3.0), (2000.0, f64::NAN)], "training");
        for text in [">step<", ">loss (nats)<", ">training<", ">500<", ">1,500<", ">1.5<", ">training 2.000<"]
        {
            assert!(svg.contains(text), "{text}\n{svg}");
        }
        assert!(svg.contains("<title>1,500: 3.0000</title>") && !svg.contains("NaN"), "{svg}");
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
    fn names_are_escaped_and_nothing_is_said_without_points() {
        assert!(chart(vec![(0.0, 1.0)], "<script>").contains("&lt;script&gt;"));
        assert!(!chart(vec![(0.0, 1.0)], "<script>").contains("<script>"));
        assert!(chart(vec![(0.0, f64::NAN)], "x").contains("No points"));
    }

    #[test]
    fn thinning_and_smoothing_keep_means() {
        let points: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), f64::from(i))).collect();
        assert_eq!(thin(&points, 5), [(0.5, 0.5), (2.5, 2.5), (4.5, 4.5), (6.5, 6.5), (8.5, 8.5)]);
        assert_eq!(thin(&points, 100), points);
        assert!(thin(&[], 5).is_empty());
        let smoothed = smooth(&points, 3);
        assert_eq!((smoothed[0].1, smoothed[5].1, smoothed[9].1), (0.5, 5.0, 8.5));
        assert_eq!(smooth(&points, 1), points);
    }
}
