//! What a fine-tuning leaves in its output folder, but for the report.

use std::path::Path;

use bert_data::files::{OutputLock, write_atomic, write_json_atomic};
use bert_model::{Architecture, BertConfig, BertForSequenceClassification, save_pretrained};

use super::FinetuneReport;
use super::config::FinetuneConfig;
use crate::error::Error;
use crate::run_folder::refuse_if_in_use;
use crate::tasks::{Example, Label, write_errors, write_predictions, write_probabilities};
use crate::text::Text;

/// In the folder of a fine-tuning until its report is written: what was stopped before may be started over.
const UNFINISHED: &str = ".unfinished";

/// Makes and locks the folder. What a fine-tuning left that was stopped before its report goes away.
pub(super) fn prepare_output(output: &Path) -> Result<OutputLock, Error> {
    refuse_if_in_use(output)?;
    let names = names(output);
    let marker = output.join(UNFINISHED);
    let finished = names.iter().any(|name| name == "report.json");
    if finished || (!names.is_empty() && !marker.exists()) {
        let what = if finished { "a finished fine-tuning" } else { "other files" };
        let hint = "choose another --output";
        return Err(Error::OutputExists { path: output.to_path_buf(), what, hint });
    }
    std::fs::create_dir_all(output).map_err(|e| Error::io(output, e))?;
    let lock = OutputLock::acquire(output)?;
    write_atomic(&marker, |_| Ok(()))?;
    for name in names.iter().filter(|name| is_ours(name)) {
        let path = output.join(name);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.map_err(|e| Error::io(&path, e))?;
    }
    Ok(lock)
}

/// Writes the report, with which the fine-tuning is finished.
pub(super) fn write_report(output: &Path, report: &FinetuneReport) -> Result<(), Error> {
    write_json_atomic(&output.join("report.json"), report)?;
    let marker = output.join(UNFINISHED);
    std::fs::remove_file(&marker).map_err(|e| Error::io(&marker, e))
}

/// The names in a folder that are not hidden; none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// What a fine-tuning writes before its report.
fn is_ours(name: &str) -> bool {
    name.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok())
        || ["model", "predictions.tsv", "probabilities.tsv"].contains(&name)
}

/// Writes predictions and probabilities as `<stem>predictions.tsv` and `<stem>probabilities.tsv`, and where
/// the examples have labels the errors as `<stem>errors.tsv`.
pub(super) fn write_outputs(
    config: &FinetuneConfig,
    stem: &str,
    examples: &[Example],
    predictions: &[Label],
    outputs: &[Vec<f32>],
) -> Result<(), Error> {
    let path = |what: &str| config.output.join(format!("{stem}{what}.tsv"));
    let first = path("predictions");
    let folder = first.parent().expect("a file in the output folder");
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    write_atomic(&first, |out| write_predictions(out, config.task, examples, predictions))?;
    write_atomic(&path("probabilities"), |out| write_probabilities(out, outputs))?;
    if examples.iter().all(|example| example.label.is_some()) {
        write_atomic(&path("errors"), |out| write_errors(out, config.task, examples, predictions, outputs))?;
    }
    Ok(())
}

pub(super) fn save_model(
    folder: &Path,
    model: &BertForSequenceClassification,
    config: &BertConfig,
    text: &Text,
) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let mut sink = |name: &str, bytes: &[u8]| {
        let written = write_atomic(&folder.join(name), |out| out.write_all(bytes));
        written.map(|_| ()).map_err(std::io::Error::other)
    };
    let architecture = Architecture::BertForSequenceClassification;
    let vocabulary = text.files(config.max_position_embeddings);
    Ok(save_pretrained(&mut sink, model, config, architecture, Some(vocabulary))?)
}
