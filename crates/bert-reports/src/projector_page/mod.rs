//! Renders embeddings as points along their principal components.

use bert_inference::{ProjectedPoint, Projection};
use bert_pages::{Cell, Script, interactive_page, table};
use maud::html;
use serde_json::json;

/// Number of points in the table for browsers without JavaScript.
const ROWS: usize = 100;

/// Returns the page of a projection of the embeddings of a model.
#[must_use]
pub fn projector_page(title: &str, projection: &Projection) -> String {
    let Projection { points, explained } = projection;
    let short = |x: f64| (x * 1e4).round() / 1e4;
    let data = points.iter().map(|ProjectedPoint { label, coordinates, neighbours }| {
        let neighbours: Vec<_> =
            neighbours.iter().map(|(at, cosine)| json!([at, short(f64::from(*cosine))])).collect();
        json!([label, coordinates.map(short), neighbours])
    });
    let data: Vec<_> = data.collect();
    let data = json!({ "points": data, "explained": explained.map(short) }).to_string();
    let nearest = |point: &ProjectedPoint| {
        let names = point.neighbours.iter().map(|(at, cosine)| format!("{} {cosine:.2}", points[*at].label));
        names.collect::<Vec<String>>().join(", ")
    };
    let rows =
        points.iter().take(ROWS).map(|point| vec![point.label.as_str().into(), Cell::Text(nearest(point))]);
    let body = html! {
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
    interactive_page(title, &body, script)
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
        let html = projector_page("Embeddings", &Projection { points, explained: [0.5, 0.3, 0.1] });
        assert!(
            html.contains("\"points\":[[\"\\u003c/script>\\u003cb>\",[0.5,0.25,0.0],[[1,0.75]]]"),
            "{html}"
        );
        assert!(!html.contains("<b>") && html.contains("&lt;/script&gt;&lt;b&gt; 0.75"), "{html}");
    }
}
