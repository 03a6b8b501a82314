//! Checks and loads everything that a build needs before it reads text: options, vocabulary, inputs, threads, memory.

use crate::builder::memory::{self, Tuning};
use crate::builder::output::receipt_size::refuse_too_large;
use crate::config::byte_size::ByteSize;
use crate::config::check::conflict;
use crate::config::{BuildConfig, RandomMode};
use crate::documents::casing;
use crate::error::{InputProblem, Locate, Result};
use crate::input::{
    Format, each_file, expand, first_duplicate, refuse_output_inside, refuse_too_many, refuse_vocabulary,
};
use crate::parallel::pool;
use crate::tokenization::settings::TokenizerSettings;
use crate::tokenization::vocabulary::{Vocabulary, is_special_token};
use rayon::ThreadPool;
use std::path::PathBuf;

/// Minimum number of input bytes in a segment, if the input has that many.
pub(crate) const SEGMENT: u64 = 16 << 20;

/// Everything that is checked and loaded before text is read.
pub(crate) struct Prepared<'a> {
    pub(crate) config: &'a BuildConfig,
    pub(crate) budget: ByteSize,
    /// Replaces the tuning derived from the budget, in tests.
    pub(crate) tuning: Option<Tuning>,
    /// Minimum number of input bytes that are tokenized together; smaller in tests.
    pub(crate) segment: u64,
    pub(crate) vocabulary: Vocabulary,
    /// How text is normalized.
    pub(crate) settings: TokenizerSettings,
    pub(crate) files: Vec<PathBuf>,
    /// Whether an input is JSON Lines or Parquet.
    pub(crate) tables: bool,
    pub(crate) pool: ThreadPool,
}

pub(crate) fn prepare(config: &BuildConfig) -> Result<Prepared<'_>> {
    config.check()?;
    let files = expand(&config.input)?;
    let of_names = files.iter().map(|path| path.as_os_str().len() as u64).sum();
    refuse_too_large(config, refuse_too_many(files.len(), of_names)?)?;
    if let (RandomMode::Keyed, Some(path)) = (config.random, first_duplicate(&files)) {
        return Err(InputProblem::Twice.at(path).into());
    }
    refuse_vocabulary(&files, config.vocab()?)?;
    for output in [&config.output, &config.scratch].into_iter().flatten() {
        refuse_output_inside(&config.input, output)?;
    }
    let tables = each_file(&files, Format::of)?.into_iter().any(Format::is_table);
    config.check_tables(tables)?;
    let (vocabulary, settings) = casing::tokenizer_of(config)?;
    if config.random_word_skip_special && vocabulary.tokens().iter().all(|token| is_special_token(token)) {
        return conflict("random-word-skip-special", "this --vocab", "it has no other tokens");
    }
    let pool = pool(config.threads)?;
    let budget = memory::resolve(config.memory_budget, pool.current_num_threads())?;
    Ok(Prepared { config, budget, tuning: None, segment: SEGMENT, vocabulary, settings, files, tables, pool })
}
