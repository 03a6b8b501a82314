//! Counts the words and characters of a text in bounded memory.
//!
//! Characters are counted exactly, and so are words up to a maximum number of distinct words. Beyond this maximum, the
//! rarest words are dropped, and only the number of their occurrences is kept.

use ahash::AHashMap;
use compact_str::CompactString;

/// Maximum length of a word; longer words are `[UNK]` to the tokenizer and useless for training.
const MAX_WORD_CHARACTERS: usize = 200;

/// Number of times that a character begins a word, and number of times that it occurs inside a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PositionCounts {
    pub(super) first: u64,
    pub(super) inside: u64,
}

/// Counts of a text or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordCounts {
    pub(super) words: AHashMap<CompactString, u64>,
    pub(super) characters: AHashMap<char, PositionCounts>,
    /// Number of occurrences of words that are too long.
    pub(super) too_long: u64,
    /// Number of occurrences of dropped words.
    pub(super) dropped: u64,
}

impl WordCounts {
    /// Counts a word; its characters are counted by [`WordCounts::count_characters`].
    pub(super) fn add_word(&mut self, word: &str, count: u64) {
        if word.len() > MAX_WORD_CHARACTERS && word.chars().count() > MAX_WORD_CHARACTERS {
            self.too_long += count;
            return;
        }
        match self.words.get_mut(word) {
            Some(sum) => *sum += count,
            None => {
                self.words.insert(word.into(), count);
            }
        }
    }

    /// Counts the characters of all words so far.
    pub(super) fn count_characters(&mut self) {
        for (word, &count) in &self.words {
            for (position, c) in word.chars().enumerate() {
                let counts = self.characters.entry(c).or_default();
                if position == 0 {
                    counts.first += count;
                } else {
                    counts.inside += count;
                }
            }
        }
    }

    /// Adds the counts of the following text, and drops rare words if there are more than `max_words`.
    pub(super) fn add(&mut self, next: Self, max_words: usize) {
        for (word, count) in next.words {
            *self.words.entry(word).or_default() += count;
        }
        for (c, more) in next.characters {
            let counts = self.characters.entry(c).or_default();
            counts.first += more.first;
            counts.inside += more.inside;
        }
        self.too_long += next.too_long;
        self.dropped += next.dropped;
        if self.words.len() > max_words {
            self.drop_rare_words(max_words / 2);
        }
    }

    /// Drops the rarest words, so that at most `keep` remain; words with equal counts are all kept or all dropped.
    fn drop_rare_words(&mut self, keep: usize) {
        let mut counts: Vec<u64> = self.words.values().copied().collect();
        let (_, &mut rare, _) = counts.select_nth_unstable_by(keep, |a, b| b.cmp(a));
        drop(counts);
        let dropped = &mut self.dropped;
        self.words.retain(|_, count| {
            *dropped += if *count > rare { 0 } else { *count };
            *count > rare
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(words: &[(&str, u64)]) -> WordCounts {
        let mut counts = WordCounts::default();
        words.iter().for_each(|(word, count)| counts.add_word(word, *count));
        counts.count_characters();
        counts
    }

    #[test]
    fn rare_words_are_dropped_but_their_characters_counted() {
        let mut sum = counts(&[("river", 9), ("sea", 4), ("lake", 1)]);
        sum.add(counts(&[("river", 1), ("pond", 1), ("bay", 2)]), 5);
        assert_eq!((sum.words.len(), sum.dropped), (5, 0), "five are allowed");
        sum.add(counts(&[("brook", 1), ("sea", 1)]), 5);
        let mut left: Vec<_> = sum.words.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        left.sort_unstable();
        assert_eq!(left, [("river", 10), ("sea", 5)], "two at most are left of six");
        assert_eq!(sum.dropped, 1 + 1 + 2 + 1);
        assert_eq!(sum.characters[&'k'], PositionCounts { first: 0, inside: 2 }, "lake and brook");
        assert_eq!(sum.characters[&'r'], PositionCounts { first: 10, inside: 10 + 1 });
    }

    #[test]
    fn words_of_more_than_200_characters_are_too_long() {
        let mut sum = WordCounts::default();
        sum.add_word(&"\u{6cb3}".repeat(200), 1);
        sum.add_word(&"a".repeat(201), 3);
        assert_eq!((sum.words.len(), sum.too_long), (1, 3));
    }
}
