//! Checks that the tokenizer files of a folder make the model's inputs in the form of this workspace: `[CLS] A [SEP]`
//! or `[CLS] A [SEP] B [SEP]`, cut at the end.

use bert_model::BertConfig;
use bert_tokenization::Vocabulary;
use serde_json::{Value, json};

use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;
use crate::model_dir::description::json_object::JsonObject;

/// The key of the template in `tokenizer.json`.
const TEMPLATE: &str = "post_processor";
const SINGLE: &str = "[CLS]:0 A:0 [SEP]:0";
const PAIR: &str = "[CLS]:0 A:0 [SEP]:0 B:1 [SEP]:1";

/// Rejects a different form, and tokenizers that cut texts at their start. Every truncation strategy that BERT's
/// tokenizers have is accepted, because the strategy is not a property of the model: each call in `transformers`
/// chooses it, and a saved tokenizer records the last choice.
pub(super) fn check_input_form(
    settings: &JsonObject,
    tokenizer: &JsonObject,
    text: &ModelTokenizer,
    model: &BertConfig,
) -> Result<(), Error> {
    settings.require("truncation_side", |side| side == "right", "right")?;
    tokenizer.require("/truncation/direction", |side| side == "Right", "Right")?;
    tokenizer.require("truncation", Value::is_object, "an object")?;
    let is_known =
        |name: &Value| ["LongestFirst", "OnlyFirst", "OnlySecond"].iter().any(|known| name == known);
    tokenizer.require("/truncation/strategy", is_known, "LongestFirst, OnlyFirst or OnlySecond")?;
    let has_pairs = model.type_vocab_size > 1;
    let names_segments = |names: &Value| {
        !has_pairs || names.as_array().is_some_and(|names| names.contains(&json!("token_type_ids")))
    };
    settings.require("model_input_names", names_segments, "a list with token_type_ids")?;
    // A `tokenizer.json` without the key does not define the form, but `null` means that texts have no special tokens.
    let Some(template) = tokenizer.object.get(TEMPLATE) else { return Ok(()) };
    if is_berts(template, &text.vocabulary, has_pairs) {
        return Ok(());
    }
    let found: String = template.to_string().chars().take(200).collect();
    let expected = format!("{SINGLE} and {PAIR} (token:segment) with the ids of the vocabulary");
    Err(tokenizer.wrong(TEMPLATE, format!("is {found}; only {expected} is supported")))
}

/// Returns whether a template is BERT's; the form of pairs does not matter for a model without a second segment.
fn is_berts(template: &Value, vocabulary: &Vocabulary, has_pairs: bool) -> bool {
    let ids = [("cls", "[CLS]", vocabulary.cls_id()), ("sep", "[SEP]", vocabulary.sep_id())];
    match template["type"].as_str() {
        Some("BertProcessing") => ids.iter().all(|(key, token, id)| template[key] == json!([token, id])),
        Some("TemplateProcessing") => {
            let special = &template["special_tokens"];
            ids.iter().all(|(_, token, id)| special[token]["ids"] == json!([id]))
                && pieces(&template["single"]) == SINGLE
                && (!has_pairs || pieces(&template["pair"]) == PAIR)
        }
        _ => false,
    }
}

/// Returns the pieces of a template with their segments as text, in the form of [`SINGLE`].
fn pieces(template: &Value) -> String {
    let pieces = template.as_array().into_iter().flatten().map(|piece| {
        let [special, text] = ["SpecialToken", "Sequence"].map(|kind| &piece[kind]);
        let piece = if special.is_null() { text } else { special };
        format!("{}:{}", piece["id"].as_str().unwrap_or_default(), piece["type_id"])
    });
    pieces.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_templates_of_bert_are_accepted() {
        let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na".into();
        let vocabulary = Vocabulary::from_bytes(words, std::path::Path::new("vocab.txt")).unwrap();
        let bert = json!({"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]});
        let token = |id: &str, segment: u8| json!({"SpecialToken": {"id": id, "type_id": segment}});
        let text = |id: &str, segment: u8| json!({"Sequence": {"id": id, "type_id": segment}});
        let single = json!([token("[CLS]", 0), text("A", 0), token("[SEP]", 0)]);
        let pair = |segment| {
            let [cls, a, sep] = [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)];
            json!([cls, a, sep, text("B", segment), token("[SEP]", segment)])
        };
        let template = |single: &Value, pair: Value, sep: u32| {
            json!({
                "type": "TemplateProcessing", "single": single, "pair": pair,
                "special_tokens": {"[CLS]": {"ids": [2]}, "[SEP]": {"ids": [sep]}}
            })
        };
        for (template, has_pairs, expected) in [
            (bert.clone(), true, true),
            (template(&single, pair(1), 3), true, true),
            (template(&single, pair(0), 3), false, true),
            (template(&single, pair(0), 3), true, false),
            (template(&single, pair(1), 4), true, false),
            (template(&json!([text("A", 0)]), pair(1), 3), true, false),
            (json!({"type": "RobertaProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}), true, false),
            (json!({"type": "BertProcessing", "cls": ["[CLS]", 3], "sep": ["[SEP]", 2]}), true, false),
            (json!(null), true, false),
        ] {
            assert_eq!(is_berts(&template, &vocabulary, has_pairs), expected, "{template}");
        }
    }
}
