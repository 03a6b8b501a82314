//! Shows the attention over fused adapters, as a table and as a picture.

use std::fmt::Write as _;

use bert_data::html::escape;
use serde_json::Value;

use super::table;
use crate::finetune::FusionReport;

/// Sides of a cell of the picture.
const CELL: (usize, usize) = (84, 26);

/// Room for the names of the layers and adapters.
const MARGIN: (usize, usize) = (70, 24);

/// Nothing where no adapters were fused.
pub(super) fn fusion_figure(report: &Value) -> String {
    let Ok(fusion) = serde_json::from_value::<FusionReport>(report["fusion"].clone()) else {
        return String::new();
    };
    let header: Vec<&str> = std::iter::once("").chain(fusion.adapters.iter().map(String::as_str)).collect();
    let row = |(layer, shares): (usize, &Vec<f64>)| {
        let shares = shares.iter().map(|share| format!("{share:.3}"));
        std::iter::once(format!("layer {}", layer + 1)).chain(shares).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = fusion.shares.iter().enumerate().map(row).collect();
    format!(
        "<h2>Attention over the adapters</h2>\n<p class=\"note\">The mean share of each adapter over the tokens of dev, best run. \
         Equal shares would be {:.3}. The regularizer adds {:.4} to the loss.</p>\n{}{}",
        1.0 / fusion.adapters.len() as f64,
        fusion.regularization,
        picture(&fusion),
        table(&header, &rows)
    )
}

/// A cell for each layer and adapter, the darker the larger its share.
fn picture(fusion: &FusionReport) -> String {
    let (width, height) =
        (MARGIN.0 + CELL.0 * fusion.adapters.len(), MARGIN.1 + CELL.1 * fusion.shares.len());
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\">\n");
    let text = |svg: &mut String, x: usize, y: usize, words: &str| {
        let words = escape(words);
        let _ =
            writeln!(svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"12\" fill=\"currentColor\">{words}</text>");
    };
    for (at, name) in fusion.adapters.iter().enumerate() {
        text(&mut svg, MARGIN.0 + at * CELL.0 + 4, MARGIN.1 - 8, name);
    }
    for (layer, shares) in fusion.shares.iter().enumerate() {
        let y = MARGIN.1 + layer * CELL.1;
        text(&mut svg, 0, y + 17, &format!("layer {}", layer + 1));
        for (at, share) in shares.iter().enumerate() {
            let x = MARGIN.0 + at * CELL.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"var(--a)\" fill-opacity=\"{share:.3}\"/>",
                CELL.0 - 2,
                CELL.1 - 2
            );
            text(&mut svg, x + 4, y + 17, &format!("{share:.3}"));
        }
    }
    svg + "</svg>\n"
}
