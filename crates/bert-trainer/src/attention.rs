//! Draws what every attention head attends to in one text, as a self-contained HTML page.
//!
//! The page has one table per layer and head. A row is the token that attends, a column the token it attends to,
//! and a darker cell means a larger weight. The weights are the attention probabilities before dropout. A large
//! weight does not show that the prediction depends on that token.

use std::fmt::Write as _;
use std::path::Path;

use bert_data::html::{document, escape};
use bert_model::BertInput;
use burn::tensor::Tensor;

use crate::device_name::DeviceName;
use crate::error::Error;
use crate::host::{int_matrix, values};
use crate::inference::load_encoder;
use crate::text::Text;

const STYLE: &str = "
.heads { display: flex; flex-wrap: wrap; gap: 1.75rem; } figure { margin: 0; max-width: 100%; overflow-x: auto; }
figcaption { font-size: .9rem; padding-bottom: .3rem; }
.a { border-collapse: collapse; overflow-wrap: normal; }
.a td { width: 14px; min-width: 14px; height: 14px; padding: 0; border: 1px solid var(--line); }
.a th { font: 12px ui-monospace, monospace; padding: 0 .35rem 0 0; border: 0; text-align: right; white-space: nowrap; }
.a th.v { writing-mode: vertical-rl; padding: .35rem 0 0; text-align: left; }
.key { display: inline-block; width: 2.8rem; white-space: nowrap; text-align: center; border: 1px solid var(--line); }
";

/// The page for `text` (`A ||| B` is a pair), cut to `max_length` word pieces.
///
/// # Errors
/// When the folder cannot be read.
pub fn attention_page(folder: &Path, text: &str, max_length: usize) -> Result<String, Error> {
    let device = DeviceName::default().open()?;
    let (model, config) = load_encoder(folder, &device)?;
    let words = Text::open(folder)?;
    let encoded = words.encode_with_masks(text, max_length.min(config.max_position_embeddings));
    let ids: Vec<i32> = encoded.input_ids.iter().map(|&id| id as i32).collect();
    let segments: Vec<i32> = encoded.segment_ids.iter().map(|&id| id as i32).collect();
    let shape = [1, ids.len()];
    let states = model.forward_with_states(BertInput {
        input_ids: int_matrix(&ids, shape, &device),
        input_mask: int_matrix(&vec![1; ids.len()], shape, &device),
        segment_ids: int_matrix(&segments, shape, &device),
    });
    let tokens: Vec<&str> = encoded.input_ids.iter().map(|&id| words.vocabulary.token(id)).collect();
    let whole = words.encode_with_masks(text, usize::MAX).input_ids.len();
    let mut body = explain(tokens.len(), whole);
    for (layer, attention) in states.attentions.into_iter().enumerate() {
        let _ = writeln!(body, "<h2>Layer {}</h2>\n<div class=\"heads\">", layer + 1);
        for (head, matrix) in heads(attention).iter().enumerate() {
            let _ = writeln!(body, "<figure><figcaption>head {}</figcaption>", head + 1);
            body.push_str(&square(&tokens, matrix));
            body.push_str("</figure>\n");
        }
        body.push_str("</div>\n");
    }
    Ok(document(&format!("Attention: {text}"), STYLE, &body))
}

/// How to read the page, and whether the text was cut.
fn explain(shown: usize, whole: usize) -> String {
    let key = [0.0, 0.1, 0.25, 0.5, 1.0]
        .map(|weight| format!("<span class=\"key\" style=\"background:{}\">{weight}</span>", shade(weight)));
    let cut = match shown < whole {
        true => format!(" The text was cut from {whole} to {shown} word pieces (--max-seq-length)."),
        false => String::new(),
    };
    format!(
        "<p class=\"note\">Each square is one head: a row is the token that looks, a column the token it looks at, and \
         a row adds up to 1. Point at a cell to read it.{cut} That a head looks somewhere does not say that the \
         prediction depends on it.</p>\n<p>{}</p>\n",
        key.join("")
    )
}

/// The colour of a probability. The root makes the small ones, which are most, visible.
fn shade(weight: f32) -> String {
    let percent = (weight.sqrt() * 85.0).round();
    format!("color-mix(in srgb,var(--a) {percent}%,transparent)")
}

/// The probabilities of each head of the one sequence in the batch, row by row.
fn heads(attention: Tensor<4>) -> Vec<Vec<Vec<f32>>> {
    let [_, heads, seq, _] = attention.dims();
    let values = values(attention);
    let matrices = values.chunks(seq * seq).take(heads);
    matrices.map(|matrix| matrix.chunks(seq).map(<[f32]>::to_vec).collect()).collect()
}

fn square(tokens: &[&str], matrix: &[Vec<f32>]) -> String {
    let mut out = String::from("<table class=\"a\">\n");
    for (token, row) in tokens.iter().zip(matrix) {
        let _ = write!(out, "<tr><th>{}</th>", escape(token));
        for (other, weight) in tokens.iter().zip(row) {
            let title = escape(&format!("{token} looks at {other}: {weight:.3}"));
            let _ = write!(out, "<td title=\"{title}\" style=\"background:{}\"></td>", shade(*weight));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("<tr><th></th>");
    for token in tokens {
        let _ = write!(out, "<th class=\"v\">{}</th>", escape(token));
    }
    out.push_str("</tr>\n</table>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_has_a_cell_for_every_pair_and_escapes_tokens() {
        let html = square(&["<b>", "x"], &[vec![0.25, 0.75], vec![1.0, 0.0]]);
        assert_eq!(html.matches("<td").count(), 4);
        assert!(html.contains("&lt;b&gt; looks at x: 0.750") && !html.contains("<b>"));
    }
}
