//! What each head attends to, on one self-contained page.
//!
//! In: a checkpoint, a text. Out: HTML with one table per layer and head: row = the token that looks,
//! column = the token it looks at, the darker the more. The numbers are the attention probabilities
//! before dropout; that a head attends somewhere does not say that the prediction depends on it.

use std::fmt::Write as _;
use std::path::Path;

use bert_model::{BertConfig, BertInput, BertModel, LoadPolicy, load_pretrained_weights};
use burn::tensor::Tensor;

use crate::device::DeviceName;
use crate::error::Error;
use crate::host::{int_matrix, values};
use crate::report::{escape, page};
use crate::text::Text;

/// The page for `text` (`A ||| B` is a pair), cut to `max_length` word pieces.
///
/// # Errors
/// When the folder cannot be read.
pub fn attention_page(folder: &Path, text: &str, max_length: usize) -> Result<String, Error> {
    let device = DeviceName::default().open()?;
    let config = BertConfig::read(folder.join("config.json"))?;
    let model = BertModel::new(&config, 0, &device);
    let (model, _) = load_pretrained_weights(model, folder, LoadPolicy::FreshHeads)?;
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
    let mut body = String::from(
        "<p class=\"note\">Each square is one head. A row is the token that looks, a column the token it looks \
         at; the darker, the more. Point at a cell to read it.</p>\n",
    );
    for (layer, attention) in states.attentions.into_iter().enumerate() {
        let _ = writeln!(body, "<h2>Layer {}</h2>\n<div class=\"heads\">", layer + 1);
        for (head, matrix) in heads(attention).iter().enumerate() {
            let _ = writeln!(body, "<figure><figcaption>head {}</figcaption>", head + 1);
            body.push_str(&square(&tokens, matrix));
            body.push_str("</figure>\n");
        }
        body.push_str("</div>\n");
    }
    body.push_str(
        "<style>.heads{display:flex;flex-wrap:wrap;gap:1.5rem}figure{margin:0}.a{border-collapse:collapse}\
         .a td{width:13px;height:13px;padding:0;border:1px solid var(--line)}\
         .a th{font:11px ui-monospace,monospace;padding:0 .3rem 0 0;border:0;text-align:right}\
         .a th.v{writing-mode:vertical-rl;padding:.3rem 0 0;text-align:left}</style>\n",
    );
    Ok(page(&format!("Attention: {text}"), &body))
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
            let percent = (weight * 100.0).round();
            let title = escape(&format!("{token} looks at {other}: {weight:.3}"));
            let _ = write!(
                out,
                "<td title=\"{title}\" style=\"background:color-mix(in srgb,var(--a) {percent}%,transparent)\"></td>"
            );
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
