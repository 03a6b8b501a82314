//! Opens a finished data set: [`DataSet`] checks the folder, manifest and vocabulary once and can then be passed
//! around.

pub(crate) mod document_groups;
pub(crate) mod document_hashes;
pub(crate) mod invariants;
pub(crate) mod manifest;
pub(crate) mod manifest_check;
pub(crate) mod render;
pub(crate) mod report;
mod report_warnings;
pub(crate) mod row_masker;
pub(crate) mod stored_rows;
pub(crate) mod verify;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;
use bert_storage::{ObjectCache, is_url, on_disk};
use bert_tokenization::Vocabulary;

use crate::config::Masking;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::shard::file::ShardFile;
use crate::shard::row::ShardRows;
use crate::shard::schema::row_schema;

/// A committed data set. Cloning is cheap; clones share all data.
#[derive(Clone, Debug)]
pub struct DataSet {
    folder: Arc<Path>,
    manifest: Arc<Manifest>,
    vocabulary: Arc<Vocabulary>,
    /// Local cache for shards in an object store.
    cache: Arc<ObjectCache>,
}

/// Default maximum size of the local shard cache: 20 GiB.
pub const CACHE_BYTES: u64 = 20 << 30;

impl DataSet {
    /// Opens a data folder, which may be a URL: reads the manifest and the vocabulary, and compares the sizes of the
    /// shards. The digest of a shard is compared when the shard is first read.
    ///
    /// # Errors
    /// Fails if the manifest is missing or damaged, or if a file is missing or differs from the manifest.
    pub fn open(folder: &Path) -> Result<Self> {
        let folder = &*on_disk(folder);
        Self::from_manifest(folder, Manifest::read(folder)?)
    }

    /// Opens a data set as [`DataSet::open`] does, with a manifest that was already read.
    ///
    /// # Errors
    /// Fails if a file is missing or differs from the manifest.
    pub fn from_manifest(folder: &Path, manifest: Manifest) -> Result<Self> {
        let vocabulary = manifest.check_vocabulary(folder)?;
        manifest.check_sizes(folder)?;
        Ok(Self::new(folder, manifest, vocabulary))
    }

    /// Creates a data set from its parts; reads no files.
    pub fn new(folder: &Path, manifest: Manifest, vocabulary: Vocabulary) -> Self {
        let cache = Arc::new(ObjectCache::new(&ObjectCache::user_folder("shards"), CACHE_BYTES));
        Self { folder: folder.into(), manifest: Arc::new(manifest), vocabulary: Arc::new(vocabulary), cache }
    }

    /// Returns the data set with another cache; used only for data sets in an object store.
    #[must_use]
    pub fn with_cache(self, cache: ObjectCache) -> Self {
        Self { cache: Arc::new(cache), ..self }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the vocabulary of the token ids.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the path or URL of a shard.
    ///
    /// # Panics
    /// Panics if the shard does not exist.
    pub fn shard_path(&self, shard: usize) -> PathBuf {
        self.manifest.shard_path(&self.folder, shard)
    }

    /// Checks that every shard exists, before any work is done with the data set. Objects are not checked.
    ///
    /// # Errors
    /// Fails when a shard is missing or cannot be accessed; the error names the first such shard.
    pub fn check_shards_exist(&self) -> Result<()> {
        for shard in 0..self.manifest.shards.len() {
            let path = self.shard_path(shard);
            if !is_url(&path) {
                path.metadata().map_err(Error::io("open", &path))?;
            }
        }
        Ok(())
    }

    /// Opens the file of a shard, or the cached copy of an object.
    fn shard_file(&self, shard: usize) -> Result<File> {
        let path = self.shard_path(shard);
        let entry = &self.manifest.shards[shard];
        if is_url(&path) {
            return self.cache.open(&path, entry.bytes, &entry.blake3);
        }
        File::open(&path).map_err(Error::io("open", &path))
    }

    /// Opens a shard and checks its columns and number of rows. The caller must compare the digest.
    pub(crate) fn open_shard(&self, shard: usize, columns: &Schema) -> Result<ShardFile> {
        let file = ShardFile::open(&self.shard_path(shard), self.shard_file(shard)?)?;
        self.manifest.check_rows(&self.folder, shard, file.rows(), file.groups() as u64)?;
        file.check_columns(columns)?;
        Ok(file)
    }

    /// Opens a shard of instances. The caller must compare the digest ([`DataSet::check_shard`]).
    ///
    /// # Errors
    /// Fails when the shard cannot be read, when it is damaged, or when its columns or its number of rows differ from
    /// the manifest.
    pub fn open_rows(&self, shard: usize) -> Result<ShardFile> {
        self.open_shard(shard, &row_schema(self.manifest.config.columns, self.manifest.has_marks()))
    }

    /// Reads and checks the rows of some row groups of a shard opened by [`DataSet::open_rows`], in the given order.
    ///
    /// # Errors
    /// Fails when the row groups cannot be read, when they are damaged, or when a row does not fit the manifest.
    pub fn read_groups(&self, file: &ShardFile, groups: &[usize]) -> Result<ShardRows> {
        let mut all = ShardRows::default();
        let config = &self.manifest.config;
        let masks = match config.masking {
            Masking::Static => config.max_predictions_per_seq,
            Masking::Dynamic => 0,
        };
        for &group in groups {
            let before = all.len();
            file.append_rows(group, config.columns, &mut all)?;
            let fits = all.check_from(before, self.manifest.vocabulary.size, config.max_seq_length, masks);
            fits.map_err(|(row, problem)| file.wrong(group, row - before as u64, problem))?;
        }
        Ok(all)
    }

    /// Reads the rows of one shard; checks its digest, its number of rows and every row.
    ///
    /// # Errors
    /// Fails if the shard cannot be read or does not match the manifest.
    ///
    /// # Panics
    /// Panics if the shard does not exist.
    pub fn read_rows(&self, shard: usize) -> Result<ShardRows> {
        self.check_shard(shard)?;
        let file = self.open_rows(shard)?;
        self.read_groups(&file, &(0..file.groups()).collect::<Vec<_>>())
    }

    /// Compares the size and digest of a shard with the manifest. A shard in an object store is downloaded unless it is
    /// cached, and its contents are compared during the download.
    ///
    /// # Errors
    /// Fails when the shard is missing, cannot be read or differs from the manifest; the error names the file, and for
    /// a difference the found and the expected value.
    ///
    /// # Panics
    /// Panics if the shard does not exist.
    pub fn check_shard(&self, shard: usize) -> Result<()> {
        if is_url(&self.folder) {
            return self.shard_file(shard).map(drop);
        }
        self.manifest.check_size(&self.folder, shard)?;
        self.manifest.check_digest(&self.folder, shard)
    }
}
