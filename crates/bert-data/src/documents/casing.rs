//! Selects the text normalization for a vocabulary, and warns if `--do-lower-case` or `--strip-accents` does not fit
//! it.
//!
//! A mismatch causes no error. Lower-cased text uses only the lower-case half of a cased vocabulary; with an uncased
//! vocabulary, every capitalized word of cased text becomes `[UNK]`; and words with accents never occur in text without
//! accents. Each mismatch wastes a whole pre-training run, so a build prints a warning first, with the percentage.

use std::path::PathBuf;

use bert_text::line_check::BadLines;
use bert_text::{InputReader, TextRules, each_text};
use bert_tokenization::{
    Tokenizer, TokenizerFiles, TokenizerSettings, Vocabulary, basic_tokens, cased_words, is_special_token,
    without_accents,
};

use crate::config::{BuildConfig, RandomMode};
use crate::documents::marks::{LostMarks, Marks, marks};
use crate::error::Result;

/// Maximum fraction of accented words in a vocabulary of text without accents.
const MAX_ACCENTED_FRACTION: f64 = 0.01;
/// Maximum fraction of words that are [`UNK`](bert_tokenization::UNK) because of their case in text
/// without capitals.
const MAX_UNKNOWN_FRACTION: f64 = 0.01;
/// Maximum number of files whose first block is checked.
const FILES: usize = 16;

/// Returns a warning if the options do not fit the vocabulary, or if only the words of the vocabulary decided a
/// setting; otherwise `None`.
///
/// # Errors
/// Fails as [`crate::build`] does for the vocabulary and for the text that is checked.
pub fn casing_warning(config: &BuildConfig) -> Result<Option<String>> {
    let (vocabulary, settings) = tokenizer_of(config)?;
    if settings.do_lower_case && !settings.strips_accents() && config.strip_accents.is_none() {
        let (accented, words) = accented_words(&vocabulary);
        // Marks of other scripts are letters, so they need no warning.
        let accented: Vec<_> =
            accented.into_iter().filter(|word| marks(word) == Some(Marks::Accents)).collect();
        let Some(first) = accented.first() else { return Ok(None) };
        let are_many = accented.len() as f64 > MAX_ACCENTED_FRACTION * words as f64;
        return Ok(are_many.then(|| {
            format!(
                "accents are kept in the lower-cased text: {} of the {words} words of the vocabulary have accents (as {first}). \
                 --strip-accents true strips them.",
                accented.len()
            )
        }));
    }
    let (files, _) = config.input_files()?;
    warning(config, &vocabulary, settings, &files)
}

/// Returns the vocabulary of a configuration and the normalization for it: from the options, else from the tokenizer
/// files, else as in the reference. If neither states whether to strip accents, accents are kept in keyed mode for a
/// vocabulary of lower-cased words with accents.
pub(crate) fn tokenizer_of(config: &BuildConfig) -> Result<(Vocabulary, TokenizerSettings)> {
    let files = TokenizerFiles::read(config.vocab()?)?;
    let mut settings = config.stated_settings().or(files.stated).resolved();
    let is_open = settings.do_lower_case && settings.strip_accents.is_none();
    if is_open && config.random == RandomMode::Keyed && !files.vocabulary.is_cased() {
        let (accented, words) = accented_words(&files.vocabulary);
        if accented.len() as f64 > MAX_ACCENTED_FRACTION * words as f64 {
            settings.strip_accents = Some(false);
        }
    }
    Ok((files.vocabulary, settings))
}

/// Returns the words of a vocabulary that change when accents are stripped, and the total number of words.
fn accented_words(vocabulary: &Vocabulary) -> (Vec<&str>, usize) {
    let words = vocabulary.tokens().iter().filter(|token| !is_special_token(token) && !token.is_empty());
    let words: Vec<&str> = words.map(String::as_str).collect();
    let changes = |word: &&&str| !word.is_ascii() && !without_accents(word.chars()).eq(word.chars());
    (words.iter().filter(changes).copied().collect(), words.len())
}

/// Computes [`casing_warning`] for a vocabulary that is already read and files that are already found.
pub(crate) fn warning(
    config: &BuildConfig,
    vocabulary: &Vocabulary,
    settings: TokenizerSettings,
    files: &[PathBuf],
) -> Result<Option<String>> {
    let case = if settings.do_lower_case {
        unreachable_tokens(vocabulary)
    } else {
        unknown_capitals(config, vocabulary, settings, files)?
    };
    let case = match case {
        None => lost_letters(config, settings, files)?,
        case => case,
    };
    let never = || share_with_accents(vocabulary).filter(|_| settings.strips_accents());
    Ok(case.or_else(|| {
        never().map(|share| {
            format!(
                "accents are stripped, but {share}, which never occur then. Use --strip-accents false to keep accents."
            )
        })
    }))
}

/// Returns a warning if text loses marks that are letters of their script, and no option asked for it.
fn lost_letters(
    config: &BuildConfig,
    settings: TokenizerSettings,
    files: &[PathBuf],
) -> Result<Option<String>> {
    if !settings.strips_accents() || config.strip_accents.is_some() || config.random == RandomMode::Reference
    {
        return Ok(None);
    }
    let lost = LostMarks::measure(files, config.reading(), false)?;
    Ok(lost.share().filter(|_| lost.are_letters()).map(|share| {
        format!(
            "{share} lose vowel signs or other marks that are letters of their script, as the vocabulary has none: train one with \
             bert make-vocab, or use --strip-accents false."
        )
    }))
}

/// Describes the number of words with accents in a vocabulary; `None` if there are none.
fn share_with_accents(vocabulary: &Vocabulary) -> Option<String> {
    let (accented, words) = accented_words(vocabulary);
    let first = accented.first()?;
    Some(format!("{} of the {words} words of the vocabulary have accents (as {first})", accented.len()))
}

/// Returns a warning if text is lower-cased but the vocabulary contains tokens with upper-case letters.
fn unreachable_tokens(vocabulary: &Vocabulary) -> Option<String> {
    let cased = cased_words(vocabulary);
    vocabulary.is_cased().then(|| {
        format!(
            "--do-lower-case is on, but the vocabulary is cased: {:.0} % of its words ({} of {}) have \
             upper-case letters, and lower-cased text never has them. Use --do-lower-case false.",
            100.0 * cased.share(),
            cased.found,
            cased.words
        )
    })
}

/// Returns a warning if text is cased but words with capitals are missing from an uncased vocabulary.
fn unknown_capitals(
    config: &BuildConfig,
    vocabulary: &Vocabulary,
    settings: TokenizerSettings,
    files: &[PathBuf],
) -> Result<Option<String>> {
    let tokenizer = Tokenizer::new(vocabulary, settings);
    let mut words = 0u64;
    let mut lost = 0u64;
    let mut ids = Vec::new();
    let mut is_unknown = |word: &str| {
        ids.clear();
        tokenizer.encode(word, &mut ids);
        ids.contains(&vocabulary.unk_id())
    };
    // Bad lines are handled later, when all lines are read.
    let rules = TextRules { reading: config.reading(), bad_lines: BadLines::Any, strict_rows: false };
    for (number, path) in files.iter().enumerate().take(FILES) {
        let Some(block) = InputReader::open_with(path, number, config.reading())?.next_block()? else {
            continue;
        };
        each_text(&block, path, rules, |text, _| {
            basic_tokens(text, settings, |word| {
                words += 1;
                let lower = word.to_lowercase();
                lost += u64::from(lower != word && is_unknown(word) && !is_unknown(&lower));
            });
        })?;
    }
    let share = lost as f64 / words.max(1) as f64;
    Ok((share > MAX_UNKNOWN_FRACTION).then(|| {
        format!(
            "--do-lower-case is off, but the vocabulary is uncased: {:.1} % of the words at the beginning of the text \
             ({lost} of {words}) are [UNK] for their upper-case letters alone. Use --do-lower-case.",
            100.0 * share
        )
    }))
}
