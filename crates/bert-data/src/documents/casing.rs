//! Checks that a vocabulary fits `--do-lower-case`.
//!
//! A misfit fails nowhere. Lower-cased text uses only the lower-case half of a cased vocabulary; under an uncased
//! vocabulary, every word of cased text with a capital becomes `[UNK]`. Either costs a whole pre-training, so a build
//! warns first, with the figure that shows it.

use std::path::PathBuf;

use crate::config::BuildConfig;
use crate::error::Result;
use crate::input::expand;
use crate::input::line_check::BadLines;
use crate::input::table::InputReader;
use crate::input::texts::{TextRules, each_text};
use crate::tokenization::vocabulary::{Vocabulary, is_special_token};
use crate::tokenization::{Tokenizer, basic_tokens};

/// An uncased vocabulary has no upper-case letter but by accident.
const FEW_TOKENS: f64 = 0.05;
/// Text without capitals has few words that are [`UNK`](crate::tokenization::vocabulary::UNK) for their case.
const FEW_WORDS: f64 = 0.01;
/// Files whose first block is looked at.
const FILES: usize = 16;

/// What does not fit, in words and with its figure; nothing where vocabulary and `--do-lower-case` fit together.
///
/// # Errors
/// As [`crate::build`] for the vocabulary and for the text that is looked at.
pub fn casing_warning(config: &BuildConfig) -> Result<Option<String>> {
    let vocabulary = Vocabulary::read(config.vocab()?)?;
    let files = if config.do_lower_case { Vec::new() } else { expand(&config.input)? };
    warning(config, &vocabulary, &files)
}

/// [`casing_warning`] where the vocabulary is read and the files are found.
pub(crate) fn warning(
    config: &BuildConfig,
    vocabulary: &Vocabulary,
    files: &[PathBuf],
) -> Result<Option<String>> {
    if config.do_lower_case {
        Ok(unreachable_tokens(vocabulary))
    } else {
        unknown_capitals(config, vocabulary, files)
    }
}

/// Lower-casing, of which tokens with upper-case letters never come.
fn unreachable_tokens(vocabulary: &Vocabulary) -> Option<String> {
    let (mut with_case, mut upper) = (0, 0);
    for token in vocabulary.tokens().iter().filter(|token| !is_special_token(token)) {
        let lower = token.to_lowercase();
        upper += u64::from(lower != *token);
        with_case += u64::from(lower != *token || token.to_uppercase() != *token);
    }
    let share = upper as f64 / f64::max(with_case as f64, 1.0);
    (share > FEW_TOKENS).then(|| {
        format!(
            "--do-lower-case is on, but the vocabulary is cased: {:.0} % of its words ({upper} of {with_case}) have \
             upper-case letters, and lower-cased text never has them. Use --do-lower-case false.",
            100.0 * share
        )
    })
}

/// Cased text, whose words with capitals are not in an uncased vocabulary.
fn unknown_capitals(
    config: &BuildConfig,
    vocabulary: &Vocabulary,
    files: &[PathBuf],
) -> Result<Option<String>> {
    let tokenizer = Tokenizer::new(vocabulary, false);
    let (mut words, mut lost, mut ids) = (0u64, 0u64, Vec::new());
    let mut is_unknown = |word: &str| {
        ids.clear();
        tokenizer.encode(word, &mut ids);
        ids.contains(&vocabulary.unk_id())
    };
    // The lines are judged where all are read.
    let rules = TextRules {
        reference: false,
        bad_lines: BadLines::Any,
        strict_rows: false,
        text_column: &config.text_column,
    };
    for (number, path) in files.iter().enumerate().take(FILES) {
        let Some(block) = InputReader::open(path, number, &config.text_column)?.next_block()? else {
            continue;
        };
        each_text(&block, path, rules, |text, _| {
            basic_tokens(text, false, |word| {
                words += 1;
                let lower = word.to_lowercase();
                lost += u64::from(lower != word && is_unknown(word) && !is_unknown(&lower));
            });
        })?;
    }
    let share = lost as f64 / words.max(1) as f64;
    Ok((share > FEW_WORDS).then(|| {
        format!(
            "--do-lower-case is off, but the vocabulary is uncased: {:.1} % of the words at the beginning of the text \
             ({lost} of {words}) are [UNK] for their upper-case letters alone. Use --do-lower-case.",
            100.0 * share
        )
    }))
}
