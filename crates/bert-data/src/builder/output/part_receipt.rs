//! The receipt of a part of a build: a hidden JSON file beside the shards that says what the part read, made and wrote.
//!
//! [`Manifest::of_parts`] makes the manifest from the receipts of all parts, after checking the law of conservation
//! over their union. A build in one go is part 1 of 1, whose receipt stays in memory.

use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use crate::builder::write_shards::{Made, ShardReceipt};
use crate::config::Layout;
use crate::config::part::Part;
use crate::config::resolved::ResolvedConfig;
use crate::dataset::conservation::Conservation;
use crate::dataset::manifest::{Manifest, PROGRAM, VOCABULARY, VocabularyEntry};
use crate::dataset::report::DataReport;
use crate::documents::Counts;
use crate::documents::read::ReadReport;
use crate::error::{Error, Locate, ManifestProblem, PartError, Result};
use crate::instance::coverage::Coverage;
use crate::shard::footer::FORMAT_VERSION;
use crate::shard::writer::shard_name;
use bert_storage::StagedFolder;
use bert_storage::sealed::{SealError, read_sealed};

/// What a part read, made and wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartReceipt {
    /// The digest of the options, the vocabulary and the versions of streams and formats.
    pub(crate) identity: String,
    /// The digest of these and of the text.
    pub(crate) build: String,
    pub(crate) part: usize,
    pub(crate) parts: usize,
    pub(crate) config: ResolvedConfig,
    pub(crate) vocabulary: VocabularyEntry,
    pub(crate) read: ReadReport,
    pub(crate) counts: Counts,
    pub(crate) shards: Vec<ShardReceipt>,
}

impl PartReceipt {
    /// The receipt of a part in the folder that the parts share; `None` where there is none.
    pub(crate) fn read(folder: &Path, part: Part) -> Result<Option<Self>> {
        if part.is_whole() {
            return Ok(None);
        }
        let path = folder.join(part.receipt_name());
        let json = match read_sealed(&path) {
            Ok(json) => json,
            Err(SealError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(SealError::Io(source)) => return Err(Error::io("read", &path)(source)),
            Err(source) => return Err(ManifestProblem::Seal(source).at(path).into()),
        };
        let receipt: Self = serde_json::from_slice(&json)
            .map_err(|source| ManifestProblem::InvalidReceipt(source).at(&path))?;
        receipt.check(&path)?;
        Ok(Some(receipt))
    }

    /// Every file has the name that the program gives it, and what is divided by or counted from is there.
    fn check(&self, path: &Path) -> Result<()> {
        let shards = self.config.num_shards;
        let named = |shard: &ShardReceipt| usize::try_from(shard.shard).map(|at| shard_name(at, shards));
        let foreign = self.shards.iter().find(|shard| named(shard).ok().as_ref() != Some(&shard.entry.file));
        let foreign = foreign.map(|shard| &shard.entry.file);
        let foreign = foreign.or(Some(&self.vocabulary.file).filter(|file| *file != VOCABULARY));
        if let Some(file) = foreign {
            return Err(ManifestProblem::UnsafePath(file.clone()).at(path).into());
        }
        let mut of_shards =
            self.shards.iter().filter_map(|shard| shard.made.as_ref()).map(|made| &made.counters);
        if shards == 0 || !of_shards.all(|counters| counters.fits(self.config.max_seq_length)) {
            let source = serde_json::Error::custom("no shards, or counts of other lengths");
            return Err(ManifestProblem::InvalidReceipt(source).at(path).into());
        }
        Ok(())
    }

    /// Writes it beside the shards, which finishes the part.
    pub(crate) fn write(&self, folder: &StagedFolder<'_>) -> Result<()> {
        let part = Part { index: self.part, of: self.parts };
        folder.write_sealed(&part.receipt_name(), self)?;
        Ok(())
    }
}

impl Manifest {
    /// The manifest of parts that belong together, after the law was checked over all of them.
    ///
    /// Where the parts found the inputs in other places, it names those of the first.
    pub(crate) fn of_parts(parts: Vec<PartReceipt>) -> Result<Self> {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else {
            return Err(PartError::Missing { found: 0, parts: 1, missing: 1 }.into());
        };
        let mut made = Made::new(first.config.max_seq_length);
        let mut shards = first.shards;
        shards.extend(parts.flat_map(|part| part.shards));
        shards.sort_by_key(|shard| shard.shard);
        let mut coverage = Coverage::new(first.counts.tokens);
        for of_shard in shards.iter().filter_map(|shard| shard.made.as_ref()) {
            made.tally.add(&of_shard.tally);
            made.counters.add(&of_shard.counters);
            made.unseen.add(of_shard.unseen);
            coverage.add(&of_shard.shown);
        }
        let unseen = match first.config.layout {
            Layout::Instances => coverage.unseen(),
            Layout::Documents => made.unseen,
        };
        let Made { tally, counters, .. } = made;
        let written: Vec<_> = shards.iter().map(|shard| (shard.shard, shard.rows)).collect();
        let conservation =
            Conservation::check(&first.config, &first.counts, &tally, counters.shown, &written)?;
        let report = DataReport::new(&first.config, &first.counts, &first.read, &counters, unseen);
        Ok(Self {
            format_version: FORMAT_VERSION,
            program: PROGRAM.to_owned(),
            config: first.config,
            inputs: first.read.inputs,
            vocabulary: first.vocabulary,
            instances: report.instances,
            shards: shards.into_iter().map(|shard| shard.entry).collect(),
            conservation,
            report,
        })
    }
}
