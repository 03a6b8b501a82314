//! Writes the model card of an exported folder, which describes how its weights were trained.
//!
//! The card is a `README.md` with a header for the Hugging Face Hub. It describes a run by the settings that identify
//! the run (`run.json`, [`crate::pretrain::run_folder`]); settings that the card omits are in that file.

use std::path::Path;

use bert_model::BertConfig;
use bert_pages::markdown;

use crate::error::Error;
use crate::evaluation::EvaluationRecord;
use crate::initialization::InitializationChoice;
use crate::pretrain::best_and_average::EVALUATION;
use crate::pretrain::run_file::{RunFile, RunIdentity};
use crate::run_dir::checkpoint::{MARKER, STATE, TrainerState};
use crate::run_dir::identity::RUN;
use crate::run_dir::json_file::{exists, read_record};

/// Returns the step and the identity of the run that wrote this folder: a checkpoint, or its best or averaged weights.
fn origin(folder: &Path) -> Result<Option<(u64, RunIdentity)>, Error> {
    let (state, evaluation) = (folder.join(STATE), folder.join(EVALUATION));
    // transformers' Trainer writes another file of the same name.
    if exists(&folder.join(MARKER))? {
        let TrainerState { step, run, .. } = read_record(&state)?;
        let identity = serde_json::from_value(run).map_err(|error| Error::corrupt_file(&state, error))?;
        return Ok(Some((step, identity)));
    }
    let Some(run) = folder.parent().map(|run| run.join(RUN)) else { return Ok(None) };
    if !exists(&run)? || !exists(&evaluation)? {
        return Ok(None);
    }
    let (record, run): (EvaluationRecord, RunFile) = (read_record(&evaluation)?, read_record(&run)?);
    Ok(Some((record.step, run.identity)))
}

/// Returns the card for a run's model, or for its encoder only; `None` for a folder that was not written by a run.
pub(crate) fn card_of_checkpoint(folder: &Path, encoder_only: bool) -> Result<Option<String>, Error> {
    let Some((step, run)) = origin(folder)? else { return Ok(None) };
    let mut rows = vec![
        ("initialization", initialization(&run)),
        ("steps", format!("{step} of {} of {} sequences", run.steps, run.batch_size)),
        ("learning_rate", format!("{:?}", run.learning_rate)),
        ("warmup_steps", run.warmup_steps.to_string()),
        ("schedule", run.schedule),
        ("seed", run.seed.to_string()),
        ("precision", run.precision),
        ("data", run.data),
        ("vocabulary", run.vocabulary),
    ];
    let mut objectives = "masked LM and next-sentence prediction";
    if let Some(rules) = run.data_rules {
        objectives = match rules.nsp.as_str() {
            "off" => "masked LM",
            "sop" => "masked LM and sentence order",
            _ => objectives,
        };
        rows.extend([
            ("max_seq_length", rules.max_seq_length.to_string()),
            ("masked_lm_prob", format!("{:?}", rules.masked_lm_prob)),
            ("nsp", rules.nsp),
            ("layout", rules.layout),
            ("masking", rules.masking),
        ]);
    }
    let model = if encoder_only { "the encoder of a BERT" } else { "a BERT" };
    Ok(Some(card(&format!("{model} pre-trained by {objectives}"), encoder_only, &rows)))
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
fn initialization(run: &RunIdentity) -> String {
    match (&run.init_checkpoint, &run.initialization) {
        (Some(digest), _) => format!("a checkpoint, model.safetensors with BLAKE3 {digest}"),
        (None, Some(choice)) => choice.clone(),
        (None, None) => "reference".to_string(),
    }
}

/// Returns a card with one row per setting; `model` describes the weights.
fn card(model: &str, encoder_only: bool, rows: &[(&str, String)]) -> String {
    let task = if encoder_only { "feature-extraction" } else { "fill-mask" };
    let rows = markdown::rows(rows.iter().map(|(key, value)| [*key, value]));
    format!(
        "---\nlibrary_name: transformers\npipeline_tag: {task}\ntags:\n- bert\n---\n\n# BERT\n\nThis folder has {model}. \
         It loads in transformers as it is.\n\n| | |\n|---|---|\n{rows}"
    )
}
