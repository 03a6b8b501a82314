//! Renders embeddings as points along their principal components.

use bert_inference::{ProjectedPoint, Projection};
use bert_pages::{Cell, Head, Script, interactive_page, table, verdict};
use maud::html;
use serde_json::json;

/// Number of points in the table for browsers without JavaScript.
const ROWS: usize = 100;

/// Returns the page of a projection of the embeddings of a model. `groups` has the label of each point, which sets its
/// colour.
#[must_use]
pub fn projector_page(title: &str, projection: &Projection, groups: Option<&[String]>) -> String {
    let Projection { points, explained } = projection;
    let short = |x: f64| (x * 1e4).round() / 1e4;
    let data = points.iter().map(|ProjectedPoint { label, coordinates, neighbours }| {
        let neighbours: Vec<_> =
            neighbours.iter().map(|(at, cosine)| json!([at, short(f64::from(*cosine))])).collect();
        json!([label, coordinates.map(short), neighbours])
    });
    let data: Vec<_> = data.collect();
    let chosen = closest(projection);
    let data =
        json!({ "points": data, "explained": explained.map(short), "groups": groups, "chosen": chosen });
    let data = data.to_string();
    let nearest = |point: &ProjectedPoint| {
        let names = point.neighbours.iter().map(|(at, cosine)| format!("{} {cosine:.2}", points[*at].label));
        names.collect::<Vec<String>>().join(", ")
    };
    let rows =
        points.iter().take(ROWS).map(|point| vec![point.label.as_str().into(), Cell::Text(nearest(point))]);
    let result = projection.points[chosen].neighbours.first().map(|(at, cosine)| {
        let [one, other] = [chosen, *at].map(|at| projection.points[at].label.as_str());
        format!(
            "The nearest vectors are \u{201c}{one}\u{201d} and \u{201c}{other}\u{201d} (cosine {cosine:.2})."
        )
    });
    let shown = 100.0 * (explained[0] + explained[1]);
    let remark = format!("The picture shows {shown:.0} % of the variance; the lists use all dimensions.");
    let body = html! {
        (verdict("plain", &result.unwrap_or_default(), &remark))
        div #app {}
        noscript {
            p.note { "With JavaScript this page shows the points. The first " (points.len().min(ROWS)) ":" }
            (table(&["text", "nearest (cosine)"], rows))
        }
        details {
            summary { "How to read this" }
            p {
                "The axes are the directions in which the vectors differ most (principal components), with their shares of the \
                 variance. Two points that are near here may be far apart in the other dimensions. The list of nearest vectors \
                 uses all dimensions."
            }
        }
    };
    let script = Script {
        code: include_str!("projector.js"),
        style: include_str!("projector.css"),
        data: &data,
        connects: false,
    };
    interactive_page(&Head { title, about: &[] }, &body, script)
}

/// Returns the index of the point that is most similar to its nearest vector.
fn closest(projection: &Projection) -> usize {
    let cosine = |point: &ProjectedPoint| point.neighbours.first().map_or(-1.0, |(_, cosine)| *cosine);
    let points = projection.points.iter().enumerate();
    points.max_by(|a, b| cosine(a.1).total_cmp(&cosine(b.1))).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_points_and_escapes_labels() {
        let point = |label: &str, other: usize| ProjectedPoint {
            label: label.to_string(),
            coordinates: [0.5, 0.25, 0.0],
            neighbours: vec![(other, 0.75)],
        };
        let points = vec![point("</script><b>", 1), point("river", 0)];
        let html = projector_page("Embeddings", &Projection { points, explained: [0.5, 0.3, 0.1] }, None);
        assert!(
            html.contains("\"points\":[[\"\\u003c/script>\\u003cb>\",[0.5,0.25,0.0],[[1,0.75]]]"),
            "{html}"
        );
        assert!(!html.contains("<b>") && html.contains("&lt;/script&gt;&lt;b&gt; 0.75"), "{html}");
    }
}
