//! Builds and encodes the data set of a sample, and measures the time.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bert_random::{Domain, Random, Stream};

use crate::builder::plan::{Plan, row_groups};
use crate::builder::prepare::{PreparedBuild, Tuning};
use crate::config::{Layout, MAX_ROW_GROUPS, RandomMode};
use crate::documents::Documents;
use crate::documents::id_width::Width;
use crate::error::Result;
use crate::instance::coverage::Counters;
use crate::instance::masking::KeyedInstances;
use crate::parallel::Workers;
use crate::shard::documents::{DocumentEncoder, document_format};
use crate::shard::row::pack;
use crate::shard::writer::{EncodedRowGroup, RowEncoder, ShardFormat, ShardWriter, shard_footer};

/// Minimum number of instances built from the sample, if its passes yield that many.
const MIN_ROWS: u64 = 40_000;

/// Bytes of packed instances after which no further pass is run, even if there are fewer than [`MIN_ROWS`] instances
/// because they are long.
const MAX_PACKED_BYTES: usize = 64 << 20;

/// The size of the data set of a sample, and the time to build it.
pub(super) struct Trial {
    /// Number of instances in a few passes.
    pub(super) rows: usize,
    pub(super) passes: usize,
    /// Bytes of the instances when packed.
    pub(super) packed: usize,
    /// Bytes of the shard.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) tuning: Tuning,
    /// Counts of the instances.
    pub(super) counters: Counters,
}

impl Trial {
    /// Builds the data set from the documents of a sample; `scale` is the size of the text divided by the size of the
    /// sample.
    pub(super) fn run(
        prepared: &PreparedBuild<'_>,
        plan: &Plan,
        text: &Documents,
        scale: f64,
    ) -> Result<Self> {
        let (sample, building) = time_warm(|| build_rows(prepared, text))?;
        let tuning = Tuning::new(prepared.budget, prepared.pool.current_num_threads(), plan.unit_bytes());
        let (bytes, writing) = time_warm(|| match prepared.config.layout {
            Layout::Instances => encode_rows(prepared, plan, &tuning, &sample),
            Layout::Documents => encode_documents(prepared, plan, &tuning, text, scale),
        })?;
        let rows = sample.rows.len();
        let passes = sample.passes;
        let packed = sample.bytes.len();
        let counters = sample.counters;
        Ok(Self { rows, passes, packed, bytes, seconds: building + writing, tuning, counters })
    }
}

/// Runs `work` twice and returns the second result with its time in seconds. This excludes startup costs (starting threads, first
/// use of memory), which do not matter in a long build.
fn time_warm<T>(work: impl Fn() -> Result<T>) -> Result<(T, f64)> {
    work()?;
    let start = Instant::now();
    let result = work()?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// Packed rows of the sample.
struct SampleRows {
    bytes: Vec<u8>,
    /// Offset of each row in `bytes`.
    rows: Vec<u32>,
    passes: usize,
    counters: Counters,
}

/// Builds the instances of a few passes over the sample, with the same number of threads as the build.
fn build_rows(prepared: &PreparedBuild<'_>, documents: &Documents) -> Result<SampleRows> {
    let config = prepared.config;
    let width = Width::for_vocabulary(prepared.ids().size());
    let counters = Counters::new(config.max_seq_length);
    let mut sample = SampleRows { bytes: Vec::new(), rows: Vec::new(), passes: 0, counters };
    let serial = config.random == RandomMode::Reference;
    let threads = if serial { 1 } else { prepared.pool.current_num_threads() };
    let mut makers = vec![prepared.resolved(1).keyed(&prepared.vocabulary); threads];
    let mask = prepared.vocabulary.mask_id();
    let is_small =
        |sample: &SampleRows| (sample.rows.len() as u64) < MIN_ROWS && sample.bytes.len() < MAX_PACKED_BYTES;
    while sample.passes < config.passes() && is_small(&sample) {
        let unit = |keyed: &mut KeyedInstances, document: usize| -> Result<(Vec<u8>, Vec<u32>, Counters)> {
            let mut rows = Vec::new();
            let mut starts = Vec::new();
            let mut counters = Counters::new(config.max_seq_length);
            keyed.generate(documents, sample.passes as u64, (document, document as u64), |_, row| {
                starts.push(rows.len() as u32);
                pack(row, width, &mut rows);
                counters.count(row, mask);
                Ok(())
            })?;
            Ok((rows, starts, counters))
        };
        let all = (0..documents.len()).collect();
        let stop = AtomicBool::new(false);
        let workers = Workers::new(&prepared.pool, &mut makers, &stop);
        for (rows, starts, counters) in workers.map_all(all, unit, &mut || {})? {
            let base = sample.bytes.len() as u32;
            sample.rows.extend(starts.into_iter().map(|start| base + start));
            sample.bytes.extend_from_slice(&rows);
            sample.counters.add(&counters);
        }
        sample.passes += 1;
    }
    Ok(sample)
}

/// Encodes the documents themselves, which are not packed; returns the bytes of the shards.
fn encode_documents(
    prepared: &PreparedBuild<'_>,
    plan: &Plan,
    tuning: &Tuning,
    documents: &Documents,
    scale: f64,
) -> Result<u64> {
    let format = document_format(prepared.stored_ids());
    let shards = (plan.shards as f64 / scale).round().max(1.0) as usize;
    // All threads have work, and every shard has the same number of row groups.
    let groups = shards * tuning.workers.div_ceil(shards);
    let all = documents.len();
    let items = (0..groups).map(|at| all * at / groups..all * (at + 1) / groups).collect();
    let encoder = || DocumentEncoder::new(prepared.stored_ids());
    let encode =
        |encoder: &mut DocumentEncoder, some| encoder.encode(Path::new(PLACEHOLDER), documents, some);
    let mut encoded = encode_all(prepared, tuning, items, encoder, encode)?.into_iter();
    let per_shard = groups / shards;
    (0..shards).map(|_| bytes_of(prepared, plan, &format, encoded.by_ref().take(per_shard))).sum()
}

fn encode_rows(
    prepared: &PreparedBuild<'_>,
    plan: &Plan,
    tuning: &Tuning,
    sample: &SampleRows,
) -> Result<u64> {
    let mut order = sample.rows.clone();
    Stream::new(prepared.config.random_seed, Domain::ShardOrder, &[0, 0]).shuffle(&mut order);
    let items = row_groups(0..order.len(), MAX_ROW_GROUPS).collect();
    let encoder = || RowEncoder::new(prepared.row_columns());
    let encode = |encoder: &mut RowEncoder, rows: Range<usize>| {
        encoder.encode(Path::new(PLACEHOLDER), &sample.bytes, plan.width, &order[rows])
    };
    let encoded = encode_all(prepared, tuning, items, encoder, encode)?;
    bytes_of(prepared, plan, &ShardFormat::for_rows(prepared.row_columns()), encoded.into_iter())
}

/// Placeholder name of the shard in error messages.
const PLACEHOLDER: &str = "nowhere.parquet";

/// Encodes row groups as in a build, with one encoder per worker.
fn encode_all<E: Send>(
    prepared: &PreparedBuild<'_>,
    tuning: &Tuning,
    items: Vec<Range<usize>>,
    encoder: impl Fn() -> Result<E>,
    encode: impl Fn(&mut E, Range<usize>) -> Result<EncodedRowGroup> + Sync,
) -> Result<Vec<EncodedRowGroup>> {
    let mut encoders = (0..tuning.workers).map(|_| encoder()).collect::<Result<Vec<_>>>()?;
    let stop = AtomicBool::new(false);
    Workers::new(&prepared.pool, &mut encoders, &stop).map_all(items, encode, &mut || {})
}

/// Returns the size in bytes of a shard with these row groups.
fn bytes_of(
    prepared: &PreparedBuild<'_>,
    plan: &Plan,
    format: &ShardFormat,
    mut groups: impl Iterator<Item = EncodedRowGroup>,
) -> Result<u64> {
    let footer = shard_footer(&prepared.footer(plan.shards), 0, plan.shards);
    let mut shard = ShardWriter::new(Vec::new(), Path::new(PLACEHOLDER), format, footer)?;
    groups.try_for_each(|group| shard.append(group))?;
    Ok(shard.finish()?.out.len() as u64)
}
