//! Whether a finished data folder is what was committed.
//!
//! [`verify`] compares every file with the manifest. When all shards are good it also counts them again, row by row, and
//! compares the sums with the law of conservation and the report: what the manifest says of the data is then what the
//! Parquet files hold, not what the builder believed it wrote.

use std::fmt;
use std::path::Path;

use crate::config::Layout;
use crate::conservation::{Tally, same};
use crate::document::{Counts, DocumentsBuilder};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::masking::MaskedInstance;
use crate::packed::{Width, pack};
use crate::report::Counters;
use crate::vocabulary::Vocabulary;

/// One file of a data folder and what is wrong with it.
#[derive(Debug)]
pub struct CheckedFile {
    /// Its name inside the folder.
    pub file: String,
    /// Its rows; 0 for the vocabulary.
    pub rows: u64,
    /// The problem, if any.
    pub problem: Option<Error>,
}

/// What was found when the shards were counted again.
#[derive(Debug)]
pub struct Recount {
    /// The rows of all shards.
    pub rows: u64,
    /// The first sum that is not the manifest's, if any.
    pub problem: Option<Error>,
}

/// The result of checking a data folder.
#[derive(Debug)]
pub struct Verification {
    /// Each file, the vocabulary first.
    pub files: Vec<CheckedFile>,
    /// The law of conservation; nothing where a file is not as committed, or no row was read.
    pub law: Option<Recount>,
}

impl Verification {
    /// Whether every file is as the manifest says, and the law holds as far as it was checked.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems().next().is_none()
    }

    /// The first problem.
    #[must_use]
    pub fn into_problem(self) -> Option<Error> {
        let law = self.law.and_then(|law| law.problem);
        self.files.into_iter().find_map(|file| file.problem).or(law)
    }

    fn problems(&self) -> impl Iterator<Item = &Error> {
        let law = self.law.iter().filter_map(|law| law.problem.as_ref());
        self.files.iter().filter_map(|file| file.problem.as_ref()).chain(law)
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for checked in &self.files {
            match &checked.problem {
                None if checked.rows == 0 => writeln!(f, "good  {}", checked.file)?,
                None => writeln!(f, "good  {} ({} rows)", checked.file, checked.rows)?,
                Some(problem) => writeln!(f, "BAD   {}: {problem}", checked.file)?,
            }
        }
        match &self.law {
            None => Ok(()),
            Some(Recount { rows, problem: None }) => {
                writeln!(f, "good  the law of conservation, from the {rows} rows in the shards")
            }
            Some(Recount { problem: Some(problem), .. }) => writeln!(f, "BAD   {problem}"),
        }
    }
}

/// Checks every file of a data folder against its manifest and goes on after a bad one. With `deep` reads every row, and
/// counts them again when all are good.
///
/// # Errors
/// Only when the manifest itself cannot be used; what is wrong with other files is in the result.
pub fn verify(folder: &Path, deep: bool) -> Result<Verification> {
    let manifest = Manifest::read(folder)?;
    let vocabulary = Manifest { shards: Vec::new(), ..manifest.clone() }.verify(folder, false).err();
    let mut files =
        vec![CheckedFile { file: manifest.vocabulary.file.clone(), rows: 0, problem: vocabulary }];
    let mut counter = match files[0].problem {
        None if deep => Some(ShardCounter::new(&manifest, folder)?),
        _ => None,
    };
    for (index, shard) in manifest.shards.iter().enumerate() {
        let checked = manifest.verify_shard(folder, index, deep && counter.is_none());
        let checked = checked.and_then(|()| match &mut counter {
            Some(counter) => counter.count(folder, index),
            None => Ok(()),
        });
        files.push(CheckedFile { file: shard.file.clone(), rows: shard.rows, problem: checked.err() });
    }
    let all_good = files.iter().all(|file| file.problem.is_none());
    let law = counter.filter(|_| all_good).map(|counter| {
        let rows = manifest.shards.iter().map(|shard| shard.rows).sum();
        Recount { rows, problem: counter.compare().err() }
    });
    Ok(Verification { files, law })
}

/// Counts what stands in shards, read in order.
struct ShardCounter<'a> {
    manifest: &'a Manifest,
    mask: u32,
    /// Where the shards hold instances.
    rows: Tally,
    counters: Counters,
    /// Where they hold documents.
    documents: DocumentsBuilder,
}

impl<'a> ShardCounter<'a> {
    fn new(manifest: &'a Manifest, folder: &Path) -> Result<Self> {
        Ok(Self {
            manifest,
            mask: Vocabulary::read(&manifest.vocabulary_path(folder))?.mask_id(),
            rows: Tally::default(),
            counters: Counters::new(manifest.config.max_seq_length),
            documents: DocumentsBuilder::new(manifest.id_space()),
        })
    }

    fn count(&mut self, folder: &Path, index: usize) -> Result<()> {
        match self.manifest.config.layout {
            Layout::Instances => self.count_instances(folder, index),
            Layout::Documents => {
                self.documents.forget();
                self.manifest.read_verified_documents(folder, index, &mut self.documents)
            }
        }
    }

    fn count_instances(&mut self, folder: &Path, index: usize) -> Result<()> {
        let (vocabulary, width) = (self.manifest.vocabulary.size, Width::of(self.manifest.id_space()));
        let (mut instance, mut packed) = (MaskedInstance::default(), Vec::new());
        for row in self.manifest.read_verified(folder, index)?.iter() {
            row.copy_to(vocabulary, &mut instance);
            packed.clear();
            pack(&instance, width, &mut packed);
            self.rows.see(&packed);
            self.counters.count(&instance, self.mask);
        }
        Ok(())
    }

    fn compare(&self) -> Result<()> {
        let (law, report) = (&self.manifest.conservation, &self.manifest.report);
        match self.manifest.config.layout {
            Layout::Instances => {
                same("the number of rows in the shards", None, self.rows.count, law.rows)?;
                same_fingerprint(
                    "the fingerprint of the rows in the shards",
                    self.rows,
                    &law.row_fingerprint,
                )?;
                report.agrees_with(&self.counters)
            }
            Layout::Documents => {
                let Counts { documents, sentences, tokens, seen } = self.documents.counts;
                same("the number of documents in the shards", None, documents, law.documents)?;
                same("the number of sentences in the shards", None, sentences, report.sentences)?;
                same("the number of tokens in the shards", None, tokens, report.tokens)?;
                same_fingerprint(
                    "the fingerprint of the documents in the shards",
                    seen,
                    &law.document_fingerprint,
                )
            }
        }
    }
}

fn same_fingerprint(what: &'static str, found: Tally, expected: &str) -> Result<()> {
    // What is no number agrees with nothing.
    let expected = u64::from_str_radix(expected, 16).unwrap_or(!found.fingerprint);
    same(what, None, found.fingerprint, expected)
}
