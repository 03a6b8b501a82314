//! Renders the attention weights of every head for one text, as a self-contained HTML page.
//!
//! The page has one table per layer and head. A row is the token that attends, a column the token it attends to,
//! and a darker cell means a larger weight. The weights are the attention probabilities before dropout. A large
//! weight does not show that the prediction depends on that token.

use std::path::Path;

use bert_pages::{page, shade};
use maud::{Markup, html};

use crate::compute::device::DeviceName;
use crate::error::Error;
use crate::inference::Attention;

/// Returns the page for `text` (`A ||| B` is a pair), truncated to `max_length` word pieces.
///
/// # Errors
/// The errors of [`Attention::of_text`].
pub fn attention_page(folder: &Path, text: &str, max_length: usize) -> Result<String, Error> {
    let attention = Attention::of_text(folder, text, max_length, DeviceName::default())?;
    let tokens = &attention.tokens;
    let body = html! {
        (explain(tokens.len(), attention.untruncated_length))
        @for layer in 0..attention.layers() {
            h2 { "Layer " (layer + 1) }
            div.heads {
                @for (head, weights) in (1..).zip(attention.heads(layer)) {
                    figure {
                        figcaption { "head " (head) }
                        (square(tokens, weights))
                    }
                }
            }
        }
    };
    Ok(page(&format!("Attention: {text}"), &body))
}

/// Explains how to read the page, and whether the text was truncated.
fn explain(shown: usize, whole: usize) -> Markup {
    html! {
        p.note {
            "Each square is one head. A row is a query token, a column a key token, and each row sums to 1. Point at \
             a cell to read its value."
            @if shown < whole {
                " The text was truncated from " (whole) " to " (shown) " word pieces (--max-seq-length)."
            }
            " A high weight does not mean that the prediction depends on that token."
        }
        p {
            @for weight in [0.0, 0.1, 0.25, 0.5, 1.0] {
                span.key style=(ground(weight)) { (weight) }
            }
        }
    }
}

/// Returns the background of a cell. The square root makes the small probabilities, which are the majority, visible.
fn ground(weight: f32) -> String {
    format!("background:{}", shade("var(--a)", 0.85 * f64::from(weight).sqrt()))
}

/// Renders the weights of one head, row by row.
fn square(tokens: &[String], weights: &[f32]) -> Markup {
    html! {
        table.square {
            @for (token, row) in tokens.iter().zip(weights.chunks(tokens.len())) {
                tr {
                    th { (token) }
                    @for (other, weight) in tokens.iter().zip(row) {
                        td title={ (token) " attends to " (other) (format_args!(": {weight:.3}")) } style=(ground(*weight)) {}
                    }
                }
            }
            tr {
                th {}
                @for token in tokens { th.v { (token) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_has_a_cell_for_every_pair_and_escapes_tokens() {
        let html = square(&["<b>", "x"].map(String::from), &[0.25, 0.75, 1.0, 0.0]).into_string();
        assert_eq!(html.matches("<td").count(), 4);
        assert!(html.contains("&lt;b&gt; attends to x: 0.750") && !html.contains("<b>"));
    }
}
