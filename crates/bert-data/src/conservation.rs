//! The law that nothing is lost and nothing is made twice on the way from text to shards.
//!
//! In go reports of the stages, each made where the work was done: which documents were read, which were made into rows
//! in which pass, which rows were made and which were written. Out comes a [`Conservation`], or an error that names what
//! does not add up; it is checked before a manifest is written, which records its numbers. Sets are compared by their
//! number and an order-free fingerprint: the wrapping sum of a 64-bit hash of each member. Not for damage on disk, which
//! digests find. The reference checks nothing.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::error::{Error, Result};

/// A set of things seen one after another, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) fingerprint: u64,
}

impl Tally {
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        self.add(Self { count: 1, fingerprint: XxHash3_64::oneshot(bytes) });
    }

    /// Sees a document: its number in the order of the text, and its first sentence and the one after its last.
    pub(crate) fn see_document(&mut self, number: u64, sentences: std::ops::Range<u64>) {
        let mut bytes = [0; 24];
        for (place, part) in bytes.chunks_exact_mut(8).zip([number, sentences.start, sentences.end]) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        self.see(&bytes);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}

/// The documents of one pass that were made into rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassTally {
    pub(crate) pass: u64,
    pub(crate) documents: Tally,
}

/// What was made of some (pass, document) units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MadeTally {
    /// The passes that were worked on, ascending.
    pub(crate) passes: Vec<PassTally>,
    /// Rows of all shards, whether they were made here or are another part's.
    pub(crate) all_rows: u64,
    /// The rows that were made here.
    pub(crate) rows: Tally,
}

impl MadeTally {
    pub(crate) fn see_document(&mut self, pass: u64, number: u64, sentences: std::ops::Range<u64>) {
        match self.passes.last_mut() {
            Some(last) if last.pass == pass => last.documents.see_document(number, sentences),
            _ => {
                let mut documents = Tally::default();
                documents.see_document(number, sentences);
                self.passes.push(PassTally { pass, documents });
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for pass in &other.passes {
            match self.passes.last_mut() {
                Some(last) if last.pass == pass.pass => last.documents.add(pass.documents),
                _ => self.passes.push(*pass),
            }
        }
        self.all_rows += other.all_rows;
        self.rows.add(other.rows);
    }
}

/// What was checked before the data set was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conservation {
    /// Documents, each of which was in each pass exactly once.
    pub documents: u64,
    /// The sum of the documents' hashes, the same for the text and for each pass.
    pub document_fingerprint: String,
    /// Passes over the text.
    pub passes: u64,
    /// Rows that were made, and rows in the shards.
    pub rows: u64,
    /// The sum of the rows' hashes, the same for the rows that were made and for those in the shards.
    pub row_fingerprint: String,
}

fn same(what: &'static str, pass: Option<u64>, found: u64, expected: u64) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::NotConserved { what, pass, found, expected }) }
}

/// Checks that every document of the text was in every pass once.
pub(crate) fn check_passes(documents: Tally, passes: u64, made: &[PassTally]) -> Result<()> {
    same("the number of passes", None, made.len() as u64, passes)?;
    for (number, pass) in (0..).zip(made) {
        same("the number of the pass", Some(number), pass.pass, number)?;
        same("the number of documents", Some(number), pass.documents.count, documents.count)?;
        let (found, expected) = (pass.documents.fingerprint, documents.fingerprint);
        same("the fingerprint of the documents", Some(number), found, expected)?;
    }
    Ok(())
}

/// Checks that what was made is what was written, shard by shard and as a whole. `shards` is their number in the
/// whole data set; of `written` each has the shard's number.
pub(crate) fn check_rows(made: &MadeTally, shards: u64, written: &[(u64, Tally)]) -> Result<()> {
    let mut sum = Tally::default();
    for &(_, shard) in written {
        sum.add(shard);
        // Balanced to one row.
        let least = made.all_rows / shards;
        if shard.count != least && shard.count != least + 1 {
            same("the rows of a shard", None, shard.count, least)?;
        }
    }
    same("the number of rows in the shards", None, sum.count, made.rows.count)?;
    same("the fingerprint of the rows in the shards", None, sum.fingerprint, made.rows.fingerprint)
}

impl Conservation {
    /// The whole law, over all parts.
    pub(crate) fn check(
        documents: Tally,
        passes: u64,
        made: &MadeTally,
        shards: u64,
        written: &[(u64, Tally)],
    ) -> Result<Self> {
        check_passes(documents, passes, &made.passes)?;
        check_rows(made, shards, written)?;
        same("the number of shards", None, written.len() as u64, shards)?;
        same("the number of rows made", None, made.rows.count, made.all_rows)?;
        Ok(Self {
            documents: documents.count,
            document_fingerprint: format!("{:016x}", documents.fingerprint),
            passes,
            rows: made.all_rows,
            row_fingerprint: format!("{:016x}", made.rows.fingerprint),
        })
    }
}
