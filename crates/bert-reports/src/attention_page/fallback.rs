//! Renders one layer for browsers without JavaScript: a heat map, and the largest weights of each token.

use bert_inference::{Attention, NamedAttention};
use bert_pages::{Cell, heat_map, table};
use maud::{Markup, html};

use crate::attention_page::codes::mean_of_heads;

/// The blue of the style sheet in light mode, readable on both backgrounds.
const BLUE: [u8; 3] = [31, 111, 235];
/// Number of weights in a row of the table.
const STRONGEST: usize = 3;
/// Maximum number of tokens with a name next to the heat map.
const MOST_NAMES: usize = 128;

/// Renders the first layer of a model, averaged over its heads.
pub(super) fn fallback(model: &NamedAttention<'_>) -> Markup {
    let NamedAttention { name, attention } = model;
    let tokens = &attention.tokens;
    let layer = attention.layer_numbers[0];
    html! {
        h2 { (name) ", layer " (layer) ", mean of " (attention.head_numbers.len()) " heads" }
        p.note { "With JavaScript this page shows all layers and heads. Rows are queries, columns keys." }
        @let named = tokens.len() <= MOST_NAMES;
        div.map style=[named.then(|| format!("--tokens:{}", tokens.len()))] {
            @if named { ol { @for token in tokens { li { (token) } } } }
            (heat_map(&mean_of_heads(attention, 0), tokens.len(), BLUE, "attention weights of all pairs of tokens"))
        }
        (table(&["token", "attends most to"], tokens.iter().enumerate().map(|(query, token)| {
            vec![token.as_str().into(), Cell::Text(strongest(attention, query))]
        })))
    }
}

/// Returns the tokens with the largest mean weights of a query in the first layer, with these weights.
fn strongest(attention: &Attention, query: usize) -> String {
    let heads = attention.head_numbers.len();
    let mean =
        |key: usize| (0..heads).map(|head| attention.weight(0, head, query, key)).sum::<f32>() / heads as f32;
    let mut keys: Vec<(usize, f32)> = (0..attention.tokens.len()).map(|key| (key, mean(key))).collect();
    keys.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown =
        keys.iter().take(STRONGEST).map(|(key, mean)| format!("{} {mean:.2}", attention.tokens[*key]));
    shown.collect::<Vec<String>>().join(", ")
}
