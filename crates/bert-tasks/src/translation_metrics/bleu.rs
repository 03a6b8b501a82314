//! BLEU (Papineni et al., 2002) as in sacreBLEU (Post, 2018): n-grams up to 4, exponential smoothing of precisions that
//! are 0.

use super::bleu_tokenizer::BleuTokenizer;
use super::ngrams::{matches, ngrams};

const ORDER: usize = 4;

/// Returns the length of the hypothesis, of the closest reference, the matches of each order, and the n-grams of each
/// order.
pub(super) fn counts(tokenizer: BleuTokenizer, hypothesis: &str, references: &[&str]) -> Vec<u64> {
    let hypothesis = tokenizer.tokenize(hypothesis);
    let references: Vec<Vec<String>> =
        references.iter().map(|reference| tokenizer.tokenize(reference)).collect();
    let length = hypothesis.len();
    let closest = references.iter().map(Vec::len).min_by_key(|&other| (other.abs_diff(length), other));
    let mut counts = vec![length as u64, closest.expect("a sentence has a reference") as u64];
    for n in 1..=ORDER {
        let mut all = ngrams(&references[0], n);
        for reference in &references[1..] {
            for (ngram, count) in ngrams(reference, n) {
                all.entry(ngram).and_modify(|most| *most = count.max(*most)).or_insert(count);
            }
        }
        counts.push(matches(&ngrams(&hypothesis, n), &all));
    }
    counts.extend((1..=ORDER).map(|n| (length + 1).saturating_sub(n) as u64));
    counts
}

/// Returns BLEU of summed counts.
pub(super) fn score(counts: &[u64]) -> f64 {
    let length = counts[0] as f64;
    let reference_length = counts[1] as f64;
    let (correct, total) = counts[2..].split_at(ORDER);
    if correct.iter().all(|&count| count == 0) || total.contains(&0) {
        return 0.0;
    }
    let brevity_penalty =
        if length < reference_length { (1.0 - reference_length / length).exp() } else { 1.0 };
    let mut smoothing = 1.0;
    let mut log_sum = 0.0;
    for (&correct, &total) in correct.iter().zip(total) {
        let precision = match correct {
            0 => {
                smoothing *= 2.0;
                100.0 / (smoothing * total as f64)
            }
            _ => 100.0 * correct as f64 / total as f64,
        };
        log_sum += precision.ln();
    }
    brevity_penalty * (log_sum / ORDER as f64).exp()
}
