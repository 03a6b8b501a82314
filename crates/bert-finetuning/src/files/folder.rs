//! Opens the output folder of a fine-tuning and writes files into it.

use std::io::{self, Write};
use std::path::Path;

use bert_model::{Architecture, BertConfig, save_pretrained};
use bert_storage::{Disk, LOCK, OutputLock, StagedFolder, check_writable};
use bert_training::incomplete_output::{Contents, OutputGuard, is_marked, unmark};
use bert_training::{Error, output_exists};

use crate::setup::Setup;

/// File with the labels of dev, in the order of every seed's `dev_predictions.tsv`.
pub const DEV_LABELS: &str = "dev_labels.tsv";

/// Folder of the fine-tuned model.
pub(crate) const MODEL: &str = "model";

const HINT: &str = "choose another `.output`";

/// The files of a fine-tuning. `report.json` is written last, so it marks a finished fine-tuning.
const CONTENTS: Contents = Contents {
    last: "report.json",
    is_ours: |name| {
        let seed = name.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok());
        let predictions = ["predictions.", "probabilities.", "nbest_predictions.", "null_odds."];
        seed || ["adapter", "model", DEV_LABELS].contains(&name)
            || predictions.iter().any(|start| name.starts_with(start))
    },
};

/// The locked output folder of a fine-tuning.
pub(crate) struct OutputFolder {
    unfinished: OutputGuard<'static>,
    _lock: OutputLock,
}

impl OutputFolder {
    /// Checks that the output folder can be created, or that it is neither finished nor in use. The check leaves
    /// nothing on disk: it creates a probe file and removes it, so callers can run it before long work.
    pub(crate) fn check_free(output: &Path) -> Result<(), Error> {
        let folder = StagedFolder::new(&Disk, output);
        folder.check_not_in_use()?;
        if folder.has(CONTENTS.last)? {
            return Err(output_exists(output, "a finished fine-tuning", HINT));
        }
        OutputGuard::check_free(&folder, CONTENTS, HINT)?;
        check_writable(&Disk, output)
    }

    /// Removes the files that remain in a finished fine-tuning if its process was killed right after it wrote the
    /// report: the marker, and with `remove_runs` the saved runs.
    pub(crate) fn clean_finished(
        output: &Path,
        remove_runs: impl FnOnce(&StagedFolder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let folder = StagedFolder::new(&Disk, output);
        if !(is_marked(&folder)? && folder.has(CONTENTS.last)?) {
            return Ok(());
        }
        let _lock = folder.lock(LOCK)?;
        remove_runs(&folder)?;
        unmark(&folder)
    }

    /// Creates and locks the folder.
    pub(crate) fn open(output: &Path) -> Result<Self, Error> {
        Self::check_free(output)?;
        let unfinished = OutputGuard::begin(StagedFolder::new(&Disk, output), CONTENTS, HINT)?;
        let lock = unfinished.folder.lock(LOCK)?;
        Ok(Self { unfinished, _lock: lock })
    }

    /// Opens a folder as [`Self::open`] does, but also accepts a report that was written before the enclosing
    /// multi-task output was finished: such a folder still has its marker, and the report is removed. A finished
    /// fine-tuning is rejected and keeps its report.
    pub(crate) fn reopen(output: &Path) -> Result<Self, Error> {
        let folder = StagedFolder::new(&Disk, output);
        folder.check_not_in_use()?;
        if is_marked(&folder)? && folder.has(CONTENTS.last)? {
            folder.remove(CONTENTS.last)?;
        }
        Self::open(output)
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &StagedFolder<'static> {
        &self.unfinished.folder
    }

    /// Marks the output as complete, after the report is written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.unfinished.finish()
    }

    /// Writes a file and creates its parent folder.
    pub(crate) fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder().inside(folder).create()?;
        }
        self.folder().write(name, content)?;
        Ok(())
    }

    /// Returns a function that writes a model's files into the named folder.
    pub(crate) fn sink(&self, name: &str) -> impl FnMut(&str, &[u8]) -> io::Result<()> {
        let folder = self.folder().inside(name);
        move |name, bytes| {
            let written = folder.create().and_then(|()| folder.write_bytes(name, bytes));
            written.map(drop).map_err(io::Error::other)
        }
    }

    /// Writes a full model into `PREFIXmodel/`.
    pub(crate) fn save_model<M: Architecture>(
        &self,
        prefix: &str,
        model: &M,
        config: &BertConfig,
        setup: Setup<'_>,
    ) -> Result<(), Error> {
        let vocabulary = setup.description().tokenizer_files(&setup.checkpoint.tokenizer, config);
        save_pretrained(&mut self.sink(&format!("{prefix}{MODEL}")), model, config, Some(vocabulary))
    }
}
