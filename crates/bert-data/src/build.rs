//! The data builder, start to end: text -> documents -> instances -> masked instances -> shards -> manifest.
//!
//! In goes a [`BuildConfig`], out comes a folder with Parquet shards, the vocabulary and `manifest.json`, or an error
//! and an unchanged folder. The stages are other modules; here is their order, the spreading of rows over shards, and
//! nothing else. Ports `main` and `create_training_instances`.
//!
//! How rows are spread (keyed mode): of each `num_shards` consecutive rows every shard gets one, in random order, so
//! that shards are balanced to one row; within its shard a row goes to a random bucket, and each bucket, small enough
//! for memory, is shuffled. Random buckets, each shuffled, one after another, are a uniformly random order.

use std::path::PathBuf;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::config::{BuildConfig, RandomMode, ResolvedConfig};
use crate::document::{Documents, ReadReport, ReadRules, read_documents};
use crate::error::{Error, Result};
use crate::files::{Disk, write_atomic};
use crate::input::{expand, first_duplicate};
use crate::instance::{PairRules, create_instances_from_document};
use crate::manifest::{FORMAT_VERSION, Manifest, ShardEntry, VOCABULARY, VocabularyEntry};
use crate::masking::{MaskRules, MaskedInstance, Masker};
use crate::output::{self, Output};
use crate::preview::render;
use crate::report::{Counters, DataReport};
use crate::rng::{Domain, PythonRandom, Random, Stream};
use crate::shard::{ShardWriter, read_shard_rows, shard_name};
use crate::spill::{FinishedSpill, PackedRow, Spill, Width, pack, row_offsets};
use crate::tokenization::Tokenizer;
use crate::vocabulary::Vocabulary;

/// How many instances a shard holds where `--num-shards` is not given.
const ROWS_PER_SHARD: f64 = 65_536.0;
/// How large a bucket of packed rows may become, roughly.
const BUCKET_BYTES: f64 = 8e6;
/// Tokens of text for each thread in one round of making instances.
const ROUND_TOKENS: usize = 1 << 17;

/// What a build is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildStage {
    /// Reading and tokenizing; counted in bytes of input on disk.
    Reading,
    /// Making pairs and masks; counted in documents, once for each pass.
    Instances,
    /// Writing shards; counted in rows.
    Writing,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// The stage.
    pub stage: BuildStage,
    /// Units of the stage that are done.
    pub done: u64,
    /// Units of the stage in all.
    pub total: u64,
}

/// What a build made.
#[derive(Clone, Debug)]
pub struct BuildOutcome {
    /// The folder.
    pub output: PathBuf,
    /// The manifest as it was written, with the report.
    pub manifest: Manifest,
    /// The first instances of the first shard as words, as many as `--preview` asked for.
    pub preview: Vec<String>,
}

/// Builds a data set.
///
/// # Errors
/// Any [`Error`]; the output folder then holds no new data set.
pub fn build(config: &BuildConfig, progress: &mut dyn FnMut(BuildProgress)) -> Result<BuildOutcome> {
    let folder = config.output()?;
    let prepared = prepare(config)?;
    output::check(folder, config.overwrite)?;
    let (documents, read) = prepared.read(progress)?;
    let plan = Plan::new(config, &documents, prepared.vocabulary.len());

    let output = Output::open(folder, config.overwrite)?;
    let spilled = match config.random {
        RandomMode::Keyed => make_keyed(&prepared, &documents, &plan, &output, progress)?,
        RandomMode::Reference => make_reference(&prepared, &documents, &plan, &output, progress)?,
    };
    if spilled.counters.instances() == 0 {
        return Err(Error::NoInstances { sentences: documents.sentences() });
    }
    let report = DataReport::new(&documents, &read, &spilled.counters);
    // The text has become rows: give its memory back before the rows are written.
    drop(documents);
    let shards = write_shards(&prepared, &plan, &spilled, &output, progress)?;

    let vocabulary = copy_vocabulary(&prepared.vocabulary, &output)?;
    let first = output.work_path(&shards[0].file);
    let preview = match config.preview {
        0 => Vec::new(),
        n => read_shard_rows(&first, Some(n))?.iter().map(|row| render(row, &prepared.vocabulary)).collect(),
    };
    let manifest = Manifest {
        format_version: FORMAT_VERSION,
        program: concat!("bert-data ", env!("CARGO_PKG_VERSION")).to_owned(),
        config: ResolvedConfig::new(config, plan.shards),
        inputs: read.inputs,
        vocabulary,
        instances: report.instances,
        shards,
        report,
    };
    drop(spilled);
    output.commit(&manifest)?;
    Ok(BuildOutcome { output: folder.to_owned(), manifest, preview })
}

fn copy_vocabulary(vocabulary: &Vocabulary, output: &Output) -> Result<VocabularyEntry> {
    let written = write_atomic(&output.work_path(VOCABULARY), |out| out.write_all(vocabulary.bytes()))?;
    Ok(VocabularyEntry { file: VOCABULARY.to_owned(), size: vocabulary.len(), blake3: written.blake3 })
}

/// Everything that is checked and loaded before text is read.
pub(crate) struct Prepared<'a> {
    pub(crate) config: &'a BuildConfig,
    pub(crate) vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    files: Vec<PathBuf>,
    pool: ThreadPool,
}

pub(crate) fn prepare(config: &BuildConfig) -> Result<Prepared<'_>> {
    config.check()?;
    let files = expand(&config.input)?;
    if let (RandomMode::Keyed, Some(path)) = (config.random, first_duplicate(&files)) {
        return Err(Error::InputTwice { path: path.clone() });
    }
    let vocabulary = Vocabulary::read(config.vocab()?)?;
    let tokenizer = Tokenizer::new(&vocabulary, config.do_lower_case);
    let pool = ThreadPoolBuilder::new()
        .num_threads(config.threads)
        .build()
        .map_err(|source| Error::Threads { threads: config.threads, source })?;
    Ok(Prepared { config, vocabulary, tokenizer, files, pool })
}

impl Prepared<'_> {
    pub(crate) fn read(&self, progress: &mut dyn FnMut(BuildProgress)) -> Result<(Documents, ReadReport)> {
        let total =
            self.files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|data| data.len()).sum();
        let mut told = |done| progress(BuildProgress { stage: BuildStage::Reading, done, total });
        let (vocabulary, rules) = (&self.vocabulary, ReadRules::new(self.config));
        read_documents(
            &self.files,
            &self.tokenizer,
            vocabulary.len(),
            vocabulary.unk_id(),
            &rules,
            &self.pool,
            &mut told,
        )
    }

    pub(crate) fn pair_rules(&self) -> PairRules {
        let config = self.config;
        let reference = config.random == RandomMode::Reference;
        PairRules::new(&self.vocabulary, config.max_seq_length, config.short_seq_prob, reference)
    }

    pub(crate) fn masker(&self) -> Masker {
        let rules = MaskRules {
            masked_lm_prob: self.config.masked_lm_prob,
            max_predictions_per_seq: self.config.max_predictions_per_seq,
            do_whole_word_mask: self.config.do_whole_word_mask,
            reference: self.config.random == RandomMode::Reference,
        };
        Masker::new(&self.vocabulary, rules)
    }

    /// Makes the instances of one document in one pass from its own streams.
    pub(crate) fn keyed_instances(
        &self,
        documents: &Documents,
        pass: u64,
        document: usize,
        masker: &mut Masker,
        mut emit: impl FnMut(&MaskedInstance) -> Result<()>,
    ) -> Result<()> {
        let address = [pass, document as u64];
        let mut pairs = Stream::new(self.config.random_seed, Domain::Pairs, &address);
        let mut masks = Stream::new(self.config.random_seed, Domain::Masks, &address);
        let mut masked = MaskedInstance::default();
        create_instances_from_document(documents, document, &self.pair_rules(), &mut pairs, |_, instance| {
            masker.mask(instance, &mut masks, &mut masked);
            emit(&masked)
        })
    }
}

/// What is decided from the size of the text, before rows are made. It depends on nothing else but the options.
struct Plan {
    shards: usize,
    buckets_per_shard: usize,
    width: Width,
}

impl Plan {
    fn new(config: &BuildConfig, documents: &Documents, vocabulary: usize) -> Self {
        let width = Width::of(vocabulary);
        let passes = config.dupe_factor as f64;
        // Random next sentences add about 27 % to the text; rows are about 92 % full.
        let by_tokens = passes * documents.tokens() as f64 * 1.27 / (0.92 * config.max_seq_length as f64);
        let rows = by_tokens.max(passes * documents.len() as f64);
        let shards = match (config.random, config.num_shards) {
            (RandomMode::Reference, _) => 1,
            (RandomMode::Keyed, Some(shards)) => shards,
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
struct Spilled {
    rows: FinishedSpill,
    counters: Counters,
    order: RowOrder,
}

/// The order in which a spill's rows go to the shards.
enum RowOrder {
    /// Bucket by bucket, each shuffled.
    Buckets,
    /// The reference's: where each row ends in the spill, and the permutation of the rows.
    Permuted { ends: Vec<u64>, permutation: Vec<u32> },
}

fn make_keyed(
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
        let make =
            |masker: &mut Masker, unit: usize| keyed_unit(prepared, documents, plan.width, masker, unit);
        let made: Vec<Result<Unit>> = prepared
            .pool
            .install(|| (done..end).into_par_iter().map_init(|| prepared.masker(), make).collect());
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

/// The rows of one document in one pass.
struct Unit {
    bytes: Vec<u8>,
    row_ends: Vec<usize>,
    counters: Counters,
}

fn keyed_unit(
    prepared: &Prepared<'_>,
    documents: &Documents,
    width: Width,
    masker: &mut Masker,
    unit: usize,
) -> Result<Unit> {
    let (pass, document) = (unit / documents.len(), unit % documents.len());
    let counters = Counters::new(prepared.config.max_seq_length);
    let mut unit = Unit { bytes: Vec::new(), row_ends: Vec::new(), counters };
    let mask = prepared.vocabulary.mask_id();
    prepared.keyed_instances(documents, pass as u64, document, masker, |row| {
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
fn make_reference(
    prepared: &Prepared<'_>,
    documents: &Documents,
    plan: &Plan,
    output: &Output,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Spilled> {
    let config = prepared.config;
    let mut random = PythonRandom::new(config.random_seed);
    let mut documents = documents.clone();
    documents.shuffle(&mut random);
    let mut spill = Spill::create(&output.work_path("rows"), 1)?;
    let mut counters = Counters::new(config.max_seq_length);
    let (mut masker, rules, mask) = (prepared.masker(), prepared.pair_rules(), prepared.vocabulary.mask_id());
    let (mut masked, mut packed, mut ends) = (MaskedInstance::default(), Vec::new(), vec![0]);
    let total = (documents.len() * config.dupe_factor) as u64;
    for done in 0..total {
        let document = (done % documents.len() as u64) as usize;
        create_instances_from_document(&documents, document, &rules, &mut random, |random, instance| {
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

fn write_shards(
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
