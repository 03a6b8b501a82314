//! Every kind of failure: the right variant and exit code, the problem and its location in the message, no side
//! effects.

mod data_sets;
mod foreign_shards;
mod inputs;
mod options;

use std::path::PathBuf;

use bert_data::{BuildConfig, Error};

use crate::support::{config, run, small_text, small_vocabulary};

pub(crate) struct World {
    pub folder: tempfile::TempDir,
    pub config: BuildConfig,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.txt");
        std::fs::write(&text, small_text(20)).unwrap();
        let vocab = small_vocabulary(folder.path());
        let config = config(&[&text], &vocab, &folder.path().join("data"));
        Self { folder, config }
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.config.output.clone().unwrap()
    }

    /// Runs, and expects a failure with this exit code and these words and without output.
    pub(crate) fn fails(&self, config: &BuildConfig, code: u8, words: &[&str]) -> Error {
        let before = self.data().exists();
        let error = run(config).unwrap_err();
        assert_says(&error, code, words);
        assert_eq!(before, self.data().exists(), "{error}: nothing may change");
        error
    }
}

pub(crate) fn assert_says(error: &Error, code: u8, words: &[&str]) {
    let message = error.to_string();
    assert_eq!(error.exit_code(), code, "{message}");
    for word in words {
        assert!(message.contains(word), "{message:?} does not name {word:?}");
    }
}
