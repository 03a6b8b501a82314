//! Runs a build from start to end: text -> documents -> instances -> masked instances -> shards -> manifest.
//!
//! A build writes a folder with Parquet shards, the vocabulary, a data card and `manifest.json`. If it fails after it
//! has finished some work, it leaves a work folder, and the same command continues from there. This module only runs
//! the stages in order. It ports `main` and `create_training_instances` of the reference's
//! `create_pretraining_data.py`.

pub(crate) mod bucket_rows;
pub(crate) mod dry_run;
pub(crate) mod held_out;
pub(crate) mod merge;
pub(crate) mod output;
pub(crate) mod part_receipt;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod prepare;
pub(crate) mod reference_rows;
pub(crate) mod token_store;
pub(crate) mod write_shards;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bert_storage::{Class, Disk, FileSystem, digest_bytes};
use bert_text::{each_file, same_text};
use bert_tokenization::{ChineseSegmenter, IdSpace, Tokenizer};
use parquet::file::metadata::KeyValue;

use crate::builder::bucket_rows::{BucketJob, BucketWorker};
use crate::builder::output::work_folder::{Difference, Identity, all_differences};
use crate::builder::output::{Output, OutputState, Target};
use crate::builder::part_receipt::PartReceipt;
use crate::builder::plan::{Plan, row_groups};
use crate::builder::prepare::{BuildProgress, BuildStage, PreparedBuild, Tuning, prepare};
use crate::builder::reference_rows::generate_reference_rows;
use crate::builder::token_store::{Division, Store};
use crate::builder::write_shards::{PieceStats, ShardJob, WrittenShard, write_shard_files};
use crate::config::check::conflict;
use crate::config::part::Part;
use crate::config::resolved::ResolvedConfig;
use crate::config::{BuildConfig, Columns, Layout, MAX_ROW_GROUPS, Masking, Nsp, RandomMode, Segmenter};
use crate::dataset::DataSet;
use crate::dataset::document_hashes::DocumentHashes;
use crate::dataset::manifest::{Manifest, VOCABULARY, VocabularyEntry};
use crate::dataset::render::render_first;
use crate::documents::Counts;
use crate::documents::selection::{check_held_out, with_limit};
use crate::error::{Error, Result, finished_data_set};
use crate::shard::documents::document_format;
use crate::shard::writer::{RowColumns, RowEncoder, ShardFormat, shared_footer};

/// The result of a build.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildOutcome {
    /// The output folder.
    pub output: PathBuf,
    /// The manifest as written, including the report.
    pub manifest: Manifest,
    /// The first `--preview` instances of the first shard, as text.
    pub preview: Vec<String>,
}

impl BuildOutcome {
    /// Opens the data set.
    ///
    /// # Errors
    /// Fails as [`DataSet::from_manifest`] does.
    pub fn data_set(&self) -> Result<DataSet> {
        DataSet::from_manifest(&self.output, self.manifest.clone())
    }
}

/// Builds a data set.
///
/// # Errors
/// Fails when an option or the text is invalid, when a file cannot be read or written, or when the output is in use or
/// holds other data. The output folder then holds no new data set.
pub fn build(config: &BuildConfig, progress: &mut dyn FnMut(BuildProgress)) -> Result<BuildOutcome> {
    build_on(&Disk, config, progress)
}

/// Runs [`build`] on a custom file system.
///
/// # Errors
/// Fails as [`build`] does.
pub fn build_on(
    files: &dyn FileSystem,
    config: &BuildConfig,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuildOutcome> {
    config.output()?;
    let config = &*with_limit(config)?;
    if config.part()? != Part::WHOLE {
        return conflict("part", "a whole build", "a part is built separately, and the parts are merged");
    }
    build_prepared(files, &prepare(config)?, progress)
}

pub(crate) fn build_prepared(
    files: &dyn FileSystem,
    prepared: &PreparedBuild<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<BuildOutcome> {
    let mut state = prepared.open(files)?;
    if let OutputState::Open(output) = &mut state
        && let Some(manifest) = output.committed()?
    {
        if same_text(&manifest.inputs, &prepared.files, prepared.config.reading(), &AtomicBool::new(false))? {
            return prepared.outcome(manifest);
        }
        // The data set is complete but was built from different text; it is handled like any other finished data set.
        drop(state);
        state = prepared.open(files)?;
    }
    let output = match state {
        OutputState::Open(output) => *output,
        OutputState::Finished(manifest) => {
            progress(BuildProgress { stage: BuildStage::Finished, done: 0, total: 0 });
            return prepared.outcome(*manifest);
        }
    };
    let receipt = prepared.build(&output, progress)?;
    let manifest = Manifest::from_parts(vec![receipt])?;
    output.commit(&manifest, prepared.vocabulary.bytes())?;
    prepared.outcome(manifest)
}

/// Rejects a corpus that yields no instances.
fn check_instances(config: &BuildConfig, text: &Counts) -> Result<()> {
    let all_have_one = text.sentences == text.documents;
    match config.nsp {
        Nsp::On if config.random == RandomMode::Keyed && all_have_one && text.documents == 1 => {
            Err(Error::data(
                "no instance can be built: the only document has 1 sentence(s), and a random next sentence needs a second \
                 document; put a blank line between documents, or one sentence on each line (`.split_sentences`)",
            )
            .absent())
        }
        Nsp::Sop if all_have_one => Err(Error::data(format!(
            "no instance can be built: `.nsp sop` needs two sentences of one document, and each of the {} document(s) has one; \
             put a blank line between documents only, or use `.split_sentences`",
            text.documents
        ))
        .absent()),
        _ => Ok(()),
    }
}

impl PreparedBuild<'_> {
    /// Returns the tokenizer that the options select.
    pub(crate) fn tokenizer(&self) -> Tokenizer {
        let tokenizer = Tokenizer::new(&self.vocabulary, self.settings);
        match self.config.segmenter {
            Segmenter::None => tokenizer,
            Segmenter::Chinese => tokenizer.with_segmenter(ChineseSegmenter::default()),
        }
    }

    /// Returns the options in the form in which they are saved, for this number of shards.
    pub(crate) fn resolved(&self, shards: usize) -> ResolvedConfig {
        ResolvedConfig::new(self.config, self.settings, shards, &self.formats)
    }

    /// Returns the token ids in use before masking.
    pub(crate) fn ids(&self) -> IdSpace {
        IdSpace { vocabulary: self.vocabulary.len(), word_marks: self.config.segmenter != Segmenter::None }
    }

    /// Returns the token ids of the rows and documents that are written to shards; masking removes the word marks.
    pub(crate) fn stored_ids(&self) -> IdSpace {
        let word_marks = self.ids().word_marks && self.config.stored_masking() == Masking::Dynamic;
        IdSpace { word_marks, ..self.ids() }
    }

    /// Returns the columns of the shards if they hold instances.
    pub(crate) fn row_columns(&self) -> RowColumns {
        match self.config.columns {
            Columns::Reference => RowColumns::Reference(self.stored_ids()),
            Columns::Hf => {
                RowColumns::Hf { length: self.config.max_seq_length, pad: self.vocabulary.pad_id() }
            }
        }
    }

    /// Returns the entries that the footers of all shards have.
    pub(crate) fn footer(&self, shards: usize) -> Vec<KeyValue> {
        shared_footer(&self.resolved(shards), digest_bytes(self.vocabulary.bytes()))
    }

    /// Opens and locks the output folder, or returns the data set in it if this command made it; rejects any other data
    /// set.
    pub(crate) fn open<'f>(&self, files: &'f dyn FileSystem) -> Result<OutputState<'f>> {
        let identity = self.identity();
        let state = Target::new(files, self, identity.clone())?.open()?;
        if let OutputState::Finished(manifest) = &state {
            self.reject_other(manifest, &identity)?;
        }
        Ok(state)
    }

    /// Rejects an output that a build would reject. Changes nothing.
    pub(crate) fn check_output(&self) -> Result<()> {
        let identity = self.identity();
        match Target::new(&Disk, self, identity.clone())?.finished()? {
            Some(manifest) => self.reject_other(&manifest, &identity),
            None => Ok(()),
        }
    }

    fn identity(&self) -> Identity {
        Identity::new(self.resolved(self.config.num_shards.unwrap_or(0)), self.vocabulary.bytes())
    }

    /// Rejects a finished data set whose options or text differ from this command's.
    fn reject_other(&self, manifest: &Manifest, identity: &Identity) -> Result<()> {
        let folder = &*self.config.output()?;
        let counts = &manifest.report;
        let plan = Plan::new(self.config, counts.documents, counts.tokens, self.ids().size());
        let mut differences = identity.with_shards(plan.shards).differences_from(manifest);
        if differences.is_empty() && !self.is_text_of(manifest)? {
            differences = vec![Difference::text()];
        }
        if differences.is_empty() {
            return manifest.check_files(folder);
        }
        Err(finished_data_set(&all_differences(&differences)).at(folder))
    }

    /// Returns whether the inputs equal the text of a data set. Compares sizes before it reads the files.
    fn is_text_of(&self, manifest: &Manifest) -> Result<bool> {
        let sizes = each_file(&self.files, bert_text::size)?;
        Ok(manifest.inputs.iter().map(|input| input.bytes).eq(sizes)
            && same_text(&manifest.inputs, &self.files, self.config.reading(), &AtomicBool::new(false))?)
    }

    /// Writes the shards of this part in the work folder, reusing finished ones, and checks that nothing was lost.
    pub(crate) fn build(
        &self,
        output: &Output<'_>,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<PartReceipt> {
        let config = self.config;
        let part = self.part;
        let division = Division::new(self)?;
        division.tokenize(self, &output.work, progress)?;
        let store = division.store(self, output);
        let store = store.and_then(|store| {
            check_instances(config, &store.counts)?;
            check_held_out(config, &store.read, store.counts.documents)?;
            Ok(store)
        });
        match &store {
            // An error without a path is about the text as a whole. The same text would be rejected again, so nothing
            // is kept.
            Err(error) if error.class() == Class::Data && error.path().is_none() => output.work.discard(),
            // From here on, a failed build has finished work to continue from.
            _ => output.work.keep(),
        }
        let mut store = store?;
        let plan = Plan::new(config, store.counts.documents, store.counts.tokens, self.ids().size());
        plan.check(config)?;
        if let Some(objects) = &output.objects {
            objects.claim(&store.build)?;
        }
        let (shards, stats) = self.write_shard_files(output, &mut store, &plan, progress)?;
        let vocabulary = VocabularyEntry {
            file: VOCABULARY.to_owned(),
            size: self.vocabulary.len(),
            blake3: digest_bytes(self.vocabulary.bytes()),
        };
        // Only the first part hashes the documents and lists the inputs, because there may be a million inputs.
        let document_hashes = if part.index > 1 {
            store.read.inputs.clear();
            DocumentHashes::default()
        } else {
            store.document_hashes(self.ids())?
        };
        Ok(PartReceipt {
            identity: output.work.identity.digest(),
            build: store.build,
            part: part.index,
            parts: part.count,
            config: self.resolved(plan.shards),
            vocabulary,
            read: store.read,
            counts: store.counts,
            document_hashes,
            stats,
            shards,
        })
    }

    /// Writes the shards of this part.
    fn write_shard_files(
        &self,
        output: &Output<'_>,
        store: &mut Store,
        plan: &Plan,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<(Vec<WrittenShard>, PieceStats)> {
        let config = self.config;
        let tuning = Tuning::new(self.budget, self.pool.current_num_threads(), plan.unit_bytes());
        let tuning = self.tuning.unwrap_or(tuning);
        let workers = tuning.workers;
        let footer = &self.footer(plan.shards);
        let format = match config.layout {
            Layout::Instances => ShardFormat::for_rows(self.row_columns()),
            Layout::Documents => document_format(self.stored_ids()),
        };
        let stop = &AtomicBool::new(false);
        if config.random == RandomMode::Keyed {
            store.load_index(tuning.index)?;
        }
        let store = &*store;
        let job = ShardJob { prepared: self, output, plan, store, format, footer, stop };
        if config.random == RandomMode::Reference {
            let rows = generate_reference_rows(self, store, plan.width, &output.work, progress)?;
            let encoder = |_| RowEncoder::new(self.row_columns());
            let mut encoders = (0..workers).map(encoder).collect::<Result<Vec<_>>>()?;
            let items = |wanted: &[bool]| match wanted {
                [true] => row_groups(0..rows.len(), MAX_ROW_GROUPS).collect(),
                _ => Vec::new(),
            };
            let work = |encoder: &mut RowEncoder, range: Range<usize>, _: &[bool]| {
                let stats = (range.start == 0).then(|| rows.stats.clone());
                rows.piece(encoder, range, plan.width, stats)
            };
            return write_shard_files(&job, &mut encoders, items, work, progress);
        }
        let buckets = BucketJob { prepared: self, store, plan, stop };
        let mut bucket_workers =
            (0..workers).map(|_| BucketWorker::new(&buckets)).collect::<Result<Vec<_>>>()?;
        let items = |wanted: &[bool]| -> Vec<u64> {
            (0..plan.units()).filter(|&unit| plan.pieces(unit).any(|piece| wanted[piece.shard])).collect()
        };
        let work = |worker: &mut BucketWorker<'_>, unit, wanted: &[bool]| worker.build_unit(unit, wanted);
        write_shard_files(&job, &mut bucket_workers, items, work, progress)
    }

    /// Returns the outcome of a build, with the first `--preview` instances as text.
    fn outcome(&self, manifest: Manifest) -> Result<BuildOutcome> {
        let output = self.config.output()?.into_owned();
        let preview = match self.config.preview {
            0 => Vec::new(),
            n => render_first(&DataSet::new(&output, manifest.clone(), self.vocabulary.clone()), n as u64)?,
        };
        Ok(BuildOutcome { output, manifest, preview })
    }
}
