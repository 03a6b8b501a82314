//! Checks and loads everything that a build needs before it reads text: options, vocabulary, inputs, threads, memory.

use bert_text::threads::pool;
use bert_text::{Format, reject_too_many};
use bert_tokenization::{TokenizerSettings, Vocabulary, is_special_token};
use rayon::ThreadPool;
use std::path::PathBuf;

use crate::builder::memory::{self, Tuning};
use crate::builder::output::receipt_size::reject_too_large;
use crate::config::BuildConfig;
use crate::config::byte_size::ByteSize;
use crate::config::check::conflict;
use crate::config::resolved::InputFormats;
use crate::documents::casing;
use crate::error::Result;

/// Minimum number of input bytes in a segment, if the input has that many.
pub(crate) const SEGMENT: u64 = 4 << 20;

/// Everything that is checked and loaded before text is read.
pub(crate) struct PreparedBuild<'a> {
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
    pub(crate) formats: InputFormats,
    pub(crate) pool: ThreadPool,
}

pub(crate) fn prepare(config: &BuildConfig) -> Result<PreparedBuild<'_>> {
    config.check()?;
    let (files, formats) = config.input_files()?;
    let name_bytes = files.iter().map(|path| path.as_os_str().len() as u64).sum();
    reject_too_large(config, reject_too_many(files.len(), name_bytes)?)?;
    let formats = input_formats(&formats);
    config.check_formats(formats)?;
    let (vocabulary, settings) = casing::tokenizer_of(config)?;
    if config.random_word_skip_special && vocabulary.tokens().iter().all(|token| is_special_token(token)) {
        return conflict("random_word_skip_special", "this `.vocab`", "it has no other tokens");
    }
    let pool = pool(config.threads)?;
    let budget = memory::resolve(config.memory_budget, pool.current_num_threads())?;
    Ok(PreparedBuild {
        config,
        budget,
        tuning: None,
        segment: SEGMENT,
        vocabulary,
        settings,
        files,
        formats,
        pool,
    })
}

/// Returns the kinds of these formats.
fn input_formats(formats: &[Format]) -> InputFormats {
    InputFormats {
        running_text: formats.iter().any(|format| format.is_running_text()),
        others: formats.iter().any(|&format| format != Format::Text),
        columns: formats.iter().any(|format| format.has_columns()),
        dumps: formats.contains(&Format::WikiDump),
    }
}
