//! Divides a build: documents into buckets, and the rows of the buckets into shards.
//!
//! A [`Plan`] depends only on the options, the size of the vocabulary and the numbers of documents and tokens. Memory,
//! threads and parts do not change it.
//!
//! In every pass, the documents are assigned to buckets at random. A *unit* is one bucket in one pass; units are
//! numbered pass by pass. The rows of each unit are built and shuffled independently. The sequence of all units is cut
//! into shards of equal size. The shards of a large text consist of whole units. If a shard ends inside a unit, the
//! rows of the unit are divided there, and the unit is built for both shards. The reference, in contrast, writes one
//! file per name that the user gives.

use std::ops::Range;

use serde::Serialize;

use crate::config::check::min_shards;
use crate::config::{BuildConfig, Layout, MAX_ROW_GROUPS, Nsp, RandomMode};
use crate::documents::BUCKET_TOKENS;
use crate::documents::id_width::Width;
use crate::error::Result;

/// Maximum number of documents in a bucket; limits the number of rows if documents are short.
const BUCKET_DOCUMENTS: u64 = 1 << 18;
/// Approximate size in bytes of a shard on disk if `--num-shards` is not given.
const SHARD_BYTES: f64 = 128e6;
/// Approximate bytes on disk per token, for rows and for documents.
const BYTES_PER_TOKEN: [f64; 2] = [1.9, 1.4];
/// Maximum number of shards if `--num-shards` is not given; larger data sets have larger shards.
const MAX_SHARDS: u64 = 20_000;
/// Minimum number of rows in a row group, if the piece of the unit has that many.
const GROUP_ROWS: u64 = 10_000;

/// The division of a data set into buckets and shards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    documents: u64,
    passes: u64,
    /// Number of buckets per pass.
    buckets: u64,
    pub(crate) shards: usize,
    pub(crate) width: Width,
    /// Estimated maximum size of all packed rows in bytes.
    pub(crate) bytes: f64,
}

/// The rows of a unit that belong to one shard, as a range of fractions of the unit's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) shard: usize,
    from: (u64, u64),
    to: (u64, u64),
}

impl Piece {
    /// Returns the range of these rows in a unit of `unit_rows` rows.
    pub(crate) fn rows(&self, unit_rows: u64) -> Range<usize> {
        let row_at = |(part, whole): (u64, u64)| {
            (u128::from(unit_rows) * u128::from(part) / u128::from(whole)) as usize
        };
        row_at(self.from)..row_at(self.to)
    }
}

/// Divides rows into at most `max_groups` row groups of nearly equal size, with at least [`GROUP_ROWS`] rows each if
/// possible.
pub(crate) fn row_groups(rows: Range<usize>, max_groups: u64) -> impl Iterator<Item = Range<usize>> {
    let groups = (rows.len() as u64 / GROUP_ROWS).clamp(1, max_groups) as usize;
    let start_of = move |group: usize| rows.start + rows.len() * group / groups;
    (0..groups).map(move |group| start_of(group)..start_of(group + 1))
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The figures of a plan that a dry run reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlanFigures {
    /// Number of passes over the documents.
    pub passes: u64,
    /// Number of buckets in all passes. A bucket is an independent unit of work.
    pub buckets: u64,
    /// Number of documents per bucket.
    pub documents_per_bucket: u64,
    /// Number of Parquet files.
    pub shards: u64,
    /// Approximate number of row groups per shard.
    pub row_groups_per_shard: u64,
    /// Maximum number of reads from the text per shard: one per document, and a second one for the offset of the
    /// document if the index is not in memory.
    pub reads_per_shard: u64,
    /// Number of files open at the same time, including standard input, output and error.
    pub open_files: u64,
    /// Bytes of the packed rows of a bucket; a thread needs a few times as much.
    pub bucket_bytes: u64,
}

impl Plan {
    pub(crate) fn new(config: &BuildConfig, documents: u64, tokens: u64, vocabulary: usize) -> Self {
        let width = Width::for_vocabulary(vocabulary);
        let passes = config.passes() as u64;
        // Random next sentences add about 27 % to the text; rows are about 92 % full.
        let extra = if config.nsp == Nsp::On { 1.27 } else { 1.0 };
        let by_tokens = passes as f64 * tokens as f64 * extra / (0.92 * config.max_seq_length as f64);
        let rows = by_tokens.max((passes * documents) as f64);
        let bytes = rows * width.bytes() as f64 * config.max_seq_length as f64 * 1.3;
        let wanted = tokens.div_ceil(BUCKET_TOKENS).max(documents.div_ceil(BUCKET_DOCUMENTS));
        // A bucket with a single document has no other document for a random next sentence.
        let max_buckets = (documents / 2).max(1);
        let wanted = wanted.clamp(1, max_buckets);
        let whole = Self { documents, passes, buckets: wanted, shards: 1, width, bytes };
        let shards = match (config.random, config.num_shards) {
            (RandomMode::Reference, _) => return whole,
            (RandomMode::Keyed, Some(shards)) => shards as u64,
            (RandomMode::Keyed, None) => {
                let per_token = match config.layout {
                    Layout::Instances => extra * BYTES_PER_TOKEN[0],
                    Layout::Documents => BYTES_PER_TOKEN[1],
                };
                let on_disk = passes as f64 * tokens as f64 * per_token;
                let shards =
                    ((on_disk / SHARD_BYTES).round() as u64).clamp(1, MAX_SHARDS.min(passes * wanted));
                shards.max(min_shards(passes * wanted))
            }
        };
        // Round up the number of buckets so that shards are whole units, unless the buckets would become small.
        let step = shards / greatest_common_divisor(shards, passes);
        let aligned = wanted.next_multiple_of(step);
        let buckets = if aligned <= (2 * wanted).min(max_buckets) { aligned } else { wanted };
        Self { buckets, shards: shards as usize, ..whole }
    }

    /// Rejects a plan in which a shard has more row groups than a Parquet file may have.
    ///
    /// # Errors
    /// Fails when a shard would have more row groups than a Parquet file may have.
    pub(crate) fn check(&self, config: &BuildConfig) -> Result<()> {
        config.check_shards(self.shards, self.units())
    }

    /// Divides the rows of a piece of a unit into row groups.
    pub(crate) fn row_groups(&self, rows: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        row_groups(rows, self.max_groups_per_piece())
    }

    /// Returns the maximum number of row groups of a piece, so that a shard stays within the limit of a Parquet file.
    fn max_groups_per_piece(&self) -> u64 {
        (MAX_ROW_GROUPS / self.pieces_per_shard()).max(1)
    }

    /// Returns the maximum number of units that lie in a shard, entirely or in part.
    fn pieces_per_shard(&self) -> u64 {
        let units = self.units();
        let shards = self.shards as u64;
        units.div_ceil(shards) + u64::from(!units.is_multiple_of(shards))
    }

    /// Returns the number of units in all passes.
    pub(crate) fn units(&self) -> u64 {
        self.passes * self.buckets
    }

    /// Returns the pass and the bucket of a unit.
    pub(crate) fn address(&self, unit: u64) -> (u64, u64) {
        (unit / self.buckets, unit % self.buckets)
    }

    /// Returns the positions of a bucket's documents in the order of a pass.
    pub(crate) fn positions(&self, bucket: u64) -> Range<u64> {
        let start_of =
            |bucket: u64| (u128::from(self.documents) * u128::from(bucket) / u128::from(self.buckets)) as u64;
        start_of(bucket)..start_of(bucket + 1)
    }

    /// Returns the pieces into which the shards cut a unit, in shard order; together they cover the unit.
    pub(crate) fn pieces(&self, unit: u64) -> impl Iterator<Item = Piece> + use<> {
        let units = u128::from(self.units());
        let shards = self.shards as u128;
        let unit = u128::from(unit);
        // Shard s begins at unit s * units / shards.
        let first = unit * shards / units;
        let last = ((unit + 1) * shards).div_ceil(units);
        let border = move |shard: u128| {
            let share = (shard * units).clamp(unit * shards, (unit + 1) * shards) - unit * shards;
            (share as u64, shards as u64)
        };
        (first..last).map(move |shard| Piece {
            shard: shard as usize,
            from: border(shard),
            to: border(shard + 1),
        })
    }

    /// Returns the figures of this plan for this number of rows and threads.
    pub(crate) fn figures(&self, rows: f64, threads: usize) -> PlanFigures {
        let shards = self.shards as u64;
        let units = self.units();
        let documents_per_bucket = self.documents.div_ceil(self.buckets);
        let rows_per_unit = rows / units as f64;
        PlanFigures {
            passes: self.passes,
            buckets: units,
            documents_per_bucket,
            shards,
            row_groups_per_shard: (rows_per_unit as u64 / GROUP_ROWS).clamp(1, self.max_groups_per_piece())
                * units.div_ceil(shards),
            reads_per_shard: 2 * documents_per_bucket * self.pieces_per_shard(),
            // Each thread opens the text and its index. The shard being written, the shard being finished, two locks
            // and the folder are open too.
            open_files: 3 + 2 * threads as u64 + 5,
            bucket_bytes: self.unit_bytes() as u64,
        }
    }

    /// Returns the bytes of the packed rows of one unit.
    pub(crate) fn unit_bytes(&self) -> f64 {
        self.bytes / self.units() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::prepare::Tuning;
    use crate::config::byte_size::ByteSize;
    use crate::documents::Counts;

    fn plan(shards: Option<usize>, dupe_factor: usize, documents: u64, tokens: u64) -> Plan {
        let config = BuildConfig { num_shards: shards, dupe_factor, ..BuildConfig::default() };
        Plan::new(&config, documents, tokens, 30_000)
    }

    #[test]
    fn every_row_of_every_unit_is_in_one_shard() {
        for (shards, passes, documents, tokens) in [
            (1, 1, 2, 50),
            (3, 10, 500, 9_000),
            (16, 1, 90, 4_000),
            (7, 3, 40_000, 90_000_000),
            (64, 10, 1 << 20, 1 << 28),
        ] {
            let plan = plan(Some(shards), passes, documents, tokens);
            assert_eq!(plan.shards, shards);
            let mut last = (0, 0);
            let mut in_shard = vec![0; shards];
            for unit in 0..plan.units() {
                let rows = 1000 + unit % 7;
                let mut next = 0;
                for piece in plan.pieces(unit) {
                    let range = piece.rows(rows);
                    assert_eq!(range.start, next, "{plan:?} {piece:?}");
                    assert!((piece.shard, unit) >= last, "in order");
                    last = (piece.shard, unit);
                    in_shard[piece.shard] += range.len();
                    next = range.end;
                }
                assert_eq!(next as u64, rows, "{plan:?}");
            }
            // Equal shares of the units, whose row counts differ by 7 in 1000.
            let mean = in_shard.iter().sum::<usize>() as f64 / shards as f64;
            assert!(in_shard.iter().all(|&rows| (rows as f64 / mean - 1.0).abs() < 0.02), "{in_shard:?}");
            let positions: Vec<u64> = (0..plan.buckets).flat_map(|bucket| plan.positions(bucket)).collect();
            assert!(positions.into_iter().eq(0..documents));
        }
    }

    #[test]
    fn sizes_from_a_page_to_a_terabyte() {
        // Documents, tokens, passes -> buckets per pass, shards.
        for (documents, tokens, passes, buckets, shards) in [
            (1, 100, 10, 1, 1),
            (50_000, 22_000_000, 10, 6, 4),
            (2_000_000, 880_000_000, 10, 210, 166),
            (500_000_000, 220_000_000_000, 10, 54_000, 20_000),
        ] {
            let plan = plan(None, passes, documents, tokens);
            assert!((plan.buckets as f64 / buckets as f64 - 1.0).abs() < 0.35, "{plan:?}");
            assert!((plan.shards as f64 / shards as f64 - 1.0).abs() < 0.1, "{plan:?}");
            let tokens = tokens / plan.buckets;
            assert!(tokens <= BUCKET_TOKENS && (plan.buckets == 1 || tokens > BUCKET_TOKENS / 3), "{plan:?}");
        }
        // Very short documents, and a few long ones.
        assert_eq!(plan(Some(1), 1, 1 << 30, 1 << 31).buckets, 1 << 12);
        assert_eq!(plan(None, 1, 3, 1 << 30).buckets, 1);
    }

    /// Plans a terabyte as 5e8 and as 1e9 documents, in ten passes: more than 1e10 rows.
    #[test]
    fn a_terabyte_keeps_within_its_limits() {
        for (documents, tokens) in [(500_000_000, 220_000_000_000), (1_000_000_000, 220_000_000_000u64)] {
            let counts = Counts { documents, tokens, sentences: tokens / 26, ..Counts::default() };
            let plan = plan(None, 10, documents, tokens);
            let rows = 10.0 * tokens as f64 * 1.27 / 117.0;
            assert!(rows > 1e10);
            let figures = plan.figures(rows, 16);
            assert!(figures.shards <= MAX_SHARDS && figures.buckets > 100 * 512, "{figures:?}");
            assert!(figures.open_files <= 64, "{figures:?}");
            let documents_per_shard = 10 * documents / figures.shards;
            assert!(
                figures.reads_per_shard <= 5 * documents_per_shard / 2 && figures.row_groups_per_shard <= 400,
                "{figures:?}"
            );
            // With a budget of 1 GiB, at least eight of sixteen threads have enough memory for a bucket.
            let tuning = Tuning::new(ByteSize(1 << 30), 16, plan.unit_bytes());
            assert!(tuning.workers >= 8, "{tuning:?}");
            let [text, index] = counts.bytes(plan.width);
            assert!((text + index) as f64 / tokens as f64 <= 2.25, "scratch of {} bytes", text + index);
            assert_eq!(index, 16 * (documents + 1));
        }
    }

    /// A shard with very many units: each unit has a row group, and the total stays within Parquet's limit.
    #[test]
    fn row_groups_of_a_shard_keep_within_parquets_limit() {
        let error = plan(Some(1), 40_000, 4, 40).check(&BuildConfig::default()).unwrap_err().to_string();
        assert!(error.contains("`.num_shards` is 1") && error.contains("at least 2"), "{error}");
        assert_eq!(plan(None, 40_000, 4, 40).shards, 2);
        for (shards, documents) in [(1, 8_000_000), (2, 8_000_000), (3, 16_000_000), (7, 30_000_000)] {
            let plan = plan(Some(shards), 10, documents, documents * 440);
            plan.check(&BuildConfig::default()).unwrap();
            let mut groups = vec![0; shards];
            for unit in 0..plan.units() {
                for piece in plan.pieces(unit) {
                    groups[piece.shard] += plan.row_groups(piece.rows(45_000)).count();
                }
            }
            assert!(groups.iter().all(|&groups| groups as u64 <= MAX_ROW_GROUPS), "{groups:?}");
            assert!(shards > 1 || groups[0] > 20_000, "{groups:?}");
        }
    }

    #[test]
    fn row_groups_have_ten_thousand_rows() {
        for (rows, groups) in [(0, 1), (9_999, 1), (19_999, 1), (43_000, 4)] {
            let all: Vec<_> = row_groups(7..7 + rows, 32_767).collect();
            assert_eq!(all.len(), groups);
            assert!(all.iter().flat_map(|group| group.clone()).eq(7..7 + rows));
        }
    }
}
