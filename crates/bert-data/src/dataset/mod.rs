//! Opens a finished data set: [`DataSet`] checks folder, manifest and vocabulary once and is then passed around.

pub(crate) mod conservation;
pub(crate) mod document_groups;
pub mod manifest;
pub(crate) mod manifest_check;
pub mod render;
pub mod report;
pub mod row_masker;
pub(crate) mod stored_rows;
pub(crate) mod verify;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;

use crate::config::Masking;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::shard::file::ShardFile;
use crate::shard::row::ShardRows;
use crate::shard::schema::row_schema;
use crate::tokenization::vocabulary::Vocabulary;
use bert_storage::{ObjectCache, is_url, on_disk};

/// A data set that a build committed. A clone shares everything with the original.
#[derive(Clone, Debug)]
pub struct DataSet {
    folder: Arc<Path>,
    manifest: Arc<Manifest>,
    vocabulary: Arc<Vocabulary>,
    /// Where copies of shards are kept that lie in an object store.
    cache: Arc<ObjectCache>,
}

/// How much the copies of shards may take on a disk, unless something else is said: 20 GiB.
pub const CACHE_BYTES: u64 = 20 << 30;

impl DataSet {
    /// Opens a data folder, which may be a URL: reads the manifest and the vocabulary, and compares the sizes of the shards. The digest of
    /// a shard is compared when the shard is first read.
    ///
    /// # Errors
    /// When there is no manifest, when it is damaged, and when a file is missing or differs from it.
    pub fn open(folder: &Path) -> Result<Self> {
        let folder = &*on_disk(folder);
        Self::of(folder, Manifest::read(folder)?)
    }

    /// [`DataSet::open`] with a manifest that was read before.
    ///
    /// # Errors
    /// When a file is missing or differs from the manifest.
    pub fn of(folder: &Path, manifest: Manifest) -> Result<Self> {
        let vocabulary = manifest.check_vocabulary(folder)?;
        manifest.check_sizes(folder)?;
        Ok(Self::new(folder, manifest, vocabulary))
    }

    /// A data set of which all is known; looks at no file.
    #[must_use]
    pub fn new(folder: &Path, manifest: Manifest, vocabulary: Vocabulary) -> Self {
        let cache = Arc::new(ObjectCache::new(&ObjectCache::user_folder("shards"), CACHE_BYTES));
        Self { folder: folder.into(), manifest: Arc::new(manifest), vocabulary: Arc::new(vocabulary), cache }
    }

    /// The same data set, with copies of its shards in another place; only of one in an object store.
    #[must_use]
    pub fn with_cache(self, cache: ObjectCache) -> Self {
        Self { cache: Arc::new(cache), ..self }
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

    /// The path of a shard, or its URL.
    ///
    /// # Panics
    /// When there is no such shard.
    #[must_use]
    pub fn shard_path(&self, shard: usize) -> PathBuf {
        self.manifest.shard_path(&self.folder, shard)
    }

    /// The file of a shard, or a copy of the object that it is.
    fn shard_file(&self, shard: usize) -> Result<File> {
        let (path, entry) = (self.shard_path(shard), &self.manifest.shards[shard]);
        match is_url(&path) {
            true => Ok(self.cache.open(&path, entry.bytes, &entry.blake3)?),
            false => File::open(&path).map_err(Error::io("open", &path)),
        }
    }

    /// Opens a shard that has these columns and as many rows as the manifest says; its digest is the caller's to
    /// compare.
    pub(crate) fn open_shard(&self, shard: usize, columns: &Schema) -> Result<ShardFile> {
        let file = ShardFile::open(&self.shard_path(shard), self.shard_file(shard)?)?;
        self.manifest.check_rows(&self.folder, shard, file.rows(), file.groups() as u64)?;
        file.check_columns(columns)?;
        Ok(file)
    }

    /// Opens a shard of instances; its digest is the caller's to compare ([`DataSet::check_shard`]).
    ///
    /// # Errors
    /// [`Error::Shard`] or [`Error::Storage`]; [`crate::ManifestProblem::Count`] when it has not the manifest's number
    /// of rows.
    pub fn open_rows(&self, shard: usize) -> Result<ShardFile> {
        self.open_shard(shard, &row_schema(self.manifest.config.columns, self.manifest.has_marks()))
    }

    /// The rows of some row groups of a shard of [`DataSet::open_rows`], in the order in which these are named; every
    /// one is checked.
    ///
    /// # Errors
    /// [`Error::Shard`] or [`Error::Storage`].
    pub fn read_groups(&self, file: &ShardFile, groups: &[usize]) -> Result<ShardRows> {
        let (mut all, config) = (ShardRows::default(), &self.manifest.config);
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

    /// The rows of one shard, after its digest, its number of rows and every row were checked.
    ///
    /// # Errors
    /// When the shard cannot be read or is not what the manifest says.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn read_rows(&self, shard: usize) -> Result<ShardRows> {
        self.check_shard(shard)?;
        let file = self.open_rows(shard)?;
        self.read_groups(&file, &(0..file.groups()).collect::<Vec<_>>())
    }

    /// Compares a shard's size and digest. One in an object store is fetched, if there is no copy of it: its contents
    /// are compared on the way.
    ///
    /// # Errors
    /// The first difference, naming file, found and expected.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn check_shard(&self, shard: usize) -> Result<()> {
        if is_url(&self.folder) {
            return self.shard_file(shard).map(drop);
        }
        self.manifest.check_size(&self.folder, shard)?;
        self.manifest.check_digest(&self.folder, shard)
    }
}
