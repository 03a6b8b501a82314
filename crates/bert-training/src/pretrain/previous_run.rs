//! Finds the run that wrote the checkpoint of `--init-checkpoint`.

use std::path::Path;

use bert_data::Manifest;
use bert_inference::hub_model::hub_name;
use bert_inference::json_file::read_record;

use crate::pretrain::run_file::RunFile;
use crate::pretrain::shared_text::NamedData;
use crate::run_dir::identity::RUN;

/// Returns the run that wrote a checkpoint, if its `run.json` is there. The path is the run itself, a checkpoint in its folder
/// `checkpoints`, or its best or averaged weights.
pub(super) fn run_of_checkpoint(checkpoint: &Path) -> Option<RunFile> {
    if hub_name(checkpoint).is_some() {
        return None;
    }
    let run = checkpoint.ancestors().take(3).map(|folder| folder.join(RUN)).find(|path| path.is_file());
    run.and_then(|path| read_record(&path).ok())
}

/// Returns the data sets on which the run of a checkpoint was trained, if they are still where its `run.json` says.
pub(super) fn init_checkpoint_data(checkpoint: &Path) -> Vec<NamedData> {
    let Some(RunFile { config, identity, .. }) = run_of_checkpoint(checkpoint) else { return Vec::new() };
    let digests = identity.data_digests();
    let folders = config.data.folders().iter().zip(digests);
    let data = folders.filter_map(|(folder, digest)| {
        let manifest = Manifest::read(&folder.folder).ok()?;
        (manifest.shards_digest() == digest).then(|| NamedData::new(&folder.folder, &manifest))
    });
    data.collect()
}
