//! From text to a WordPiece vocabulary, the same bytes every time.
//!
//! In go files of text, out come tokens in the order of their ids: `[PAD] [UNK] [CLS] [SEP] [MASK]`, then the
//! alphabet, the alphabet as continuations (`##a`), then merged pieces, most frequent merge first. Not for tokenizing.
//! The reference publishes vocabularies but not the program that made them; the training is that of the `tokenizers`
//! crate, over words cut as the reference's tokenizer cuts them.
//!
//! # Why the trainer is wrapped
//! By itself the crate's trainer gives another vocabulary at every run: it numbers the continuation characters in the
//! order of a randomly seeded hash map and breaks ties between merges by these numbers, and it limits the alphabet by
//! an unstable sort over the same map. Here the alphabet is chosen before (by frequency, then by code point) and
//! handed over, continuations included, as the first tokens, so that every number, and with it every tie between two
//! different pairs, is decided before a hash map is asked. What is left to the map is the order in which two queue
//! entries of the *same* pair are taken up; both are merged one after the other, and no training was ever seen to
//! depend on it (60,000 random corpora full of ties, six trainings each).

use std::collections::HashMap;
use std::path::PathBuf;

use ahash::AHashMap;
use compact_str::CompactString;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, BpeTrainer};

use crate::error::{InputError, OptionError, Result};
use crate::input::{Block, Format, expand};
use crate::table::{InputReader, json_text};
use crate::tokenization::{basic_tokens, python_strip};
use crate::vocabulary::{CLS, MASK, PAD, SEP, UNK};

/// How to train a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct VocabConfig {
    /// Number of tokens, specials and alphabet included; fewer come out when the text has no more to merge.
    #[arg(long, default_value_t = 30_522)]
    pub vocab_size: usize,

    /// Two pieces are merged only if they stand together at least so often.
    #[arg(long, default_value_t = 2)]
    pub min_frequency: u64,

    /// Lower-case the text and strip accents.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub do_lower_case: bool,

    /// Most characters of the alphabet; words with rarer ones are left out.
    #[arg(long, default_value_t = 1000)]
    pub limit_alphabet: usize,

    /// Refuse invalid UTF-8 instead of replacing it.
    #[arg(long)]
    pub strict_utf8: bool,

    /// The key or column with the text of JSON Lines and Parquet.
    #[arg(long, default_value = "text", value_name = "NAME")]
    pub text_column: String,
}

impl Default for VocabConfig {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            min_frequency: 2,
            do_lower_case: true,
            limit_alphabet: 1000,
            strict_utf8: false,
            text_column: "text".to_owned(),
        }
    }
}

/// The tokens that every vocabulary begins with; `[PAD]` is 0.
const SPECIAL: [&str; 5] = [PAD, UNK, CLS, SEP, MASK];
/// Longer words are `[UNK]` to the tokenizer and teach nothing.
const LONGEST_WORD: usize = 200;

type WordCounts = HashMap<String, u64>;

/// Trains a vocabulary on text; the inputs are those that [`crate::build`] takes. `progress` is told the bytes
/// taken from disk and the bytes there are; merging, which follows, takes seconds.
///
/// # Errors
/// Errors of reading, [`InputError::NoText`], [`OptionError::VocabularyTooSmall`].
pub fn train_vocabulary(
    inputs: &[PathBuf],
    config: &VocabConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<String>> {
    let files = expand(inputs)?;
    let all: u64 = files.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum();
    let mut before = 0;
    let mut counts = WordCounts::new();
    let mut lines = 0;
    for (index, path) in files.iter().enumerate() {
        let mut reader = InputReader::open(path, index, &config.text_column)?;
        loop {
            let mut blocks = Vec::new();
            while blocks.len() < 16
                && let Some(block) = reader.next_block()?
            {
                blocks.push(block);
            }
            if blocks.is_empty() {
                break;
            }
            let counted: Vec<Result<WordCounts>> =
                blocks.par_iter().map(|block| count_words(block, &files, config)).collect();
            for part in counted {
                add(&mut counts, part?);
            }
            progress(before + reader.bytes_read(), all);
        }
        let entry = reader.entry()?;
        lines += entry.lines;
        before += entry.bytes;
    }
    if counts.is_empty() {
        return Err(InputError::NoText { files: files.len(), lines }.into());
    }
    train_on_words(counts, config)
}

fn count_words(block: &Block, files: &[PathBuf], config: &VocabConfig) -> Result<WordCounts> {
    let mut counts = WordCounts::new();
    let mut count = |text: &str| {
        basic_tokens(text, config.do_lower_case, |word| match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                counts.insert(word.to_owned(), 1);
            }
        });
    };
    if block.format == Format::Parquet {
        block.rows().filter_map(|(_, text)| text).for_each(|text| count(&String::from_utf8_lossy(text)));
        return Ok(counts);
    }
    for (line, raw) in block.lines() {
        let path = &files[block.file];
        let text = String::from_utf8_lossy(raw);
        if config.strict_utf8 && matches!(text, std::borrow::Cow::Owned(_)) {
            return Err(InputError::InvalidUtf8 { path: path.clone(), line }.into());
        }
        match block.format {
            Format::Jsonl if python_strip(&text).is_empty() => {}
            Format::Jsonl => {
                if let Some(text) = json_text(python_strip(&text), path, line, &config.text_column)? {
                    count(&text);
                }
            }
            _ => count(&text),
        }
    }
    Ok(counts)
}

fn add(sum: &mut WordCounts, part: WordCounts) {
    for (word, count) in part {
        *sum.entry(word).or_default() += count;
    }
}

/// Trains on counted words; the order in which they lie in the map changes nothing.
///
/// # Errors
/// [`OptionError::VocabularyTooSmall`].
pub fn train_on_words(mut counts: HashMap<String, u64>, config: &VocabConfig) -> Result<Vec<String>> {
    counts.retain(|word, _| word.chars().count() <= LONGEST_WORD);
    let alphabet = alphabet(&counts, config.limit_alphabet);
    counts.retain(|word, _| word.chars().all(|c| alphabet.binary_search(&c).is_ok()));
    let first = first_tokens(&counts, &alphabet);
    if first.len() >= config.vocab_size {
        return Err(
            OptionError::VocabularyTooSmall { size: config.vocab_size, needed: first.len() + 1 }.into()
        );
    }
    Ok(merge(counts, first, config))
}

/// The most frequent characters, ties by code point; sorted.
fn alphabet(counts: &WordCounts, limit: usize) -> Vec<char> {
    let mut characters: HashMap<char, u64> = HashMap::new();
    for (word, count) in counts {
        for c in word.chars() {
            *characters.entry(c).or_default() += count;
        }
    }
    let mut order: Vec<(std::cmp::Reverse<u64>, char)> =
        characters.into_iter().map(|(c, count)| (std::cmp::Reverse(count), c)).collect();
    order.sort_unstable();
    order.truncate(limit);
    let mut alphabet: Vec<char> = order.into_iter().map(|(_, c)| c).collect();
    alphabet.sort_unstable();
    alphabet
}

/// Special tokens, alphabet, and continuations of the characters that continue a word somewhere.
fn first_tokens(counts: &WordCounts, alphabet: &[char]) -> Vec<String> {
    let mut continues = vec![false; alphabet.len()];
    for c in counts.keys().flat_map(|word| word.chars().skip(1)) {
        if let Ok(place) = alphabet.binary_search(&c) {
            continues[place] = true;
        }
    }
    let continuations =
        alphabet.iter().zip(continues).filter(|(_, continues)| *continues).map(|(c, _)| format!("##{c}"));
    SPECIAL
        .map(str::to_owned)
        .into_iter()
        .chain(alphabet.iter().map(char::to_string))
        .chain(continuations)
        .collect()
}

fn merge(counts: WordCounts, first: Vec<String>, config: &VocabConfig) -> Vec<String> {
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(config.vocab_size)
        .min_frequency(config.min_frequency)
        .continuing_subword_prefix("##".to_owned())
        .special_tokens(first.into_iter().map(|token| AddedToken::from(token, true)).collect())
        .build();
    // The trainer counts pairs in 32 bits: on huge texts counts are scaled down, never to zero.
    let pairs: u64 = counts.iter().map(|(word, count)| count * word.chars().count() as u64).sum();
    let scale = pairs / i32::MAX as u64 + 1;
    let counts: AHashMap<CompactString, u64> =
        counts.into_iter().map(|(word, count)| (word.into(), count.div_ceil(scale))).collect();
    let mut model = BPE::default();
    trainer.do_train(&counts, &mut model).unwrap_or_default();
    let mut tokens: Vec<(u32, String)> =
        tokenizers::Model::get_vocab(&model).into_iter().map(|(token, id)| (id, token)).collect();
    tokens.sort_unstable();
    tokens.into_iter().map(|(_, token)| token).collect()
}
