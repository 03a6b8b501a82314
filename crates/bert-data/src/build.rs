//! The data builder, start to end: text -> documents -> instances -> masked instances -> shards -> manifest.
//!
//! In goes a [`BuildConfig`], out comes a folder with Parquet shards, the vocabulary, a data card and `manifest.json`,
//! or an error and an unchanged folder. The stages are other modules; here is their order and nothing else. Ports `main` and `create_training_instances`.

use std::path::PathBuf;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::card::{CARD, card};
use crate::config::{BuildConfig, Layout, Nsp, RandomMode};
use crate::document::Documents;
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::input::{Format, expand, first_duplicate};
use crate::manifest::{FORMAT_VERSION, Manifest, VOCABULARY, VocabularyEntry};
use crate::masking::is_special_token;
use crate::output::{self, Output};
use crate::preview::render_first;
use crate::reading::{ReadReport, ReadRules, read_documents};
use crate::report::DataReport;
use crate::resolved_config::ResolvedConfig;
use crate::spread::{Plan, count_pass, make_keyed, make_reference, write_documents, write_shards};
use crate::tokenization::Tokenizer;
use crate::vocabulary::Vocabulary;

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
    let (mut documents, read) = prepared.read(progress)?;
    check_instances(config, &documents)?;
    let plan = Plan::new(config, &documents, prepared.vocabulary.len());

    let output = Output::open(folder, config.overwrite)?;
    let (report, shards) = match config.layout {
        Layout::Instances => {
            let spilled = match config.random {
                RandomMode::Keyed => make_keyed(&prepared, &documents, &plan, &output, progress)?,
                RandomMode::Reference => make_reference(&prepared, &mut documents, &plan, &output, progress)?,
            };
            let report = DataReport::new(config, &documents, &read, &spilled.counters);
            // The text has become rows: give its memory back before the rows are written.
            drop(documents);
            (report, write_shards(&prepared, &plan, &spilled, &output, progress)?)
        }
        Layout::Documents => {
            let counters = count_pass(&prepared, &documents, progress)?;
            let report = DataReport::new(config, &documents, &read, &counters);
            (report, write_documents(&prepared, &documents, &plan, &output, progress)?)
        }
    };

    let vocabulary = copy_vocabulary(&prepared.vocabulary, &output)?;
    let manifest = Manifest {
        format_version: FORMAT_VERSION,
        program: concat!("bert-data ", env!("CARGO_PKG_VERSION")).to_owned(),
        config: ResolvedConfig::new(config, plan.shards, prepared.tables),
        inputs: read.inputs,
        vocabulary,
        instances: report.instances,
        shards,
        report,
    };
    let preview = match config.preview {
        0 => Vec::new(),
        n => render_first(output.work(), n as u64, &manifest, &prepared.vocabulary)?,
    };
    write_atomic(&output.work_path(CARD), |out| out.write_all(card(&manifest).as_bytes()))?;
    output.commit(&manifest)?;
    Ok(BuildOutcome { output: folder.to_owned(), manifest, preview })
}

/// Refuses a corpus of which no instance can be made.
fn check_instances(config: &BuildConfig, documents: &Documents) -> Result<()> {
    let all_have_one = documents.sentences() == documents.len();
    match config.nsp {
        Nsp::On if config.random == RandomMode::Keyed && all_have_one && documents.len() == 1 => {
            Err(Error::NoInstances { sentences: 1 })
        }
        Nsp::Sop if all_have_one => Err(Error::NoSentencePairs { documents: documents.len() }),
        _ => Ok(()),
    }
}

fn copy_vocabulary(vocabulary: &Vocabulary, output: &Output) -> Result<VocabularyEntry> {
    let written = write_atomic(&output.work_path(VOCABULARY), |out| out.write_all(vocabulary.bytes()))?;
    Ok(VocabularyEntry { file: VOCABULARY.to_owned(), size: vocabulary.len(), blake3: written.blake3 })
}

/// Everything that is checked and loaded before text is read.
pub(crate) struct Prepared<'a> {
    pub(crate) config: &'a BuildConfig,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) files: Vec<PathBuf>,
    /// Whether an input is JSON Lines or Parquet.
    tables: bool,
    pub(crate) pool: ThreadPool,
}

pub(crate) fn prepare(config: &BuildConfig) -> Result<Prepared<'_>> {
    config.check()?;
    let files = expand(&config.input)?;
    if let (RandomMode::Keyed, Some(path)) = (config.random, first_duplicate(&files)) {
        return Err(Error::InputTwice { path: path.clone() });
    }
    let mut tables = false;
    for file in &files {
        tables |= Format::of(file)?.is_table();
    }
    config.check_tables(tables)?;
    let vocabulary = Vocabulary::read(config.vocab()?)?;
    if config.random_word_skip_special && vocabulary.tokens().iter().all(|token| is_special_token(token)) {
        let reason = "it has no other tokens";
        return Err(Error::ConflictingOptions {
            option: "random-word-skip-special",
            with: "this --vocab",
            reason,
        });
    }
    let tokenizer = Tokenizer::new(&vocabulary, config.do_lower_case);
    let pool = ThreadPoolBuilder::new()
        .num_threads(config.threads)
        .build()
        .map_err(|source| Error::Threads { threads: config.threads, source })?;
    Ok(Prepared { config, vocabulary, tokenizer, files, tables, pool })
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
}
