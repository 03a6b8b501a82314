//! Opens a finished data set: [`DataSet`] checks folder, manifest and vocabulary once and is then passed around.

pub(crate) mod conservation;
pub(crate) mod document_groups;
pub mod document_passes;
pub mod manifest;
pub mod render;
pub mod report;
pub(crate) mod row_groups;
pub mod row_masker;
pub(crate) mod shard_file;
pub(crate) mod stored_rows;
pub(crate) mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dataset::manifest::Manifest;
use crate::error::Result;
use crate::tokenization::vocabulary::Vocabulary;

/// A data set that a build committed. A clone shares everything with the original.
#[derive(Clone, Debug)]
pub struct DataSet {
    folder: Arc<Path>,
    manifest: Arc<Manifest>,
    vocabulary: Arc<Vocabulary>,
}

impl DataSet {
    /// Opens a data folder: reads the manifest and the vocabulary, and compares the sizes of the shards. The digest of
    /// a shard is compared when the shard is first read.
    ///
    /// # Errors
    /// When there is no manifest, when it is damaged, and when a file is missing or differs from it.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::of(folder, Manifest::read(folder)?)
    }

    /// [`DataSet::open`] with a manifest that was read before.
    ///
    /// # Errors
    /// When a file is missing or differs from the manifest.
    pub fn of(folder: &Path, manifest: Manifest) -> Result<Self> {
        let vocabulary = manifest.check_vocabulary(folder)?;
        (0..manifest.shards.len()).try_for_each(|shard| manifest.check_size(folder, shard))?;
        Ok(Self::new(folder, manifest, vocabulary))
    }

    /// A data set of which all is known; looks at no file.
    #[must_use]
    pub fn new(folder: &Path, manifest: Manifest, vocabulary: Vocabulary) -> Self {
        Self { folder: folder.into(), manifest: Arc::new(manifest), vocabulary: Arc::new(vocabulary) }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the folder holds.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The vocabulary of its token ids.
    #[must_use]
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The path of a shard.
    ///
    /// # Panics
    /// When there is no such shard.
    #[must_use]
    pub fn shard_path(&self, shard: usize) -> PathBuf {
        self.manifest.shard_path(&self.folder, shard)
    }

    /// Compares a shard's size and digest.
    ///
    /// # Errors
    /// The first difference, naming file, found and expected.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn check_shard(&self, shard: usize) -> Result<()> {
        self.manifest.check_size(&self.folder, shard)?;
        self.manifest.check_digest(&self.folder, shard)
    }
}
