//! Checks that no document or row is lost or duplicated between the text and the shards.
//!
//! Each stage counts its own work: the documents that it read, the documents that it turned into rows in each pass, the
//! rows that it built, and the rows that it wrote. These counts must agree before a manifest is written. The manifest
//! records them as [`Invariants`]; an error names the count that differs. Sets are compared by their size and an
//! order-independent fingerprint: the wrapping sum of a 64-bit hash of each member. Damage on disk is detected by
//! digests instead.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::config::resolved::ResolvedConfig;
use crate::config::{Layout, Nsp};
use crate::documents::Counts;
use crate::documents::id_width::{DocumentHash, Tally};
use crate::error::{Error, Result};

/// The documents of one pass that were turned into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassTally {
    pub(crate) pass: u64,
    pub(crate) documents: Tally,
}

/// The documents and rows of some (pass, document) units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuildTally {
    /// The passes that were processed, in ascending order.
    pub(crate) passes: Vec<PassTally>,
    /// The rows that were built.
    pub(crate) rows: Tally,
}

impl BuildTally {
    pub(crate) fn add_document(&mut self, pass: u64, document: DocumentHash) {
        self.pass_mut(pass).add_document(document);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        other.passes.iter().for_each(|pass| self.pass_mut(pass.pass).add(pass.documents));
        self.rows.add(other.rows);
    }

    /// Returns the tally of one pass. Passes arrive nearly in order, so a new one is usually at the end.
    fn pass_mut(&mut self, pass: u64) -> &mut Tally {
        let index = match self.passes.binary_search_by_key(&pass, |tally| tally.pass) {
            Ok(index) => index,
            Err(index) => {
                self.passes.insert(index, PassTally { pass, documents: Tally::default() });
                index
            }
        };
        &mut self.passes[index].documents
    }
}

/// The counts that were checked before the data set was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invariants {
    /// Number of documents; each was in each pass exactly once.
    pub documents: u64,
    /// Sum of the documents' hashes (over the tokens of each sentence); equal for the text and for each pass.
    pub document_fingerprint: String,
    /// Number of passes over the text.
    pub passes: u64,
    /// Number of tokens of the documents, summed over all passes.
    pub tokens: u64,
    /// Number of tokens of the documents that are in an instance of their own document. The others were truncated or
    /// have no instance.
    pub covered_tokens: u64,
    /// Number of rows that were built, equal to the number in the shards. If the shards hold documents, rows are
    /// documents.
    pub rows: u64,
    /// Sum of the rows' hashes; equal for the rows that were built and for the rows in the shards.
    pub row_fingerprint: String,
}

/// Returns an error if two values of the same quantity differ.
pub(crate) fn check_invariant(what: impl Display, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::data(format!(
        "an invariant of the build is broken: {what} is {found}, but must be {expected}; nothing was committed"
    )))
}

/// Checks that every document of the text was in every pass exactly once.
pub(crate) fn check_passes(documents: Tally, passes: u64, built: &[PassTally]) -> Result<()> {
    check_invariant("the number of passes", built.len() as u64, passes)?;
    let mut built = built.to_vec();
    built.sort_unstable_by_key(|pass| pass.pass);
    for (number, pass) in (0..).zip(&built) {
        check_invariant(format_args!("the number of the pass of pass {number}"), pass.pass, number)?;
        check_invariant(
            format_args!("the number of documents of pass {number}"),
            pass.documents.count,
            documents.count,
        )?;
        let found = pass.documents.fingerprint;
        let expected = documents.fingerprint;
        check_invariant(format_args!("the fingerprint of the documents of pass {number}"), found, expected)?;
    }
    Ok(())
}

/// Checks that the instances contain no more tokens of their own documents than the documents have, and exactly as
/// many if instances are single segments.
pub(crate) fn check_tokens(all: u64, covered: u64, nsp: Nsp) -> Result<()> {
    let what = "the number of tokens in instances of their own document";
    if nsp == Nsp::Off || covered > all { check_invariant(what, covered, all) } else { Ok(()) }
}

/// Checks that the written rows equal the rows that were built; each entry of `written` has a shard number.
pub(crate) fn check_rows(built: &BuildTally, written: &[(u64, Tally)]) -> Result<()> {
    let mut sum = Tally::default();
    written.iter().for_each(|&(_, shard)| sum.add(shard));
    check_invariant("the number of rows in the shards", sum.count, built.rows.count)?;
    check_invariant("the fingerprint of the rows in the shards", sum.fingerprint, built.rows.fingerprint)
}

impl Invariants {
    /// Checks all invariants over all parts; `written` must be in shard order.
    pub(crate) fn check(
        config: &ResolvedConfig,
        text: &Counts,
        built: &BuildTally,
        covered_tokens: u64,
        written: &[(u64, Tally)],
    ) -> Result<Self> {
        let documents = text.tally;
        let passes = config.dupe_factor as u64;
        let shards = config.num_shards as u64;
        check_passes(documents, passes, &built.passes)?;
        let tokens = text.tokens.saturating_mul(passes);
        check_tokens(tokens, covered_tokens, config.nsp)?;
        check_rows(built, written)?;
        check_invariant("the number of shards", written.len() as u64, shards)?;
        for (expected, (found, _)) in (0..).zip(written) {
            check_invariant("the number of a shard", *found, expected)?;
        }
        if config.layout == Layout::Documents {
            let found = built.rows.fingerprint;
            let expected = documents.fingerprint;
            check_invariant("the fingerprint of the documents in the shards", found, expected)?;
        }
        Ok(Self {
            documents: documents.count,
            document_fingerprint: format!("{:016x}", documents.fingerprint),
            passes,
            tokens,
            covered_tokens,
            rows: built.rows.count,
            row_fingerprint: format!("{:016x}", built.rows.fingerprint),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::output::OutputState;
    use crate::builder::part_receipt::PartReceipt;
    use crate::builder::prepare::prepare;
    use crate::config::BuildConfig;
    use crate::config::test_text::lettered;
    use crate::dataset::manifest::Manifest;
    use bert_storage::Disk;

    fn tally(numbers: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for number in numbers {
            let mut hash = DocumentHash::default();
            hash.add_sentence(&number.to_le_bytes());
            tally.add_document(hash);
        }
        tally
    }

    #[test]
    fn every_document_is_in_every_pass_once() {
        let text = tally(&[0, 1, 2]);
        let pass = |pass, numbers: &[u64]| PassTally { pass, documents: tally(numbers) };
        check_passes(text, 2, &[pass(0, &[0, 1, 2]), pass(1, &[2, 0, 1])]).unwrap();
        for (wrong, named) in [
            (vec![pass(0, &[0, 1, 2])], "the number of passes is 1, but must be 2"),
            (vec![pass(0, &[0, 1, 2]), pass(0, &[0, 1, 2])], "the number of the pass of pass 1"),
            (vec![pass(0, &[0, 1, 2]), pass(1, &[0, 1])], "the number of documents of pass 1 is 2"),
            (vec![pass(0, &[0, 1, 2, 2]), pass(1, &[0, 1, 2])], "the number of documents of pass 0 is 4"),
            (vec![pass(0, &[0, 1, 1]), pass(1, &[0, 1, 2])], "the fingerprint of the documents of pass 0"),
        ] {
            let error = check_passes(text, 2, &wrong).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert_eq!(error.exit_code(), 3);
        }
    }

    #[test]
    fn passes_of_parts_are_added_in_any_order() {
        let part = |passes: &[u64]| {
            let mut built = BuildTally::default();
            passes.iter().for_each(|&pass| built.add_document(pass, DocumentHash::default()));
            built
        };
        let mut sum = part(&[7, 7, 2, 9]);
        sum.add(&part(&[0, 9, 2]));
        let counts: Vec<_> = sum.passes.iter().map(|pass| (pass.pass, pass.documents.count)).collect();
        assert_eq!(counts, [(0, 1), (2, 2), (7, 2), (9, 2)]);
    }

    /// Runs a small build up to its receipt, which `damage` changes before the invariants are checked.
    fn build(damage: impl Fn(&mut PartReceipt)) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let config = BuildConfig { num_shards: Some(3), threads: 2, ..lettered(folder.path(), 500) };
        let prepared = prepare(&config)?;
        let OutputState::Open(output) = prepared.open(&Disk)? else { panic!("a new folder") };
        let mut receipt = prepared.build(&output, &mut |_| {})?;
        assert_eq!(receipt.shards.len(), 3);
        damage(&mut receipt);
        Manifest::from_parts(vec![receipt]).map(drop)
    }

    #[test]
    fn rows_that_are_lost_or_doubled_are_found() {
        build(|_| {}).unwrap();
        type Damage = fn(&mut PartReceipt);
        let damages: [(&str, Damage); 7] = [
            ("the number of rows in the shards", |receipt| receipt.shards[1].rows.count -= 1),
            ("the number of rows in the shards", |receipt| receipt.stats.tally.rows.count += 1),
            ("the fingerprint of the rows", |receipt| {
                let rows = &mut receipt.stats.tally.rows;
                rows.fingerprint = rows.fingerprint.wrapping_add(1);
            }),
            ("the number of documents of pass", |receipt| {
                receipt.stats.tally.passes[0].documents.count += 1;
            }),
            ("the number of passes", |receipt| receipt.stats.tally.passes.clear()),
            ("the number of rows in the shards", |receipt| drop(receipt.shards.pop())),
            ("the number of a shard", |receipt| receipt.shards[2].shard = 1),
        ];
        for (named, damage) in damages {
            let error = build(damage).unwrap_err();
            assert!(error.to_string().contains("an invariant of the build is broken:"), "{error}");
            assert!(error.to_string().contains(named), "{named}: {error}");
        }
    }
}
