//! From documents to rows in their final order.
//!
//! In go documents, out come the shards' files: instances are made and masked (in parallel in keyed mode), wait in a
//! scratch file, and are spread over the shards. Not for reading text or committing a data set (`build`).
//!
//! How rows are spread (keyed mode): of each `num_shards` consecutive rows every shard gets one, in random order, so
//! that shards are balanced to one row; within its shard a row goes to a random bucket, and each bucket, small enough
//! for memory, is shuffled. Random buckets, each shuffled, one after another, are a uniformly random order. In the
//! reference's mode there is one shard, and the rows are read from the scratch file in the order that CPython's
//! `shuffle` gives them.

use rayon::prelude::*;

use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::config::{BuildConfig, Layout, Nsp, RandomMode};
use crate::document::Documents;
use crate::document_shard::{TOKENS_PER_SHARD, write_document_shards};
use crate::error::Result;
use crate::files::Disk;
use crate::instance::create_instances_from_document;
use crate::keyed::KeyedInstances;
use crate::manifest::ShardEntry;
use crate::masking::MaskedInstance;
use crate::output::Output;
use crate::report::Counters;
use crate::rng::{Domain, PythonRandom, Random, Stream};
use crate::shard::{ShardWriter, shard_name};
use crate::spill::{FinishedSpill, PackedRow, Spill, Width, pack, row_offsets};

/// How many instances a shard holds where `--num-shards` is not given.
const ROWS_PER_SHARD: f64 = 65_536.0;
/// How large a bucket of packed rows may become, roughly.
const BUCKET_BYTES: f64 = 2e6;
/// Tokens of text for each thread in one round of making instances.
const ROUND_TOKENS: usize = 1 << 17;
/// Documents for each thread in one round of counting.
const ROUND_DOCUMENTS: usize = 1 << 12;

/// What is decided from the size of the text, before rows are made. It depends on nothing else but the options.
pub(crate) struct Plan {
    pub(crate) shards: usize,
    buckets_per_shard: usize,
    pub(crate) width: Width,
}

impl Plan {
    pub(crate) fn new(config: &BuildConfig, documents: &Documents, vocabulary: usize) -> Self {
        Self::of_size(config, documents.len(), documents.tokens(), vocabulary)
    }

    pub(crate) fn of_size(config: &BuildConfig, documents: usize, tokens: u64, vocabulary: usize) -> Self {
        let width = Width::of(vocabulary);
        let passes = config.passes() as f64;
        // Random next sentences add about 27 % to the text; rows are about 92 % full.
        let extra = if config.nsp == Nsp::On { 1.27 } else { 1.0 };
        let by_tokens = passes * tokens as f64 * extra / (0.92 * config.max_seq_length as f64);
        let rows = by_tokens.max(passes * documents as f64);
        let shards = match (config.random, config.num_shards) {
            (RandomMode::Reference, _) => 1,
            (RandomMode::Keyed, Some(shards)) => shards,
            (RandomMode::Keyed, None) if config.layout == Layout::Documents => {
                tokens.div_ceil(TOKENS_PER_SHARD).clamp(1, 99_999) as usize
            }
            (RandomMode::Keyed, None) => (rows / ROWS_PER_SHARD).ceil().clamp(1.0, 99_999.0) as usize,
        };
        let bytes = rows * width.bytes() as f64 * config.max_seq_length as f64 * 1.3;
        let buckets_per_shard = match config.random {
            RandomMode::Keyed => (bytes / shards as f64 / BUCKET_BYTES).ceil().clamp(1.0, 4096.0) as usize,
            RandomMode::Reference => 1,
        };
        Self { shards, buckets_per_shard, width }
    }
}

/// All rows, made but not yet in their order.
pub(crate) struct Spilled {
    rows: FinishedSpill,
    pub(crate) counters: Counters,
    order: RowOrder,
}

/// The order in which a spill's rows go to the shards.
enum RowOrder {
    /// Bucket by bucket, each shuffled.
    Buckets,
    /// The reference's: where each row ends in the spill, and the permutation of the rows.
    Permuted { ends: Vec<u64>, permutation: Vec<u32> },
}

pub(crate) fn make_keyed(
    prepared: &Prepared<'_>,
    documents: &Documents,
    plan: &Plan,
    output: &Output,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Spilled> {
    let config = prepared.config;
    let mut spill = Spill::create(&output.work_path("rows"), plan.shards * plan.buckets_per_shard)?;
    let mut counters = Counters::new(config.max_seq_length);
    let mut spread = Spread::new(config.random_seed, plan);
    let total = documents.len() * config.dupe_factor;
    let share = ROUND_TOKENS * prepared.pool.current_num_threads();
    let mut done = 0;
    while done < total {
        // A round: the next documents of this and the following passes, made in parallel, joined in order.
        let (mut end, mut tokens) = (done, 0);
        while end < total && tokens < share {
            tokens += documents.document(end % documents.len()).tokens();
            end += 1;
        }
        let make = |keyed: &mut KeyedInstances, unit: usize| {
            keyed_unit(prepared, documents, plan.width, keyed, unit)
        };
        let made: Vec<Result<Unit>> = prepared.pool.install(|| {
            (done..end).into_par_iter().map_init(|| config.keyed(&prepared.vocabulary), make).collect()
        });
        for unit in made {
            let unit = unit?;
            let mut start = 0;
            for row_end in unit.row_ends {
                spill.push(spread.next_bucket(), &unit.bytes[start..row_end])?;
                start = row_end;
            }
            counters.add(&unit.counters);
        }
        done = end;
        progress(BuildProgress { stage: BuildStage::Instances, done: done as u64, total: total as u64 });
    }
    Ok(Spilled { rows: spill.finish()?, counters, order: RowOrder::Buckets })
}

/// Makes the instances of pass 0 and keeps nothing but their counts (`--layout documents`).
pub(crate) fn count_pass(
    prepared: &Prepared<'_>,
    documents: &Documents,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Counters> {
    let config = prepared.config;
    let (mask, total) = (prepared.vocabulary.mask_id(), documents.len());
    let empty = || Counters::new(config.max_seq_length);
    let count = |(mut keyed, mut counters): (KeyedInstances, Counters), document: usize| -> Result<_> {
        keyed.make(documents, 0, document, |row| {
            counters.count(row, mask);
            Ok(())
        })?;
        Ok((keyed, counters))
    };
    let mut counters = empty();
    let share = (ROUND_DOCUMENTS * prepared.pool.current_num_threads()).max(1);
    for first in (0..total).step_by(share) {
        let end = (first + share).min(total);
        let parts: Vec<Result<Counters>> = prepared.pool.install(|| {
            let start = || (config.keyed(&prepared.vocabulary), empty());
            let folded = (first..end).into_par_iter().try_fold(start, count);
            folded.map(|part| part.map(|(_, counters)| counters)).collect()
        });
        for part in parts {
            counters.add(&part?);
        }
        progress(BuildProgress { stage: BuildStage::Instances, done: end as u64, total: total as u64 });
    }
    Ok(counters)
}

/// Writes the documents themselves (`--layout documents`).
pub(crate) fn write_documents(
    prepared: &Prepared<'_>,
    documents: &Documents,
    plan: &Plan,
    output: &Output,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<ShardEntry>> {
    let total = documents.len() as u64;
    let mut told = |done| progress(BuildProgress { stage: BuildStage::Writing, done, total });
    let path = |file: &str| output.work_path(file);
    write_document_shards(&Disk, documents, plan.shards, path, &prepared.pool, &mut told)
}

/// The rows of one document in one pass.
pub(crate) struct Unit {
    pub(crate) bytes: Vec<u8>,
    pub(crate) row_ends: Vec<usize>,
    counters: Counters,
}

pub(crate) fn keyed_unit(
    prepared: &Prepared<'_>,
    documents: &Documents,
    width: Width,
    keyed: &mut KeyedInstances,
    unit: usize,
) -> Result<Unit> {
    let (pass, document) = (unit / documents.len(), unit % documents.len());
    let counters = Counters::new(prepared.config.max_seq_length);
    let mut unit = Unit { bytes: Vec::new(), row_ends: Vec::new(), counters };
    let mask = prepared.vocabulary.mask_id();
    keyed.make(documents, pass as u64, document, |row| {
        pack(row, width, &mut unit.bytes);
        unit.row_ends.push(unit.bytes.len());
        unit.counters.count(row, mask);
        Ok(())
    })?;
    Ok(unit)
}

/// Decides where each next row goes.
struct Spread {
    seed: u64,
    shards: Vec<usize>,
    buckets_per_shard: usize,
    row: u64,
    buckets: Stream,
}

impl Spread {
    fn new(seed: u64, plan: &Plan) -> Self {
        let buckets = Stream::new(seed, Domain::BucketAssignment, &[]);
        let shards = (0..plan.shards).collect();
        Self { seed, shards, buckets_per_shard: plan.buckets_per_shard, row: 0, buckets }
    }

    fn next_bucket(&mut self) -> usize {
        let count = self.shards.len() as u64;
        let (block, place) = (self.row / count, self.row % count);
        if place == 0 && count > 1 {
            Stream::new(self.seed, Domain::ShardAssignment, &[block]).shuffle(&mut self.shards);
        }
        self.row += 1;
        let shard = self.shards[place as usize];
        let bucket = if self.buckets_per_shard > 1 { self.buckets.below(self.buckets_per_shard) } else { 0 };
        shard * self.buckets_per_shard + bucket
    }
}

/// The reference's serial draws: shuffle the documents, make all instances, shuffle the instances.
pub(crate) fn make_reference(
    prepared: &Prepared<'_>,
    documents: &mut Documents,
    plan: &Plan,
    output: &Output,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Spilled> {
    let config = prepared.config;
    let mut random = PythonRandom::new(config.random_seed);
    documents.shuffle(&mut random);
    let mut spill = Spill::create(&output.work_path("rows"), 1)?;
    let mut counters = Counters::new(config.max_seq_length);
    let vocabulary = &prepared.vocabulary;
    let (mut masker, rules, mask) =
        (config.masker(vocabulary), config.pair_rules(vocabulary), vocabulary.mask_id());
    let (mut masked, mut packed, mut ends) = (MaskedInstance::default(), Vec::new(), vec![0]);
    let total = (documents.len() * config.dupe_factor) as u64;
    for done in 0..total {
        let document = (done % documents.len() as u64) as usize;
        create_instances_from_document(documents, document, &rules, &mut random, |random, instance| {
            masker.mask(instance, random, &mut masked);
            counters.count(&masked, mask);
            packed.clear();
            pack(&masked, plan.width, &mut packed);
            ends.push(ends[ends.len() - 1] + packed.len() as u64);
            spill.push(0, &packed)
        })?;
        if done % 64 == 63 || done + 1 == total {
            progress(BuildProgress { stage: BuildStage::Instances, done: done + 1, total });
        }
    }
    let mut permutation: Vec<u32> = (0..counters.instances() as u32).collect();
    random.shuffle(&mut permutation);
    Ok(Spilled { rows: spill.finish()?, counters, order: RowOrder::Permuted { ends, permutation } })
}

pub(crate) fn write_shards(
    prepared: &Prepared<'_>,
    plan: &Plan,
    spilled: &Spilled,
    output: &Output,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<ShardEntry>> {
    let total = spilled.counters.instances();
    let mut told = |done| progress(BuildProgress { stage: BuildStage::Writing, done, total });
    let mut shards: Vec<ShardEntry> = Vec::with_capacity(plan.shards);
    // As many shards at a time as there are threads, so that memory does not grow with their number.
    let at_once = prepared.pool.current_num_threads();
    for first in (0..plan.shards).step_by(at_once) {
        let end = (first + at_once).min(plan.shards);
        let write = |shard| write_shard(prepared, plan, spilled, output, shard);
        let written: Vec<Result<ShardEntry>> =
            prepared.pool.install(|| (first..end).into_par_iter().map(write).collect());
        for shard in written {
            shards.push(shard?);
        }
        told(shards.iter().map(|shard| shard.rows).sum());
    }
    Ok(shards)
}

fn write_shard(
    prepared: &Prepared<'_>,
    plan: &Plan,
    spilled: &Spilled,
    output: &Output,
    shard: usize,
) -> Result<ShardEntry> {
    let file = shard_name(shard, plan.shards);
    let path = output.work_path(&file);
    let mut writer = ShardWriter::create(&Disk, &path)?;
    match &spilled.order {
        RowOrder::Buckets => {
            for bucket in 0..plan.buckets_per_shard {
                let bytes = spilled.rows.bucket(shard * plan.buckets_per_shard + bucket)?;
                let mut offsets = row_offsets(&bytes, plan.width);
                let address = [shard as u64, bucket as u64];
                Stream::new(prepared.config.random_seed, Domain::ShardOrder, &address).shuffle(&mut offsets);
                for offset in offsets {
                    writer.push(PackedRow::first_of(&bytes[offset as usize..], plan.width))?;
                }
            }
        }
        RowOrder::Permuted { ends, permutation } => {
            let mut rows = spilled.rows.open()?;
            let mut bytes = Vec::new();
            for &row in permutation {
                bytes.clear();
                rows.read(ends[row as usize]..ends[row as usize + 1], &mut bytes)?;
                writer.push(PackedRow::first_of(&bytes, plan.width))?;
            }
        }
    }
    let (rows, written) = writer.finish()?;
    Ok(ShardEntry { file, rows, bytes: written.bytes, blake3: written.blake3 })
}
