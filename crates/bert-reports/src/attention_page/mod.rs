//! Renders the attention weights of a text as a self-contained page with the views of bertviz: lines between tokens,
//! all heads at a glance, and queries and keys by dimension.
//!
//! The page has the weights in 8 bits, and a script that draws them. Without JavaScript it shows one layer. The weights
//! are the attention probabilities before dropout. A large weight does not show that the prediction depends on that
//! token.
//!
//! For browsers without JavaScript, renders one layer as a heat map and lists the largest weights of each token.

mod codes;
#[cfg(test)]
pub(crate) mod sample;

use bert_inference::{Attention, NamedAttention};
use bert_pages::{Cell, Head, Script, heat_map, interactive_page, packed, table, verdict};
use bert_tokenization::is_special_token;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::attention_page::codes::{PackedWeights, mean_of_heads, packed_vectors, weight_codes};

/// Maximum size of a page for one model, in bytes: the larger of this constant and [`PAGE_BYTES_PER_TOKEN`] for each
/// token.
const PAGE_BYTES: usize = 400_000;
const PAGE_BYTES_PER_TOKEN: usize = 5_850;

const SCRIPT: &str = concat!(
    "'use strict';(() => {\n",
    include_str!("data.js"),
    include_str!("heads.js"),
    include_str!("model.js"),
    include_str!("neurons.js"),
    include_str!("controls.js"),
    "})();"
);
const STYLE: &str = include_str!("page.css");

/// Returns the page for `text`, with the attention of one model, or of several next to each other.
///
/// `neurons` is the index, in the model, of the layer whose queries and keys are on the page. By default, the page has
/// the queries and keys of all layers, or of the first layer only if more layers would leave too little space for the
/// weights. The size of a page is at most 400 kB per model up to 68 tokens, and 5,850 bytes per token and model for
/// more tokens: small weights are stored as 0 until the page is small enough. The page states below which value
/// weights are 0.
///
/// # Panics
/// Panics if there is no model.
pub fn attention_page(text: &str, models: &[NamedAttention<'_>], neurons: Option<usize>) -> String {
    assert!(!models.is_empty(), "no model");
    let body = body(models);
    let shell = SCRIPT.len() + STYLE.len() + body.clone().into_string().len() + 8_192;
    let data: Vec<Value> =
        models.iter().map(|model| model_data(model, neurons, shell / models.len())).collect();
    let data = json!({ "models": data }).to_string();
    let script = Script { code: SCRIPT, style: STYLE, data: &data, connects: false };
    let title = format!("Attention: {}", shortened(text));
    interactive_page(&Head { title: &title, about: &[] }, &body, script)
}

/// Returns a text; a text of more than 120 characters is cut.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Returns the data of a model for the script. `shell` is the number of bytes that the page has apart from this data.
fn model_data(model: &NamedAttention<'_>, neurons: Option<usize>, shell: usize) -> Value {
    let NamedAttention { name, attention } = model;
    let limit = PAGE_BYTES.max(PAGE_BYTES_PER_TOKEN * attention.tokens.len());
    let about = json!({
        "name": name,
        "tokens": attention.tokens,
        "segments": attention.segments,
        "words": attention.words,
        "layers": attention.layer_numbers,
        "heads": attention.head_numbers,
    });
    let size =
        |vectors: &Value| vectors["data"].as_str().map_or(0, str::len) + vectors["scales"].to_string().len();
    let asked = neurons.and_then(|layer| attention.layer_numbers.iter().position(|at| *at == layer));
    let rest = shell + about.to_string().len();
    let vectors = match asked {
        Some(layer) => packed_vectors(attention, &[layer]),
        None => {
            let all = packed_vectors(attention, &(0..attention.layers.len()).collect::<Vec<usize>>());
            // Include all layers only if this leaves enough space for all weights.
            let fits = size(&all) < limit / 2
                && rest + size(&all) + packed(&weight_codes(attention, 1)).len() <= limit;
            if fits { all } else { packed_vectors(attention, &[0]) }
        }
    };
    let used = rest + size(&vectors);
    let PackedWeights { text, least } = PackedWeights::within(attention, limit.saturating_sub(used));
    let mut data = about;
    data["weights"] = text.into();
    data["least"] = json!(least);
    data["vectors"] = vectors;
    data
}

/// Renders two sentences about a model: which head attends most, on average, to the token before, the token itself or
/// the next token, and the share of the attention of all heads that is on the special tokens.
fn result(model: &NamedAttention<'_>) -> Markup {
    let NamedAttention { name, attention } = model;
    let count = attention.tokens.len();
    let heads = attention.head_numbers.len();
    let is_special: Vec<bool> = attention.tokens.iter().map(|token| is_special_token(token)).collect();
    let mut special = 0.0;
    let mut strongest = (0.0, 0, 0, 0);
    for (layer, head) in
        (0..attention.layers.len()).flat_map(|layer| (0..heads).map(move |head| (layer, head)))
    {
        let mut offsets = [0.0; 3];
        for (query, key) in (0..count).flat_map(|query| (0..count).map(move |key| (query, key))) {
            let weight = f64::from(attention.weight(layer, head, query, key));
            special += if is_special[key] { weight } else { 0.0 };
            if let Some(sum) = offsets.get_mut((key + 1).wrapping_sub(query)) {
                *sum += weight;
            }
        }
        for (offset, sum) in offsets.into_iter().enumerate() {
            let mean = sum / count as f64;
            if mean > strongest.0 {
                strongest = (mean, layer, head, offset);
            }
        }
    }
    let (mean, layer, head, offset) = strongest;
    let place = ["the token before it", "itself", "the next token"][offset];
    let text = format!(
        "{name}: in layer {}, head {}, a token gives {:.0} % of its attention to {place}, the clearest pattern.",
        attention.layer_numbers[layer],
        attention.head_numbers[head],
        100.0 * mean
    );
    let share = 100.0 * special / (count * heads * attention.layers.len()) as f64;
    verdict("plain", &text, &format!("Over all heads, {share:.0} % of the attention is on special tokens."))
}

/// Returns the part of the page that the script fills, and the part for browsers without JavaScript.
fn body(models: &[NamedAttention<'_>]) -> Markup {
    html! {
        @for model in models { (result(model)) }
        @for NamedAttention { name, attention } in models {
            @let (shown, whole) = (attention.tokens.len(), attention.untruncated_length);
            @if shown < whole {
                p.note {
                    (name) ": the text was truncated from " (whole) " to " (shown) " word pieces (--max-seq-length)."
                }
            }
            @if let Some(warning) = attention.warning() { p.warning { (name) ": " (warning) "." } }
        }
        div #app {}
        noscript { @for model in models { (fallback(model)) } }
        details {
            summary { "How to read this" }
            p {
                "A weight is the share of a key token in the new vector of a query token, before dropout. The weights \
                 of one query and one head sum to 1. The page has them in 8 bits, so a value may be wrong by 0.002; \
                 exact values: bert attention --json, or --parquet FILE."
            }
            p {
                "Words: the weight to a word is the sum over its pieces, the weight from a word the mean over its \
                 pieces (Clark et al. 2019)."
            }
            p { "A high weight does not mean that the prediction depends on that token." }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention_page::sample::sample;

    fn page(layers: usize, heads: usize, tokens: usize, dimensions: usize) -> String {
        let attention = sample(layers, heads, tokens, dimensions);
        attention_page("a text", &[NamedAttention { name: "run", attention: &attention }], None)
    }

    #[test]
    fn page_of_bert_base_with_64_tokens_is_within_400_kb() {
        let page = page(12, 12, 64, 64);
        assert!((200_000..=400_000).contains(&page.len()), "{} bytes", page.len());
    }

    #[test]
    #[ignore = "needs 20 s"]
    fn page_of_bert_base_with_512_tokens_is_within_3_mb() {
        let page = page(12, 12, 512, 64);
        assert!((1_500_000..=3_000_000).contains(&page.len()), "{} bytes", page.len());
    }

    #[test]
    fn page_escapes_tokens_and_states_the_truncation() {
        let mut attention = sample(1, 2, 4, 2);
        attention.tokens[1] = "</script><b>".into();
        attention.untruncated_length = 9;
        let page = attention_page("<i>", &[NamedAttention { name: "<run>", attention: &attention }], None);
        assert!(!page.contains("<b>") && !page.contains("<i>") && !page.contains("<run>"), "{page}");
        assert!(page.contains("truncated from 9 to 4 word pieces"));
        assert_eq!(page.matches("</script>").count(), 2, "the data and the code");
    }

    #[test]
    fn small_models_have_vectors_of_all_layers() {
        let attention = sample(3, 2, 8, 4);
        let model = NamedAttention { name: "run", attention: &attention };
        assert_eq!(model_data(&model, None, 0)["vectors"]["layers"], json!([0, 1, 2]));
        assert_eq!(model_data(&model, Some(2), 0)["vectors"]["layers"], json!([2]));
    }
}
