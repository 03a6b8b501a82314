//! The law that nothing is lost and nothing is made twice on the way from text to shards.
//!
//! In go reports of the stages, each made where the work was done: which documents were read, which were made into rows
//! in which pass, which rows were made and which were written. Out comes a [`Conservation`], or an error that names what
//! does not add up; it is checked before a manifest is written, which records its numbers. Sets are compared by their
//! number and an order-free fingerprint: the wrapping sum of a 64-bit hash of each member. Not for damage on disk, which
//! digests find. The reference checks nothing.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::config::{Layout, Nsp};
use crate::document::{Counts, Span};
use crate::error::{Error, Result};
use crate::resolved_config::ResolvedConfig;

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

    pub(crate) fn see_document(&mut self, document: &Span) {
        let Span { number, sentences, tokens } = document;
        let parts = [*number, sentences.start, sentences.end, tokens.start, tokens.end];
        let mut bytes = [0; 40];
        for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        self.see(&bytes);
    }

    /// A sum that no set reaches stays at the largest number, and then agrees with nothing.
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
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
    pub(crate) fn see_document(&mut self, pass: u64, document: &Span) {
        match self.passes.last_mut() {
            Some(last) if last.pass == pass => last.documents.see_document(document),
            _ => {
                let mut documents = Tally::default();
                documents.see_document(document);
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
        self.all_rows = self.all_rows.saturating_add(other.all_rows);
        self.rows.add(other.rows);
    }
}

/// What was checked before the data set was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conservation {
    /// Documents, each of which was in each pass exactly once.
    pub documents: u64,
    /// The sum of the documents' hashes (number, sentences and tokens), the same for the text and for each pass.
    pub document_fingerprint: String,
    /// Passes over the text.
    pub passes: u64,
    /// Tokens of the documents, all passes together.
    pub tokens: u64,
    /// Those of them that stand in an instance of their own document. The others were cut off or have no instance.
    pub shown_tokens: u64,
    /// Rows that were made, and rows in the shards. Where the shards hold documents, these are the rows.
    pub rows: u64,
    /// The sum of the rows' hashes, the same for the rows that were made and for those in the shards.
    pub row_fingerprint: String,
}

/// Compares two sums of the same thing.
pub(crate) fn same(what: &'static str, pass: Option<u64>, found: u64, expected: u64) -> Result<()> {
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

/// Checks that of the tokens of all passes none stands in two instances of its own document, and that all stand in one
/// where instances are single segments.
pub(crate) fn check_tokens(all: u64, shown: u64, nsp: Nsp) -> Result<()> {
    let what = "the number of tokens in instances of their own document";
    if nsp == Nsp::Off || shown > all { same(what, None, shown, all) } else { Ok(()) }
}

/// Checks that what was made is what was written, as a whole and shard by shard. Where rows are balanced among shards,
/// `balance` is the number of shards of the whole data set; of `written` each has the shard's number.
pub(crate) fn check_rows(made: &MadeTally, balance: Option<u64>, written: &[(u64, Tally)]) -> Result<()> {
    let mut sum = Tally::default();
    for &(_, shard) in written {
        sum.add(shard);
        // Balanced to one row.
        if let Some(least) = balance.map(|shards| made.all_rows / shards)
            && !(least..=least.saturating_add(1)).contains(&shard.count)
        {
            same("the rows of a shard", None, shard.count, least)?;
        }
    }
    same("the number of rows in the shards", None, sum.count, made.rows.count)?;
    same("the fingerprint of the rows in the shards", None, sum.fingerprint, made.rows.fingerprint)
}

impl Conservation {
    /// The whole law, over all parts. Rows are balanced among shards where they are instances; where not, they are the
    /// documents.
    pub(crate) fn check(
        config: &ResolvedConfig,
        text: &Counts,
        made: &MadeTally,
        shown_tokens: u64,
        written: &[(u64, Tally)],
    ) -> Result<Self> {
        let (documents, passes, shards) = (text.seen, config.dupe_factor as u64, config.num_shards as u64);
        let balanced = config.layout == Layout::Instances;
        check_passes(documents, passes, &made.passes)?;
        let tokens = text.tokens.saturating_mul(passes);
        check_tokens(tokens, shown_tokens, config.nsp)?;
        check_rows(made, balanced.then_some(shards), written)?;
        same("the number of shards", None, written.len() as u64, shards)?;
        same("the number of rows made", None, made.rows.count, made.all_rows)?;
        if !balanced {
            let (found, expected) = (made.rows.fingerprint, documents.fingerprint);
            same("the fingerprint of the documents in the shards", None, found, expected)?;
        }
        Ok(Self {
            documents: documents.count,
            document_fingerprint: format!("{:016x}", documents.fingerprint),
            passes,
            tokens,
            shown_tokens,
            rows: made.all_rows,
            row_fingerprint: format!("{:016x}", made.rows.fingerprint),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Tuning;
    use crate::build::prepare;
    use crate::config::BuildConfig;
    use crate::coverage::Coverage;
    use crate::files::Disk;
    use crate::footer::Footer;
    use crate::part::Part;
    use crate::plan::Plan;
    use crate::rounds::{RowJob, make_rows};
    use crate::shards::{ShardJob, ShuffledSlots, make_shards};
    use crate::spill::Spilled;
    use crate::store::make_store;
    use crate::test_text::lettered;

    fn tally(numbers: &[u64]) -> Tally {
        let mut tally = Tally::default();
        let span =
            |number| Span { number, sentences: number..number + 2, tokens: 9 * number..9 * number + 9 };
        numbers.iter().for_each(|&number| tally.see_document(&span(number)));
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

    /// A small build as far as its rows, which `damage` changes before they are written and checked.
    fn build(damage: impl Fn(&mut Spilled)) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let config = BuildConfig { num_shards: Some(3), threads: 2, ..lettered(folder.path(), 500) };
        let prepared = prepare(&config)?;
        let output = prepared.open(&Disk)?;
        let store = make_store(&prepared, &output.work, &mut |_| {})?;
        let plan = Plan::new(&config, store.counts.documents, store.counts.tokens, prepared.vocabulary.len());
        // Many small runs and segments.
        let tuning = Tuning {
            run_bytes: 5_000,
            segment_bytes: 20_000,
            round_tokens: 1_000,
            ..Tuning::new(prepared.budget, 2, plan.bytes, plan.group_bytes())
        };
        let documents = store.open(&output.work, plan.width, &tuning)?;
        let (build, part) = (store.build(), Part::WHOLE);
        let (prepared, plan, work, output) = (&prepared, &plan, &output.work, &output);
        let (documents, coverage) = (&documents, &Coverage::new(store.counts.tokens));
        let job = RowJob { prepared, documents, plan, tuning: &tuning, part, work, build: &build, coverage };
        let mut spilled = make_rows(&job, Vec::new(), &mut |_| {})?;
        assert!(spilled.runs() > 10, "{}", spilled.runs());
        damage(&mut spilled);
        let (seed, buckets, width) = (config.random_seed, plan.buckets, plan.width);
        let source = ShuffledSlots { spilled: &spilled, seed, buckets, width };
        let footer = &Footer::default();
        let job = ShardJob { prepared, output, plan, part, writers: 2, build: &build, footer, rows: 0 };
        let shards = make_shards(&job, &source, &mut |_| {})?;
        let written: Vec<_> = shards.iter().map(|shard| (shard.shard, shard.rows)).collect();
        let resolved = ResolvedConfig::new(&config, 3, false);
        Conservation::check(&resolved, &store.counts, &spilled.made, spilled.counters.shown, &written)
            .map(drop)
    }

    #[test]
    fn rows_that_are_lost_or_doubled_are_found() {
        build(|_| {}).unwrap();
        for (named, damage) in [
            ("rows", &(|spilled: &mut Spilled| spilled.lose_run(2)) as &dyn Fn(&mut Spilled)),
            ("rows", &|spilled| spilled.double_run(2)),
            ("rows", &|spilled| {
                spilled.lose_run(1);
                spilled.double_run(3);
            }),
            ("the fingerprint of the rows", &|spilled| {
                spilled.made.rows.fingerprint = spilled.made.rows.fingerprint.wrapping_add(1);
            }),
            ("the number of documents of pass 3", &|spilled| {
                let again = MadeTally { passes: spilled.made.passes[3..].to_vec(), ..MadeTally::default() };
                spilled.made.add(&again);
            }),
        ] {
            let error = build(damage).unwrap_err();
            assert!(matches!(error, Error::NotConserved { .. }), "{error}");
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
