//! A build gives the same bytes for any memory budget, threads, parts and interruptions.

mod parts;
mod resume;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bert_data::{BuildConfig, BuildProgress, BuildStage, build_on};
use bert_storage::Disk;

use crate::support::{config, small_vocabulary};

pub(crate) struct World {
    pub folder: tempfile::TempDir,
    pub config: BuildConfig,
}

pub(crate) fn world(text: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    fs::write(&path, text).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        dupe_factor: 3,
        num_shards: Some(5),
        threads: 2,
        ..config(&[&path], &vocab, &folder.path().join("whole"))
    };
    World { folder, config }
}

impl World {
    pub(crate) fn to(&self, name: &str) -> BuildConfig {
        BuildConfig { output: Some(self.folder.path().join(name)), ..self.config.clone() }
    }
}

/// Returns every file of a folder except the lock.
pub(crate) fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != ".lock")
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect()
}

pub(crate) fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
}

/// Builds again and returns the stages that reused files of an earlier run.
pub(crate) fn build_again(config: &BuildConfig) -> Vec<BuildStage> {
    let mut kept = Vec::new();
    let mut see = |at: BuildProgress| {
        if matches!(at.stage, BuildStage::ReusedText | BuildStage::ReusedShards) {
            kept.push(at.stage);
        }
    };
    build_on(&Disk, config, &mut see).unwrap();
    kept
}
