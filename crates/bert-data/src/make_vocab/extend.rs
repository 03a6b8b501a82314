//! Extends a vocabulary by the pieces that shorten a text most.
//!
//! A candidate is a run of neighbouring pieces of a word, joined to one piece, or a character that the vocabulary
//! lacks. Its gain is the number of pieces that it saves over the whole text. Each round adds the candidate with the
//! largest gain and recomputes the gains that this changes. Frequency alone would add pieces of words that are short
//! already.
//!
//! WordPiece takes the longest piece at every place, so a new piece changes the pieces of a word only if it becomes one
//! of them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::path::PathBuf;

use ahash::{AHashMap, AHashSet};
use bert_text::threads::pool;
use bert_tokenization::Vocabulary;
use compact_str::{CompactString, format_compact};
use serde::Serialize;

use super::merges::CONTINUES;
use super::{TrainingText, VocabConfig, VocabReport, training_files};
use crate::error::{Result, check_value};

/// Maximum number of neighbouring pieces that are joined, except for whole words.
const MAX_JOINED: usize = 6;

/// A vocabulary with more pieces.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtendedVocabulary {
    /// All tokens in the order of their ids. The ids of old pieces do not change.
    pub tokens: Vec<String>,
    /// The new pieces, in the order in which they were chosen.
    pub added: Vec<AddedPiece>,
    /// Statistics of the text.
    pub report: ExtensionReport,
    /// Report of the repaired, skipped and conspicuous parts of the text.
    pub read: VocabReport,
}

/// A new piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedPiece {
    /// The id of the piece.
    pub id: u32,
    /// The piece; one that continues a word begins with `##`.
    pub piece: String,
    /// The ids of the old pieces that it replaces; empty if the old vocabulary cannot spell it.
    pub old_pieces: Vec<u32>,
}

/// Statistics of a text before and after its vocabulary was extended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExtensionReport {
    /// Number of words of the text.
    pub words: u64,
    /// Number of new pieces.
    pub added: usize,
    /// Number of new pieces that take the id of an `[unusedN]` token.
    pub on_unused_rows: usize,
    /// Average number of pieces per word, before and after; a word that cannot be spelled is one piece, `[UNK]`.
    pub pieces_per_word: [f64; 2],
    /// Number of words that cannot be spelled, before and after.
    pub unknown_words: [u64; 2],
}

/// Chooses `add` pieces for a text. Fewer are chosen if no other piece saves anything. `config` describes the text and
/// its normalization; its `vocab_size` and `limit_alphabet` are not used. `progress` is as in
/// [`train_vocabulary`](super::train_vocabulary).
///
/// # Errors
/// Fails when `add` is 0 or an option is invalid, when a file cannot be read or is given twice, or when the text has no
/// tokens.
pub fn extend_vocabulary(
    inputs: &[PathBuf],
    vocabulary: &Vocabulary,
    config: &VocabConfig,
    add: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ExtendedVocabulary> {
    config.check()?;
    check_value(add > 0, "add", add, "at least 1")?;
    let files = training_files(inputs, config)?;
    let pool = pool(config.threads)?;
    let text = TrainingText { files: &files, config, pool: &pool };
    let (counts, mut read) = text.count_words(progress)?;
    read.dropped_words = counts.dropped;
    let mut words: Vec<(CompactString, u64)> = counts.words.into_iter().collect();
    words.sort_unstable();
    Ok(ExtendedVocabulary { read, ..extend(vocabulary, &words, add, config.min_frequency) })
}

/// Chooses pieces for sorted words with their counts.
fn extend(
    vocabulary: &Vocabulary,
    words: &[(CompactString, u64)],
    add: usize,
    min_frequency: u64,
) -> ExtendedVocabulary {
    let old = Pieces::new(vocabulary.tokens().iter().map(|token| token.as_str().into()));
    let mut search = Search::new(old.clone(), words, min_frequency);
    let chosen: Vec<CompactString> = std::iter::from_fn(|| search.next()).take(add).collect();
    let mut tokens = vocabulary.tokens().to_vec();
    let mut unused: Vec<usize> = (0..tokens.len()).filter(|id| is_unused(&tokens[*id])).collect();
    unused.reverse();
    let on_unused_rows = unused.len().min(chosen.len());
    let mut added = Vec::new();
    for piece in chosen {
        let id = match unused.pop() {
            Some(id) => {
                tokens[id] = piece.to_string();
                id
            }
            None => {
                tokens.push(piece.to_string());
                tokens.len() - 1
            }
        };
        let old_pieces = old.split(&piece).unwrap_or_default();
        let old_pieces = old_pieces.iter().filter_map(|piece| vocabulary.id(piece)).collect();
        added.push(AddedPiece { id: id as u32, piece: piece.into(), old_pieces });
    }
    let report = ExtensionReport {
        words: words.iter().map(|(_, count)| count).sum(),
        added: added.len(),
        on_unused_rows,
        ..report(&[&old, &search.pieces], words)
    };
    ExtendedVocabulary { tokens, added, report, read: VocabReport::default() }
}

/// Returns whether a token is `[unusedN]`, whose id BERT's vocabularies reserve.
fn is_unused(token: &str) -> bool {
    let number = token.strip_prefix("[unused").and_then(|rest| rest.strip_suffix(']'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn report(pieces: &[&Pieces; 2], words: &[(CompactString, u64)]) -> ExtensionReport {
    let mut report = ExtensionReport::default();
    for (at, pieces) in pieces.iter().enumerate() {
        let mut sum = 0;
        let mut all = 0;
        for (word, count) in words {
            let split = pieces.split(word);
            report.unknown_words[at] += if split.is_none() { *count } else { 0 };
            sum += count * split.map_or(1, |split| split.len() as u64);
            all += count;
        }
        report.pieces_per_word[at] = sum as f64 / all.max(1) as f64;
    }
    report
}

/// A set of pieces.
#[derive(Clone)]
struct Pieces {
    set: AHashSet<CompactString>,
    /// Length of the longest piece in bytes.
    longest: usize,
}

impl Pieces {
    fn new(pieces: impl Iterator<Item = CompactString>) -> Self {
        let set: AHashSet<CompactString> = pieces.collect();
        let longest = set.iter().map(|piece| piece.len()).max().unwrap_or(0);
        Self { set, longest }
    }

    fn insert(&mut self, piece: CompactString) {
        self.longest = self.longest.max(piece.len());
        self.set.insert(piece);
    }

    /// Splits a word, or a piece that begins with `##`, as WordPiece does: the longest piece at every place. Returns
    /// `None` for a word that cannot be spelled.
    fn split(&self, word: &str) -> Option<Vec<CompactString>> {
        self.split_with(word, None)
    }

    /// Splits with one more piece in the set.
    fn split_with(&self, word: &str, more: Option<&str>) -> Option<Vec<CompactString>> {
        let (mut rest, mut continues) = match word.strip_prefix(CONTINUES) {
            Some(rest) if !rest.is_empty() => (rest, true),
            _ => (word, false),
        };
        let mut split = Vec::new();
        while !rest.is_empty() {
            let longest = self.longest.max(more.map_or(0, str::len));
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= longest);
            let ends: Vec<usize> = ends.collect();
            let found = ends.into_iter().rev().find_map(|end| {
                let piece = piece(&rest[..end], continues);
                (more == Some(piece.as_str()) || self.set.contains(&piece)).then_some((end, piece))
            });
            let (end, piece) = found?;
            rest = &rest[end..];
            continues = true;
            split.push(piece);
        }
        Some(split)
    }

    /// Returns the one-character pieces that a word needs and that are missing.
    fn missing_characters(&self, word: &str, more: Option<&str>) -> Vec<CompactString> {
        let pieces = word.chars().enumerate().map(|(at, c)| piece(c.encode_utf8(&mut [0; 4]), at > 0));
        pieces.filter(|piece| !self.set.contains(piece) && more != Some(piece.as_str())).collect()
    }

    /// Returns the cost of a word: its number of pieces. A word that cannot be spelled costs one piece for each of its
    /// characters, one more, and one for each missing character, so that each added character is a gain.
    fn cost(&self, word: &str, more: Option<&str>) -> u64 {
        match self.split_with(word, more) {
            Some(split) => split.len() as u64,
            None => (word.chars().count() + 1 + self.missing_characters(word, more).len()) as u64,
        }
    }
}

fn piece(text: &str, continues: bool) -> CompactString {
    if continues { format_compact!("{CONTINUES}{text}") } else { text.into() }
}

/// The search for the next piece.
struct Search<'a> {
    pieces: Pieces,
    words: &'a [(CompactString, u64)],
    /// The words that contain a candidate, by their index.
    uses: AHashMap<CompactString, BTreeSet<u32>>,
    /// Candidates by the gain that was computed last, which may be larger than the present gain. The last number is the
    /// round in which the gain was computed.
    queue: BinaryHeap<(u64, Reverse<CompactString>, usize)>,
    /// Cost of each word.
    costs: Vec<u64>,
    round: usize,
    /// Minimum number of occurrences of a candidate.
    min_frequency: u64,
}

impl<'a> Search<'a> {
    fn new(pieces: Pieces, words: &'a [(CompactString, u64)], min_frequency: u64) -> Self {
        let costs = words.iter().map(|(word, _)| pieces.cost(word, None)).collect();
        let uses = AHashMap::new();
        let queue = BinaryHeap::new();
        let mut search = Self { pieces, words, uses, queue, costs, round: 0, min_frequency };
        for (at, (word, _)) in words.iter().enumerate() {
            for candidate in candidates(&search.pieces, word) {
                search.uses.entry(candidate).or_default().insert(at as u32);
            }
        }
        // The largest possible gain of a candidate: all its words become one piece.
        let bounds = search.uses.iter().map(|(candidate, uses)| {
            let bound = uses.iter().map(|at| words[*at as usize].1 * search.costs[*at as usize]).sum();
            (bound, Reverse(candidate.clone()), usize::MAX)
        });
        search.queue = bounds.collect();
        search
    }

    /// Adds the candidate with the largest gain and returns it.
    fn next(&mut self) -> Option<CompactString> {
        loop {
            let (gain, Reverse(candidate), round) = self.queue.pop()?;
            if round == self.round {
                self.add(&candidate);
                return Some(candidate);
            }
            debug_assert!(gain > 0);
            let now = self.gain(&candidate);
            if now > 0 {
                self.queue.push((now, Reverse(candidate), self.round));
            }
        }
    }

    /// Returns the number of pieces that a candidate saves; 0 for one that is too rare.
    fn gain(&self, candidate: &CompactString) -> u64 {
        let uses = self.uses[candidate].iter().map(|at| *at as usize);
        let mut saved = 0;
        let mut occurrences = 0;
        for at in uses {
            let (word, count) = &self.words[at];
            saved += count * self.costs[at].saturating_sub(self.pieces.cost(word, Some(candidate)));
            occurrences += count;
        }
        if occurrences < self.min_frequency { 0 } else { saved }
    }

    fn add(&mut self, candidate: &CompactString) {
        self.round += 1;
        self.pieces.insert(candidate.clone());
        for at in self.uses.remove(candidate).unwrap_or_default() {
            self.costs[at as usize] = self.pieces.cost(&self.words[at as usize].0, None);
        }
    }
}

/// Returns the pieces that would spell a word with fewer pieces: its joined runs of pieces. If it cannot be spelled,
/// returns its missing characters and the whole word.
fn candidates(pieces: &Pieces, word: &CompactString) -> Vec<CompactString> {
    let Some(split) = pieces.split(word) else {
        let mut found = pieces.missing_characters(word, None);
        found.push(word.clone());
        return found;
    };
    let bare = |piece: &CompactString, at: usize| if at == 0 { 0 } else { piece.len().min(CONTINUES.len()) };
    let mut starts = vec![0];
    for (at, piece) in split.iter().enumerate() {
        starts.push(starts[at] + piece.len() - bare(piece, at));
    }
    let mut found = Vec::new();
    for first in 0..split.len() {
        for end in first + 2..=split.len() {
            if end - first <= MAX_JOINED || end - first == split.len() {
                found.push(piece(&word[starts[first]..starts[end]], first > 0));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn vocabulary(words: &str) -> Vocabulary {
        let all = format!("[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] [unused1] {words}");
        Vocabulary::from_bytes(all.replace(' ', "\n").into_bytes(), Path::new("vocab.txt")).unwrap()
    }

    fn extended(old: &str, words: &[(&str, u64)], add: usize) -> ExtendedVocabulary {
        let mut words: Vec<(CompactString, u64)> = words.iter().map(|(w, n)| ((*w).into(), *n)).collect();
        words.sort_unstable();
        extend(&vocabulary(old), &words, add, 2)
    }

    fn pieces(extended: &ExtendedVocabulary) -> Vec<&str> {
        extended.added.iter().map(|added| added.piece.as_str()).collect()
    }

    #[test]
    fn piece_with_the_largest_saving_is_first() {
        // `ab` is more frequent, but `cdef` saves three pieces each time.
        let words = [("ab", 10), ("cdef", 5), ("rare", 1)];
        let found = extended("a ##b c ##d ##e ##f r ##a ##r", &words, 2);
        assert_eq!(pieces(&found), ["cdef", "ab"]);
        assert_eq!(found.added[0].old_pieces.len(), 4);
        assert_eq!(found.report.pieces_per_word, [(20.0 + 20.0 + 4.0) / 16.0, (10.0 + 5.0 + 4.0) / 16.0]);
    }

    #[test]
    fn repaired_lines_and_null_rows_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let good = "the mill burnt\n".repeat(80);
        std::fs::write(at("a.txt"), [good.as_bytes(), b"the \xff mill\nthe \xfe mill\n"].concat()).unwrap();
        std::fs::write(at("n.jsonl"), "{\"text\": \"the mill\"}\n{\"text\": null}\n".repeat(20)).unwrap();
        let config = VocabConfig::default();
        let inputs = [at("a.txt"), at("n.jsonl")];
        let extended = extend_vocabulary(&inputs, &vocabulary("a"), &config, 2, &mut |_, _| {}).unwrap();
        assert_eq!((extended.read.invalid_utf8_lines, extended.read.null_rows), (2, 20));
        assert_eq!(extended.added.len(), 2);
    }

    #[test]
    fn unused_rows_come_first_and_old_ids_stay() {
        let old = "a ##b ##c ##d";
        let found = extended(old, &[("abcd", 4), ("abc", 3), ("acd", 3)], 3);
        let before = vocabulary(old);
        assert_eq!(found.added.iter().map(|added| added.id).collect::<Vec<_>>(), [1, 6, 11]);
        assert_eq!(found.report.on_unused_rows, 2);
        for (id, token) in before.tokens().iter().enumerate().filter(|(_, token)| !is_unused(token)) {
            assert_eq!(&found.tokens[id], token);
        }
    }

    #[test]
    fn shared_endings_are_joined_once() {
        let words = [("xabc", 2), ("yabc", 2), ("zabc", 2)];
        let found = extended("x y z ##a ##b ##c", &words, 1);
        assert_eq!(pieces(&found), ["##abc"]);
    }

    #[test]
    fn missing_characters_are_added() {
        let found = extended("a ##b", &[("\u{6cb3}", 9), ("a\u{e9}b", 5), ("\u{e9}a", 1)], 2);
        assert_eq!(pieces(&found), ["a\u{e9}b", "\u{6cb3}"]);
        assert_eq!(found.report.unknown_words, [15, 1]);
        assert!(found.added.iter().all(|added| added.old_pieces.is_empty()));
    }

    #[test]
    fn words_without_a_new_piece_keep_their_pieces() {
        let words = [("abcab", 5), ("bcab", 4), ("cabca", 3), ("bb", 1)];
        let old = "a b c ##a ##b ##c ##ca";
        let found = extended(old, &words, 3);
        let [before, after] = [vocabulary(old).tokens().to_vec(), found.tokens.clone()]
            .map(|tokens| Pieces::new(tokens.iter().map(|token| token.as_str().into())));
        let new: Vec<&str> = pieces(&found);
        let letters = ["a", "b", "c"];
        for word in (0..243).map(|n| [81, 27, 9, 3, 1].map(|unit| letters[n / unit % 3]).concat()) {
            let split = after.split(&word).unwrap();
            let is_new = split.iter().any(|piece| new.contains(&piece.as_str()));
            assert!(is_new || before.split(&word).unwrap() == split, "{word}");
        }
    }
}
