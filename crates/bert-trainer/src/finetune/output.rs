//! What a fine-tuning leaves in its output folder, but for the report.

use std::path::Path;

use bert_data::files::{OutputLock, write_atomic};
use bert_model::{Architecture, BertConfig, BertForSequenceClassification, save_pretrained};
use burn::tensor::Device;

use super::config::FinetuneConfig;
use super::features::Features;
use super::seed_run::{decide, predict};
use crate::error::Error;
use crate::run_folder::refuse_if_in_use;
use crate::tasks::{Example, write_predictions, write_probabilities};
use crate::text::Text;

/// Makes and locks the folder.
pub(super) fn prepare_output(output: &Path) -> Result<OutputLock, Error> {
    refuse_if_in_use(output)?;
    let used = std::fs::read_dir(output)
        .is_ok_and(|entries| entries.flatten().any(|e| !e.file_name().to_string_lossy().starts_with('.')));
    if used {
        let hint = "choose another --output";
        return Err(Error::OutputExists { path: output.to_path_buf(), what: "other files", hint });
    }
    std::fs::create_dir_all(output).map_err(|e| Error::io(output, e))?;
    Ok(OutputLock::acquire(output)?)
}

/// Writes predictions and probabilities as `<stem>_predictions.tsv`, or `predictions.tsv` for no stem.
pub(super) fn write_split(
    config: &FinetuneConfig,
    stem: &str,
    model: &BertForSequenceClassification,
    examples: &[Example],
    features: &Features,
    device: &Device,
) -> Result<(), Error> {
    let kind = config.task.spec().kind;
    let rows = predict(model, features, kind, device);
    let labels = decide(&rows, kind);
    let path = |what: &str| match stem {
        "" => config.output.join(format!("{what}.tsv")),
        stem => config.output.join(format!("{stem}_{what}.tsv")),
    };
    let predictions = path("predictions");
    let folder = predictions.parent().expect("a file in the output folder");
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    write_atomic(&predictions, |out| write_predictions(out, config.task, examples, &labels))?;
    write_atomic(&path("probabilities"), |out| write_probabilities(out, &rows))?;
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
