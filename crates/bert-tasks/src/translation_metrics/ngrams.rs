//! Counts of n-grams.

use std::collections::HashMap;
use std::hash::Hash;

use bert_tokenization::is_python_space;

/// The number of occurrences of each n-gram.
pub(super) type Ngrams<'a, T> = HashMap<&'a [T], u64>;

/// Counts the n-grams of a sequence.
pub(super) fn ngrams<T: Eq + Hash>(items: &[T], n: usize) -> Ngrams<'_, T> {
    let mut counts = HashMap::new();
    items.windows(n).for_each(|window| *counts.entry(window).or_insert(0) += 1);
    counts
}

/// Returns the number of n-grams that both have.
pub(super) fn matches<T: Eq + Hash>(hypothesis: &Ngrams<'_, T>, reference: &Ngrams<'_, T>) -> u64 {
    hypothesis.iter().map(|(ngram, count)| count.min(reference.get(ngram).unwrap_or(&0))).sum()
}

/// Returns the parts of a text, split like Python's `str.split()`.
pub(super) fn split_like_python(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_python_space).filter(|part| !part.is_empty())
}
