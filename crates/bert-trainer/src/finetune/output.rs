//! What a fine-tuning leaves in its output folder, but for the report.

use std::path::Path;

use bert_data::files::{OutputLock, write_atomic};
use bert_model::{Architecture, BertConfig, BertForSequenceClassification, save_pretrained};

use super::config::FinetuneConfig;
use crate::error::Error;
use crate::run_folder::refuse_if_in_use;
use crate::tasks::{Example, Label, write_errors, write_predictions, write_probabilities};
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
