//! chrF (Popović, 2015) as in sacreBLEU: the F-score (beta 2) of mean precision and recall of character n-grams up to 6,
//! without white space. The mean is over the orders that both texts have.

use super::ngrams::{matches, ngrams, split_like_python};

const ORDER: usize = 6;
const BETA: f64 = 2.0;

/// Returns three counts for each order: n-grams of the hypothesis, of the reference, and matches. Only the reference
/// with the best score is counted. If the reference has no n-grams of an order, the count of the hypothesis is 0.
pub(super) fn counts(hypothesis: &str, references: &[&str]) -> Vec<u64> {
    let characters = |text: &str| split_like_python(text).flat_map(str::chars).collect::<Vec<char>>();
    let hypothesis = characters(hypothesis);
    let mut best: Option<(f64, Vec<u64>)> = None;
    for reference in references {
        let reference = characters(reference);
        let order_counts = |n| {
            let ours = ngrams(&hypothesis, n);
            let theirs = ngrams(&reference, n);
            let all = theirs.values().sum::<u64>();
            let matches = matches(&ours, &theirs);
            [if all == 0 { 0 } else { ours.values().sum() }, all, matches]
        };
        let counts: Vec<u64> = (1..=ORDER).flat_map(order_counts).collect();
        let score = score(&counts);
        if best.as_ref().is_none_or(|(most, _)| score > *most) {
            best = Some((score, counts));
        }
    }
    best.expect("a sentence has a reference").1
}

/// Returns chrF of summed counts.
pub(super) fn score(counts: &[u64]) -> f64 {
    let orders = counts.chunks_exact(3).filter(|order| order[0] > 0 && order[1] > 0);
    let mut precision = 0.0;
    let mut recall = 0.0;
    let mut number = 0.0;
    for order in orders {
        precision += order[2] as f64 / order[0] as f64;
        recall += order[2] as f64 / order[1] as f64;
        number += 1.0;
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let precision = precision / number;
    let recall = recall / number;
    let factor = BETA * BETA;
    100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
}
