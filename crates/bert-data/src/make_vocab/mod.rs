//! Trains a WordPiece vocabulary on text. The same text gives the same bytes every time.
//!
//! The tokens are `[PAD] [UNK] [CLS] [SEP] [MASK]`, the alphabet, the alphabet as continuations (`##a`), then merged
//! pieces in the order of merging, the most frequent pair first. If the text has no more pairs to merge, as in text of
//! ideographs, the remaining room is filled with characters that the alphabet left out. Words are split as in the
//! reference's tokenizer. The reference publishes vocabularies, but not the program that generated them.
//!
//! Memory: [`VocabConfig::max_words`] limits the number of distinct words that are counted and trained on, at about 300
//! bytes each. In addition, each thread holds a few blocks of text.

mod config;
mod extend;
mod merges;
mod report;
mod word_counts;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use compact_str::CompactString;
use rayon::ThreadPool;

use crate::error::no_tokens;

pub use config::VocabConfig;
pub use extend::{AddedPiece, ExtendedVocabulary, ExtensionReport, extend_vocabulary};
pub use report::{TrainedVocabulary, VocabReport};

use bert_text::line_check::LineCheck;
use bert_text::threads::pool;
use bert_text::{BLOCK, Block, each_text, files_to_read, first_duplicate, recognized};
use bert_tokenization::{SPECIAL, Tokenizer, TokenizerSettings, Vocabulary, basic_tokens};
use merges::CONTINUES;
use word_counts::WordCounts;

use crate::documents::marks::LostMarks;
use crate::documents::read::Source;
use crate::error::{Error, Result};
use crate::parallel::Workers;

/// Default minimum size of the alphabet.
const ALPHABET: usize = 1000;
/// Fraction of the text that a larger default alphabet covers, as numerator and denominator.
const COVERED: (u128, u128) = (9_999, 10_000);

/// Trains a vocabulary on text; accepts the same inputs as [`crate::build`]. `progress` receives the bytes read from
/// disk and the total bytes; merging, which follows, takes seconds. If words had to be dropped, the text is read again
/// to compute its exact fraction of `[UNK]`.
///
/// # Errors
/// Fails when an option is invalid, when a file cannot be read or is given twice, when the text has no tokens, or when
/// the vocabulary has no room for the special tokens and the alphabet.
pub fn train_vocabulary(
    inputs: &[PathBuf],
    config: &VocabConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<TrainedVocabulary> {
    config.check()?;
    let files = training_files(inputs, config)?;
    let pool = pool(config.threads)?;
    let lost = LostMarks::measure(&files, config.text_rules().reading, true)?;
    let note = config.accents_note(&lost);
    let config = &config.with_marks(&lost);
    let text = TrainingText { files: &files, config, pool: &pool };
    let (counts, read) = text.count_words(progress)?;
    let mut trained = train(counts, config, read)?;
    let report = &mut trained.report;
    report.accents = note;
    if report.dropped_words > 0 {
        text.count_tokens(&trained.tokens, report, progress)?;
    }
    Ok(trained)
}

/// Returns the files of the inputs.
///
/// # Errors
/// Fails when an input cannot be read, or a file is given twice.
fn training_files(inputs: &[PathBuf], config: &VocabConfig) -> Result<Vec<PathBuf>> {
    let files = files_to_read(inputs, &config.text_column)?;
    if let Some(path) = first_duplicate(&files) {
        return Err(Error::usage("this input is given twice, or a link points to it; remove one").at(path));
    }
    recognized(&files, config.text_rules())?;
    Ok(files)
}

/// The training text, and the settings and threads that process it.
struct TrainingText<'a> {
    files: &'a [PathBuf],
    config: &'a VocabConfig,
    pool: &'a ThreadPool,
}

impl TrainingText<'_> {
    /// Processes each block of all files on all threads, and passes the results to `consume` in the order of the text.
    /// Returns the number of lines, and a report of repaired lines and null rows.
    fn each_block<R: Send>(
        &self,
        work: impl Fn(&Block, &Path) -> Result<(R, LineCheck)> + Sync,
        mut consume: impl FnMut(R) + Send,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(u64, VocabReport)> {
        let files = self.files;
        let config = self.config;
        let all: u64 = files.iter().filter_map(|path| path.metadata().ok()).map(|file| file.len()).sum();
        let mut source = Source::new(files, config.text_rules().reading);
        let mut read = VocabReport::default();
        let mut file_lines = LineCheck::default();
        let mut workers = vec![(); self.pool.current_num_threads()];
        let stop = AtomicBool::new(false);
        let room = 2 * self.pool.current_num_threads() * BLOCK;
        Workers::new(self.pool, &mut workers, &stop).with_max_in_flight(room).map_in_order(
            source.blocks(),
            |(), (block, done)| {
                let (result, lines) = work(&block, &files[block.file])?;
                Ok((result, lines, (block.file, block.ends_file), done))
            },
            |(result, lines, (file, ends_file), done)| {
                read.invalid_utf8_lines += lines.counts.bad;
                read.null_rows += lines.null_rows;
                let bad_lines = config.text_rules().bad_lines;
                read.remarks.add(file_lines.add_block(lines, &files[file], ends_file, bad_lines)?);
                consume(result);
                Ok(Some(done))
            },
            |done| done.into_iter().for_each(|done| progress(done, all)),
        )?;
        read.remarks.add(source.remarks);
        Ok((source.inputs.iter().map(|input| input.lines).sum(), read))
    }

    /// Counts the words and characters of the text.
    ///
    /// # Errors
    /// Fails when a file cannot be read, or when the text has no tokens.
    fn count_words(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(WordCounts, VocabReport)> {
        let config = self.config;
        let mut counts = WordCounts::default();
        let (lines, read) = self.each_block(
            |block, path| {
                let mut counts = WordCounts::default();
                let lines = each_text(block, path, config.text_rules(), |text, _| {
                    let text = config.folded(text);
                    basic_tokens(&text, config.tokenizer_settings(), |word| counts.add_word(word, 1));
                })?;
                counts.count_characters();
                Ok((counts, lines))
            },
            |next| counts.add(next, config.max_words),
            progress,
        )?;
        if counts.characters.is_empty() && counts.too_long == 0 {
            return Err(no_tokens(self.files.len(), lines));
        }
        Ok((counts, read))
    }

    /// Counts the tokens of the text under a vocabulary, and the `[UNK]` tokens among them, and writes both counts to
    /// the report.
    fn count_tokens(
        &self,
        tokens: &[String],
        report: &mut VocabReport,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let vocabulary = vocabulary_of(tokens)?;
        let tokenizer = Tokenizer::new(&vocabulary, self.config.tokenizer_settings());
        (report.text_tokens, report.unknown_tokens) = (0, 0);
        self.each_block(
            |block, path| {
                let mut encoder = tokenizer.encoder();
                let mut ids = Vec::new();
                let lines = each_text(block, path, self.config.text_rules(), |text, _| {
                    encoder.encode(&self.config.folded(text), &mut ids)
                })?;
                let unknown = ids.iter().filter(|&&id| id == vocabulary.unk_id()).count();
                Ok(((ids.len() as u64, unknown as u64), lines))
            },
            |(all, unknown)| {
                report.text_tokens += all;
                report.unknown_tokens += unknown;
            },
            progress,
        )?;
        Ok(())
    }
}

fn vocabulary_of(tokens: &[String]) -> Result<Vocabulary> {
    Vocabulary::from_bytes((tokens.join("\n") + "\n").into_bytes(), Path::new("the new vocabulary"))
}

/// Trains on counted words; the order of the map does not matter.
///
/// # Errors
/// Fails when the vocabulary has no room for the special tokens and the alphabet.
pub fn train_on_words(words: HashMap<String, u64>, config: &VocabConfig) -> Result<TrainedVocabulary> {
    let mut counts = WordCounts::default();
    words.iter().for_each(|(word, &count)| counts.add_word(word, count));
    counts.count_characters();
    train(counts, config, VocabReport::default())
}

fn train(counts: WordCounts, config: &VocabConfig, read: VocabReport) -> Result<TrainedVocabulary> {
    let Alphabet { mut used, mut unused } = Alphabet::new(&counts, config);
    let first = first_tokens(&counts, &used);
    if first.len() >= config.vocab_size {
        return Err(Error::usage(format!(
            "`.vocab_size` is {}, but the special tokens and the alphabet of the text need {}: use a larger \
             `.vocab_size`, or a smaller `.limit_alphabet` (rare characters then become [UNK])",
            config.vocab_size,
            first.len() + 1
        )));
    }
    let words = spellable_words(&counts, &used);
    let mut tokens = merges::merge(&words, first, config.vocab_size, config.min_frequency);
    let words = if add_characters(&mut tokens, &mut used, &mut unused, &counts, config) {
        spellable_words(&counts, &used)
    } else {
        words
    };
    let unspelled = counts.words.values().sum::<u64>() - words.iter().map(|(_, count)| count).sum::<u64>();
    let mut report = VocabReport {
        unknown_tokens: unspelled + counts.too_long,
        characters: counts.characters.len(),
        dropped_characters: unused.len(),
        dropped_words: counts.dropped,
        ..read
    };
    report.text_tokens = report.unknown_tokens + pieces(&words, &tokens, config)?;
    Ok(TrainedVocabulary { tokens, report })
}

/// Returns the words that consist only of characters of a sorted alphabet, sorted.
fn spellable_words(counts: &WordCounts, alphabet: &[char]) -> Vec<(CompactString, u64)> {
    let is_spelled = |word: &str| word.chars().all(|c| alphabet.binary_search(&c).is_ok());
    let words = counts.words.iter().filter(|(word, _)| is_spelled(word));
    let mut words: Vec<_> = words.map(|(word, count)| (word.clone(), *count)).collect();
    words.sort_unstable();
    words
}

/// Adds characters that the alphabet left out, the most frequent first, until the vocabulary is full. Returns whether
/// any was added.
fn add_characters(
    tokens: &mut Vec<String>,
    used: &mut Vec<char>,
    unused: &mut Vec<char>,
    counts: &WordCounts,
    config: &VocabConfig,
) -> bool {
    if config.limit_alphabet.is_some() {
        return false;
    }
    let added = unused.iter().take_while(|c| {
        let own = first_tokens_of(counts, **c);
        let fits = tokens.len() + own.len() <= config.vocab_size;
        tokens.extend(own.into_iter().filter(|_| fits));
        fits
    });
    let added = added.count();
    used.extend(unused.drain(..added));
    used.sort_unstable();
    added > 0
}

/// Returns the number of tokens of the words, weighted by their counts.
fn pieces(words: &[(CompactString, u64)], tokens: &[String], config: &VocabConfig) -> Result<u64> {
    // The words are already normalized and split at ideographs.
    let settings = TokenizerSettings {
        do_lower_case: false,
        strip_accents: None,
        tokenize_chinese_chars: config.tokenize_chinese_chars,
        ..TokenizerSettings::default()
    };
    let tokenizer = Tokenizer::new(&vocabulary_of(tokens)?, settings);
    let mut sum = 0;
    let mut ids = Vec::new();
    for (word, count) in words {
        ids.clear();
        tokenizer.encode(word, &mut ids);
        sum += count * ids.len() as u64;
    }
    Ok(sum)
}

/// The characters of a text.
struct Alphabet {
    /// The characters that training words may contain, sorted.
    used: Vec<char>,
    /// The other characters, the most frequent first, ties by code point.
    unused: Vec<char>,
}

impl Alphabet {
    fn new(counts: &WordCounts, config: &VocabConfig) -> Self {
        let characters = counts.characters.iter();
        let mut order: Vec<(u64, char)> =
            characters.map(|(&c, counts)| (counts.first + counts.inside, c)).collect();
        order.sort_unstable_by_key(|&(count, c)| (std::cmp::Reverse(count), c));
        let default_size = || default_alphabet_size(&order, counts, config.vocab_size);
        let size = config.limit_alphabet.unwrap_or_else(default_size).min(order.len());
        let mut used: Vec<char> = order.into_iter().map(|(_, c)| c).collect();
        let unused = used.split_off(size);
        used.sort_unstable();
        Self { used, unused }
    }
}

/// Returns the default size of the alphabet: [`ALPHABET`], and more until the characters, in this order, cover
/// [`COVERED`] of the text, but at most half of the vocabulary.
fn default_alphabet_size(order: &[(u64, char)], counts: &WordCounts, vocab_size: usize) -> usize {
    let all: u128 = order.iter().map(|(count, _)| u128::from(*count)).sum();
    let mut covered = 0;
    let mut tokens = 0;
    for (size, (count, c)) in order.iter().enumerate() {
        tokens += 1 + usize::from(counts.characters[c].inside > 0);
        if size >= ALPHABET && (covered * COVERED.1 >= all * COVERED.0 || tokens > vocab_size / 2) {
            return size;
        }
        covered += u128::from(*count);
    }
    order.len()
}

/// Returns the special tokens (`[PAD]` has id 0), the alphabet, and the continuations of characters that continue some
/// word.
fn first_tokens(counts: &WordCounts, alphabet: &[char]) -> Vec<String> {
    let continuations = alphabet.iter().filter(|c| counts.characters[c].inside > 0);
    SPECIAL
        .map(str::to_owned)
        .into_iter()
        .chain(alphabet.iter().map(char::to_string))
        .chain(continuations.map(|c| format!("{CONTINUES}{c}")))
        .collect()
}

/// Returns the tokens of one character.
fn first_tokens_of(counts: &WordCounts, c: char) -> Vec<String> {
    let inside = counts.characters[&c].inside > 0;
    std::iter::once(c.to_string()).chain(inside.then(|| format!("{CONTINUES}{c}"))).collect()
}
