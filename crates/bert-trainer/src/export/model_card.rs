//! Writes the model card of an exported folder, which describes how its weights were trained.
//!
//! The card is a `README.md` with a header for the Hugging Face Hub. It describes a run by the settings that identify
//! the run (`run.json`, [`crate::pretrain::run_folder`]); settings that the card omits are in that file.

use std::path::Path;

use bert_model::BertConfig;
use bert_pages::markdown;
use serde_json::Value;

use crate::error::Error;
use crate::initialization::InitializationChoice;
use crate::pretrain::best_and_average::EVALUATION;
use crate::run_dir::checkpoint::STATE;
use crate::run_dir::identity::RUN;
use crate::run_dir::json_file::{exists, read_json};

/// Returns the step and the identity of the run that wrote this folder: a checkpoint, or its best or averaged weights.
fn origin(folder: &Path) -> Result<Option<(Value, Value)>, Error> {
    let (state, evaluation) = (folder.join(STATE), folder.join(EVALUATION));
    if exists(&state)? {
        let mut state = read_json(&state)?;
        return Ok(Some((state["step"].take(), state["run"].take())));
    }
    let Some(run) = folder.parent().map(|run| run.join(RUN)) else { return Ok(None) };
    if !exists(&run)? || !exists(&evaluation)? {
        return Ok(None);
    }
    Ok(Some((read_json(&evaluation)?["step"].take(), read_json(&run)?["identity"].take())))
}

/// Returns the card for a run's model, or for its encoder only; `None` for a folder that was not written by a run.
pub(crate) fn card_of_checkpoint(folder: &Path, encoder_only: bool) -> Result<Option<String>, Error> {
    let Some((step, run)) = origin(folder)? else { return Ok(None) };
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let mut rows = vec![("initialization", initialization(&run))];
    let progress = format!("{} of {} of {} sequences", step, run["steps"], run["batch_size"]);
    rows.push(("steps", progress));
    for key in ["learning_rate", "warmup_steps", "schedule", "seed", "precision", "data", "vocabulary"] {
        rows.push((key, words(&run[key])));
    }
    for key in ["max_seq_length", "masked_lm_prob", "nsp", "layout", "masking"] {
        rows.push((key, words(&run["data_rules"][key])));
    }
    let what = if encoder_only { "the encoder of a BERT" } else { "a BERT" };
    let objectives = objectives(&run["data_rules"]);
    Ok(Some(card(&format!("{what} pre-trained by {objectives}"), encoder_only, &rows)))
}

/// Returns the objectives of a run, given its data options.
fn objectives(rules: &Value) -> &'static str {
    match rules["nsp"].as_str() {
        Some("off") => "masked LM",
        Some("sop") => "masked LM and sentence order",
        _ => "masked LM and next-sentence prediction",
    }
}

/// Returns the card of fresh weights.
pub(crate) fn card_of_fresh(choice: InitializationChoice, seed: u64, config: &BertConfig) -> String {
    let shape = format!(
        "{} layers, {} wide, {} heads, {} tokens",
        config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.vocab_size
    );
    let rows = [("initialization", choice.name().to_string()), ("seed", seed.to_string()), ("shape", shape)];
    card("a BERT with initial weights, not trained", false, &rows)
}

/// Describes the initial weights of a run.
fn initialization(run: &Value) -> String {
    match (run["init_checkpoint"].as_str(), run["initialization"].as_str()) {
        (Some(digest), _) => format!("a checkpoint, model.safetensors with BLAKE3 {digest}"),
        (None, choice) => choice.unwrap_or("reference").to_string(),
    }
}

fn card(what: &str, encoder_only: bool, rows: &[(&str, String)]) -> String {
    let task = if encoder_only { "feature-extraction" } else { "fill-mask" };
    let rows = markdown::rows(rows.iter().map(|(key, value)| [*key, value]));
    format!(
        "---\nlibrary_name: transformers\npipeline_tag: {task}\ntags:\n- bert\n---\n\n# BERT\n\nThis folder holds {what}. \
         It loads in transformers as it is.\n\n| | |\n|---|---|\n{rows}"
    )
}
