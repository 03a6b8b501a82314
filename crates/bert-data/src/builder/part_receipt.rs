//! The receipt of a part of a build: a hidden JSON file next to the shards that records the inputs, counts and shards
//! of the part.
//!
//! [`Manifest::from_parts`] creates the manifest from the receipts of all parts, after it has checked that they contain
//! every document and row exactly once. A build without parts is part 1 of 1, and its receipt stays in memory.

use std::io::ErrorKind;
use std::path::Path;

use bert_storage::checksummed_json::read_checksummed;
use bert_storage::{Error, StagedFolder};
use serde::{Deserialize, Serialize};

use crate::builder::write_shards::{PartStats, PieceStats, WrittenShard};
use crate::config::Layout;
use crate::config::part::Part;
use crate::config::resolved::ResolvedConfig;
use crate::dataset::document_hashes::DocumentHashes;
use crate::dataset::invariants::Invariants;
use crate::dataset::manifest::{Manifest, VOCABULARY, VocabularyEntry};
use crate::dataset::report::DataReport;
use crate::documents::Counts;
use crate::documents::read_report::ReadReport;
use crate::error::{Result, parts_missing};
use crate::program::program;
use crate::shard::writer::{FORMAT_VERSION, shard_name};

/// The inputs, counts and shards of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartReceipt {
    /// Digest of the options, the vocabulary and the versions of random streams and formats.
    pub(crate) identity: String,
    /// Digest of the identity and the text.
    pub(crate) build: String,
    pub(crate) part: usize,
    pub(crate) parts: usize,
    pub(crate) config: ResolvedConfig,
    pub(crate) vocabulary: VocabularyEntry,
    pub(crate) read: ReadReport,
    pub(crate) counts: Counts,
    /// Hashes of the documents of all parts; only the first part has them.
    pub(crate) document_hashes: DocumentHashes,
    /// The sum of the counts of the shards.
    #[serde(rename = "made")]
    pub(crate) stats: PieceStats,
    pub(crate) shards: Vec<WrittenShard>,
}

impl PartReceipt {
    /// Reads the receipt of a part from the folder that the parts share; returns `None` if there is no receipt.
    pub(crate) fn read(folder: &Path, part: Part) -> Result<Option<Self>> {
        if part.is_whole() {
            return Ok(None);
        }
        let path = folder.join(part.receipt_name());
        let json = match read_checksummed(&path) {
            Ok(json) => json,
            Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let receipt: Self = serde_json::from_slice(&json)
            .map_err(|source| Error::data("not a valid receipt of a part").because(source).at(&path))?;
        receipt.check(&path)?;
        Ok(Some(receipt))
    }

    /// Checks that every file has its standard name, that the options are valid for a build, and that the counts of
    /// instances are consistent. [`Manifest::check`] later checks the sums over all parts.
    fn check(&self, path: &Path) -> Result<()> {
        let shards = self.config.num_shards;
        let held_out = self.config.held_out;
        let named =
            |shard: &WrittenShard| usize::try_from(shard.shard).map(|at| shard_name(at, shards, held_out));
        let foreign = self.shards.iter().find(|shard| named(shard).ok().as_ref() != Some(&shard.entry.file));
        let foreign = foreign.map(|shard| &shard.entry.file);
        let foreign = foreign.or(Some(&self.vocabulary.file).filter(|file| *file != VOCABULARY));
        if let Some(file) = foreign {
            return Err(Error::data(format!("it names {file:?}, which is not a plain file name")).at(path));
        }
        self.config.check(path)?;
        if self.stats.counters.is_consistent(self.config.max_seq_length) {
            return Ok(());
        }
        Err(Error::data("one of the counts of instances contradicts the other values").at(path))
    }

    /// Writes the receipt next to the shards, which completes the part.
    pub(crate) fn write(&self, folder: &StagedFolder<'_>) -> Result<()> {
        let part = Part { index: self.part, count: self.parts };
        folder.write_checksummed(&part.receipt_name(), self)?;
        Ok(())
    }
}

impl Manifest {
    /// Creates the manifest from parts that belong together, after checking the invariants over all of them.
    ///
    /// If the parts read the inputs from different paths, the manifest lists the paths of the first part.
    pub(crate) fn from_parts(parts: Vec<PartReceipt>) -> Result<Self> {
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or_else(|| parts_missing(1, &[1]))?;
        let mut sum = PartStats::new(first.config.max_seq_length, first.counts.tokens);
        sum.add(&first.stats);
        let mut shards = first.shards;
        for part in parts {
            sum.add(&part.stats);
            shards.extend(part.shards);
        }
        shards.sort_by_key(|shard| shard.shard);
        let PartStats { tally, counters, coverage, uncovered } = sum;
        let uncovered = match first.config.layout {
            Layout::Instances => coverage.uncovered(),
            Layout::Documents => uncovered,
        };
        let written: Vec<_> = shards.iter().map(|shard| (shard.shard, shard.rows)).collect();
        let invariants =
            Invariants::check(&first.config, &first.counts, &tally, counters.own_tokens, &written)?;
        let report = DataReport::new(&first.config, &first.counts, &first.read, &counters, uncovered);
        Ok(Self {
            format_version: FORMAT_VERSION,
            program: program(),
            config: first.config,
            inputs: first.read.inputs,
            vocabulary: first.vocabulary,
            instances: report.instances,
            shards: shards.into_iter().map(|shard| shard.entry).collect(),
            invariants,
            document_hashes: first.document_hashes,
            report,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::output::OutputState;
    use crate::builder::prepare::{PASS, SHARD, prepare};
    use crate::config::BuildConfig;
    use crate::config::test_text::lettered;
    use bert_storage::Disk;
    use bert_storage::checksummed_json::checksummed_json;

    #[test]
    fn receipts_are_no_larger_than_estimated() {
        let folder = tempfile::tempdir().unwrap();
        let config = BuildConfig { num_shards: Some(2), threads: 1, ..lettered(folder.path(), 100) };
        let prepared = prepare(&config).unwrap();
        let OutputState::Open(output) = prepared.open(&Disk).unwrap() else { panic!("a new folder") };
        let mut receipt = prepared.build(&output, &mut |_| {}).unwrap();
        // Numbers of maximum length.
        let entry = &mut receipt.shards[0].entry;
        entry.file = "train-00000-of-99999.parquet".to_owned();
        (entry.rows, entry.bytes, entry.row_groups) = (1 << 32, 1 << 40, 32_767);
        receipt.shards[0].rows.fingerprint = u64::MAX;
        receipt.stats.tally.passes[0] = serde_json::from_value(serde_json::json!({
            "pass": 999_999, "documents": { "count": 1u64 << 40, "fingerprint": u64::MAX },
        }))
        .unwrap();
        let bytes = |receipt: &PartReceipt| checksummed_json(receipt).len() as u64;
        let before = bytes(&receipt);
        let shard = receipt.shards[0].clone();
        receipt.shards.extend(std::iter::repeat_n(shard, 1000));
        let shard_bytes = bytes(&receipt) - before;
        assert!((SHARD * 800..=SHARD * 1000).contains(&shard_bytes), "{shard_bytes}");
        let pass = receipt.stats.tally.passes[0];
        receipt.stats.tally.passes.extend([pass; 1000]);
        let pass_bytes = bytes(&receipt) - before - shard_bytes;
        assert!((PASS * 800..=PASS * 1000).contains(&pass_bytes), "{pass_bytes}");
    }
}
