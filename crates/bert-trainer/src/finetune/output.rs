//! What a fine-tuning leaves in its output folder, but for the report.

use std::path::Path;

use bert_data::files::{FileSystem, OutputLock, create_folder, write_atomic_on};
use bert_model::{BertConfig, BertForSequenceClassification, save_pretrained};

use super::config::FinetuneConfig;
use crate::error::Error;
use crate::run_folder::refuse_if_in_use;
use crate::tasks::{Example, Label, write_errors, write_labels, write_predictions, write_probabilities};
use crate::text::Text;
use crate::unfinished::{Contents, Unfinished};

/// The labels of dev, in the order of every seed's `dev_predictions.tsv`.
pub(crate) const DEV_LABELS: &str = "dev_labels.tsv";

/// `report.json` is written last.
const CONTENTS: Contents = Contents {
    last: "report.json",
    is_ours: |name| {
        let seed = name.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok());
        seed || ["adapter", "model", "predictions.tsv", "probabilities.tsv", DEV_LABELS].contains(&name)
    },
};

/// The output folder, locked.
pub(super) struct Output<'a> {
    pub(super) files: &'a dyn FileSystem,
    unfinished: Unfinished<'a>,
    _lock: OutputLock,
}

impl<'a> Output<'a> {
    /// Makes and locks the folder.
    pub(super) fn open(files: &'a dyn FileSystem, output: &Path) -> Result<Self, Error> {
        refuse_if_in_use(output)?;
        if output.join(CONTENTS.last).exists() {
            let (path, hint) = (output.to_path_buf(), "choose another --output");
            return Err(Error::OutputExists { path, what: "a finished fine-tuning", hint });
        }
        let unfinished = Unfinished::begin(files, output, CONTENTS, "choose another --output")?;
        let lock = OutputLock::acquire_on(files, output)?;
        Ok(Self { files, unfinished, _lock: lock })
    }

    /// The report is written, so the output is whole.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.unfinished.finish()
    }
}

/// Writes predictions and probabilities as `<stem>predictions.tsv` and `<stem>probabilities.tsv`, and where
/// the examples have labels the errors as `<stem>errors.tsv`.
pub(super) fn write_outputs(
    files: &dyn FileSystem,
    config: &FinetuneConfig,
    stem: &str,
    examples: &[Example],
    predictions: &[Label],
    outputs: &[Vec<f32>],
) -> Result<(), Error> {
    let path = |what: &str| config.output.join(format!("{stem}{what}.tsv"));
    let first = path("predictions");
    let folder = first.parent().expect("a file in the output folder");
    create_folder(files, folder)?;
    write_atomic_on(files, &first, |out| write_predictions(out, config.task, examples, predictions))?;
    write_atomic_on(files, &path("probabilities"), |out| write_probabilities(out, outputs))?;
    if examples.iter().all(|example| example.label.is_some()) {
        write_atomic_on(files, &path("errors"), |out| {
            write_errors(out, config.task, examples, predictions, outputs)
        })?;
    }
    Ok(())
}

/// Writes [`DEV_LABELS`].
pub(super) fn write_dev_labels(
    files: &dyn FileSystem,
    config: &FinetuneConfig,
    examples: &[Example],
) -> Result<(), Error> {
    write_atomic_on(files, &config.output.join(DEV_LABELS), |out| write_labels(out, config.task, examples))?;
    Ok(())
}

/// Writes the files of a model into a folder.
pub(super) fn sink<'a>(
    files: &'a dyn FileSystem,
    folder: &'a Path,
) -> impl FnMut(&str, &[u8]) -> std::io::Result<()> + 'a {
    move |name, bytes| {
        let written = write_atomic_on(files, &folder.join(name), |out| out.write_all(bytes));
        written.map(|_| ()).map_err(std::io::Error::other)
    }
}

pub(super) fn save_model(
    files: &dyn FileSystem,
    folder: &Path,
    model: &BertForSequenceClassification,
    config: &BertConfig,
    text: &Text,
) -> Result<(), Error> {
    create_folder(files, folder)?;
    let vocabulary = text.files(config.max_position_embeddings);
    Ok(save_pretrained(&mut sink(files, folder), model, config, Some(vocabulary))?)
}
