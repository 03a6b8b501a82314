//! Draws spans of words that are masked together: 1 to N adjacent words, a length n with weight 1/n.
//!
//! Follows `_masking_ngrams` of tensorflow/models, except that the lengths come from the seeded generator too.

use std::ops::Range;

use bert_random::Random;

/// The spans of words that can still be masked, by their number of words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// At `n - 1`: the first words of the spans of `n` words that were not drawn yet.
    starts: Vec<Vec<u32>>,
    /// For each word, whether it belongs to a drawn span.
    taken: Vec<bool>,
}

impl Spans {
    /// Collects all spans of up to `max_ngram` adjacent words.
    pub(crate) fn fill(&mut self, words: &[(u32, u32)], max_ngram: usize) {
        self.taken.clear();
        self.taken.resize(words.len(), false);
        self.starts.resize_with(max_ngram, Vec::new);
        self.starts.iter_mut().for_each(Vec::clear);
        for start in 0..words.len() {
            for n in 1..=max_ngram.min(words.len() - start) {
                if n > 1 {
                    let (before, count) = words[start + n - 2];
                    if before + count != words[start + n - 1].0 {
                        break;
                    }
                }
                self.starts[n - 1].push(start as u32);
            }
        }
    }

    /// Draws a random span of at most `room` tokens that overlaps no span drawn before; returns `None` if none is left.
    pub(crate) fn draw<R: Random>(
        &mut self,
        room: usize,
        words: &[(u32, u32)],
        random: &mut R,
    ) -> Option<Range<usize>> {
        // Spans of more words than `room` never fit again: n words have at least n tokens, and the room only shrinks.
        self.starts.truncate(room);
        while let Some(at) = draw_length(&self.starts, random) {
            let drawn = random.below(self.starts[at].len());
            let start = self.starts[at].swap_remove(drawn) as usize;
            let span = start..start + at + 1;
            let tokens: u32 = words[span.clone()].iter().map(|&(_, count)| count).sum();
            if tokens as usize <= room && !self.taken[span.clone()].contains(&true) {
                self.taken[span.clone()].fill(true);
                return Some(span);
            }
        }
        None
    }
}

/// Draws a span length of n words, with probability proportional to 1/n, from the lengths that still have spans.
/// Returns n - 1, or `None` if there are none.
fn draw_length<R: Random>(starts: &[Vec<u32>], random: &mut R) -> Option<usize> {
    let weight = |at: usize| if starts[at].is_empty() { 0.0 } else { 1.0 / (at + 1) as f64 };
    let total: f64 = (0..starts.len()).map(weight).sum();
    let last = (0..starts.len()).rfind(|&at| !starts[at].is_empty())?;
    let mut left = random.unit() * total;
    for (at, spans) in starts.iter().enumerate().take(last) {
        left -= weight(at);
        if left < 0.0 && !spans.is_empty() {
            return Some(at);
        }
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bert_random::{Domain, Stream};

    #[test]
    fn lengths_are_drawn_with_weight_one_over_n() {
        let starts = vec![vec![1], vec![1], vec![], vec![1]];
        let mut random = Stream::new(3, Domain::Test, &[]);
        let mut seen = [0.0; 4];
        const N: f64 = 100_000.0;
        for _ in 0..N as usize {
            seen[draw_length(&starts, &mut random).unwrap()] += 1.0;
        }
        for (count, weight) in seen.into_iter().zip([1.0, 0.5, 0.0, 0.25]) {
            let p: f64 = weight / 1.75;
            assert!((count - N * p).abs() <= 5.0 * (N * p * (1.0 - p)).sqrt(), "{seen:?}");
        }
        assert_eq!(draw_length(&[vec![], vec![]], &mut random), None);
    }

    #[test]
    fn spans_are_of_neighbours_only_and_drawn_once() {
        // Words at 1, 2-3, 4 and, after a gap, 6.
        let words = [(1, 1), (2, 2), (4, 1), (6, 1)];
        let mut spans = Spans::default();
        spans.fill(&words, 3);
        assert_eq!(spans.starts, [vec![0, 1, 2, 3], vec![0, 1], vec![0]]);
        let mut random = Stream::new(5, Domain::Test, &[]);
        let mut seen = [false; 4];
        while let Some(span) = spans.draw(100, &words, &mut random) {
            assert!(!seen[span.clone()].contains(&true));
            seen[span].fill(true);
        }
        assert_eq!(seen, [true; 4], "single words are left until the end");
    }
}
