//! Stored documents: their content, reading them back, and equal instances from the loader and the builder.

mod damaged;
mod inspect;
mod store;

use std::path::Path;

use arrow_array::RecordBatch;
use bert_data::{BuildConfig, Layout, Vocabulary};
use parquet::arrow::ArrowWriter;

use crate::support::{config, small_text, small_vocabulary};

pub(crate) struct World {
    pub folder: tempfile::TempDir,
    pub config: BuildConfig,
}

pub(crate) fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, small_text(90)).unwrap();
    let vocab = small_vocabulary(folder.path());
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        num_shards: Some(3),
        layout: Layout::Documents,
        ..config(&[&text], &vocab, &folder.path().join("data"))
    };
    World { folder, config }
}

impl World {
    pub(crate) fn vocabulary(&self) -> Vocabulary {
        Vocabulary::read(self.config.vocab.as_ref().unwrap()).unwrap()
    }

    pub(crate) fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// Writes a batch with the plain Parquet writer, without compression.
pub(crate) fn write_plain(path: &Path, batch: &RecordBatch) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}
