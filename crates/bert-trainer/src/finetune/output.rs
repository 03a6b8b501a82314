//! What a fine-tuning leaves in its output folder, but for the report.

use std::path::Path;

use bert_data::files::{FileSystem, OutputLock, create_folder, write_atomic_on};
use bert_model::{Architecture, BertConfig, BertForSequenceClassification, save_pretrained};
use burn::tensor::Device;

use super::config::FinetuneConfig;
use super::features::Features;
use super::seed_run::{decide, predict};
use crate::error::Error;
use crate::run_folder::refuse_if_in_use;
use crate::tasks::{Example, write_predictions, write_probabilities};
use crate::text::Text;
use crate::unfinished::{Contents, Unfinished};

/// `report.json` is written last.
const CONTENTS: Contents = Contents {
    last: "report.json",
    is_ours: |name| {
        let seed = name.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok());
        seed || ["model", "predictions.tsv", "probabilities.tsv"].contains(&name)
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
        let unfinished = Unfinished::begin(files, output, CONTENTS, "choose another --output")?;
        let lock = OutputLock::acquire_on(files, output)?;
        Ok(Self { files, unfinished, _lock: lock })
    }

    /// The report is written, so the output is whole.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.unfinished.finish()
    }
}

/// Writes predictions and probabilities as `<stem>_predictions.tsv`, or `predictions.tsv` for no stem.
pub(super) fn write_split(
    files: &dyn FileSystem,
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
    create_folder(files, folder)?;
    write_atomic_on(files, &predictions, |out| write_predictions(out, config.task, examples, &labels))?;
    write_atomic_on(files, &path("probabilities"), |out| write_probabilities(out, &rows))?;
    Ok(())
}

pub(super) fn save_model(
    files: &dyn FileSystem,
    folder: &Path,
    model: &BertForSequenceClassification,
    config: &BertConfig,
    text: &Text,
) -> Result<(), Error> {
    create_folder(files, folder)?;
    let mut sink = |name: &str, bytes: &[u8]| {
        let written = write_atomic_on(files, &folder.join(name), |out| out.write_all(bytes));
        written.map(|_| ()).map_err(std::io::Error::other)
    };
    let architecture = Architecture::BertForSequenceClassification;
    let vocabulary = text.files(config.max_position_embeddings);
    Ok(save_pretrained(&mut sink, model, config, architecture, Some(vocabulary))?)
}
