//! Scores two count-based predictors on the masked LM, as baselines for a run: unigram and bigram.
//!
//! Both count the training text of a run and are scored by loss and accuracy on held-out masked tokens:
//!
//! - `unigram` ignores the context. A model whose loss is not below this baseline does not use its attention yet.
//! - `bigram` looks up the previous and the next token in a table of pairs. A model whose loss is between the two
//!   baselines uses the context, but gets less from it than these two tokens provide.

use bert_data::DataSet;
use bert_inference::StopFlag;
use serde::{Deserialize, Serialize};

use crate::data_loader::DataLoader;
use crate::error::{Error, mismatch};
use crate::initialization::bigram_counts::{BigramCounts, Side};

/// Maximum number of held-out masked tokens to predict: the standard error of the loss is then below 0.01 nats.
const MAX_PREDICTIONS: usize = 1 << 18;

/// Weight of the unigram prior, in tokens added to the counts of each neighbour.
const PRIOR: f64 = 500.0;

/// Both baselines, over the same masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// Number of held-out masked tokens.
    pub predictions: u64,
    /// Unigram baseline: each token's share of the training text.
    pub unigram: Baseline,
    /// Bigram baseline: counts of the two neighbouring tokens in the training text.
    pub bigram: Baseline,
}

/// Score of one predictor on the held-out masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Mean negative log-likelihood, in nats.
    pub masked_lm_loss: f64,
    /// Fraction of the masked tokens that the predictor ranks first; ties go to the lowest id.
    pub masked_lm_accuracy: f64,
}

impl Baselines {
    /// Returns the mean of the baselines of several held-out data sets by their shares; `None` without any.
    pub fn mean_of(parts: &[(f64, Self)]) -> Option<Self> {
        if let [(_, only)] = parts {
            return Some(*only);
        }
        let mean = |baseline: fn(&Self) -> Baseline| Baseline {
            masked_lm_loss: parts.iter().map(|(share, part)| share * baseline(part).masked_lm_loss).sum(),
            masked_lm_accuracy: parts
                .iter()
                .map(|(share, part)| share * baseline(part).masked_lm_accuracy)
                .sum(),
        };
        (!parts.is_empty()).then(|| Self {
            predictions: parts.iter().map(|(_, part)| part.predictions).sum(),
            unigram: mean(|part| part.unigram),
            bigram: mean(|part| part.bigram),
        })
    }
}

/// A held-out masked token with its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MaskedToken {
    /// The token before it; `None` if there is none or if it is masked too.
    left: Option<u32>,
    /// The token after it; `None` if there is none or if it is masked too.
    right: Option<u32>,
    /// The original token.
    target: u32,
}

/// Scores both baselines: counts the text of the data sets of `train` with their weights and predicts the masked tokens
/// of the first `instances` instances of `held_out`, or of all instances, as an evaluation does.
///
/// Time is bounded: at most about 67 million tokens of the text are counted, as for the initialization `bigram`, and at
/// most 262,144 masked tokens are predicted.
///
/// # Errors
/// Fails when a shard cannot be read, or when the training data and the held-out data have different vocabularies.
pub fn baselines(
    train: &[(DataSet, f64)],
    held_out: &mut DataLoader,
    instances: Option<u64>,
) -> Result<Baselines, Error> {
    let vocabulary = train[0].0.vocabulary();
    if held_out.vocabulary().tokens() != vocabulary.tokens() {
        let train = train[0].0.folder().display();
        let held_out = held_out.data().folder().display();
        let differences = vec![format!(
            "{held_out} was made with another vocabulary than {train}; build both with the same `.vocab`"
        )];
        return Err(mismatch(differences));
    }
    let mut masked_tokens = masked_tokens(held_out, instances.unwrap_or(u64::MAX))?;
    let mut counts = BigramCounts::from_data(train, 1, &StopFlag::new(), &mut |_| {})?;
    let unigram = Unigram::new(&counts);
    Ok(Baselines {
        predictions: masked_tokens.len() as u64,
        unigram: unigram.baseline(&masked_tokens),
        bigram: Bigram::new(&mut counts).baseline(&unigram, &mut masked_tokens),
    })
}

/// Returns the masked tokens of the first `instances` instances, in stored order.
fn masked_tokens(held_out: &mut DataLoader, instances: u64) -> Result<Vec<MaskedToken>, Error> {
    let mask = held_out.vocabulary().mask_id();
    let mut masked_tokens = Vec::new();
    for index in 0..instances.min(held_out.rows()) {
        let row = held_out.stored_row(index)?;
        let known = |at: usize| row.input_ids.get(at).copied().filter(|&id| id != mask);
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            let at = position as usize;
            let left = at.checked_sub(1).and_then(known);
            masked_tokens.push(MaskedToken { left, right: known(at + 1), target: id });
        }
        if masked_tokens.len() >= MAX_PREDICTIONS {
            masked_tokens.truncate(MAX_PREDICTIONS);
            break;
        }
    }
    Ok(masked_tokens)
}

/// Returns loss and accuracy from sums over `predictions` masked tokens.
fn mean(loss: f64, hits: u64, predictions: usize) -> Baseline {
    let predictions = predictions.max(1) as f64;
    Baseline { masked_lm_loss: loss / predictions, masked_lm_accuracy: hits as f64 / predictions }
}

/// Unigram predictor: a token's share of the training text, whatever the context.
struct Unigram {
    /// Probability of each token of the vocabulary, with add-one smoothing, so that no probability is zero.
    shares: Vec<f64>,
    most_frequent: u32,
}

impl Unigram {
    fn new(text: &BigramCounts) -> Self {
        let counts = &text.occurrences;
        // Ties go to the lowest id.
        let most_frequent = (0..counts.len()).rev().max_by_key(|&id| counts[id]).unwrap_or(0) as u32;
        Self { shares: text.shares(), most_frequent }
    }

    /// Returns the predictor's score.
    fn baseline(&self, masked_tokens: &[MaskedToken]) -> Baseline {
        let loss: f64 = masked_tokens.iter().map(|masked| -self.shares[masked.target as usize].ln()).sum();
        let hits = masked_tokens.iter().filter(|masked| masked.target == self.most_frequent).count();
        mean(loss, hits as u64, masked_tokens.len())
    }
}

/// A token and its weight: q(t) before normalization.
#[derive(Clone, Copy)]
struct Candidate {
    weight: f64,
    token: u32,
}

impl Candidate {
    /// Returns the candidate with the greater weight; ties go to the lower id.
    fn or(self, other: Self) -> Self {
        let other_wins =
            other.weight > self.weight || (other.weight == self.weight && other.token < self.token);
        if other_wins { other } else { self }
    }
}

/// Bigram predictor: combines the counts of a masked token's two neighbours in the training text.
///
/// ```text
/// q(t) ~ P(t | left) P(t | right) / P(t)        P(t | a) = (n(a, t) + K P(t)) / (n(a) + K),  K = 500
/// ```
///
/// A neighbour that is masked itself contributes no factor. A neighbour without counts gives the same result, because
/// its P(t | a) is P(t). If L and R are the counts of t at each neighbour, then q(t) is `(L + K P)(R + K P) / P`,
/// divided by the sum over the vocabulary. That sum equals the sum of L R / P over the tokens seen with both
/// neighbours, plus K times the counts of each neighbour, plus K squared. This form is exact and needs no pass over the
/// vocabulary.
struct Bigram {
    /// Tokens that follow each token.
    after: Side,
    /// Tokens that precede each token.
    before: Side,
}

impl Bigram {
    fn new(text: &mut BigramCounts) -> Self {
        Self { after: text.side(-1), before: text.side(1) }
    }

    /// Returns the predictor's score; sorts the tokens.
    fn baseline(&self, unigram: &Unigram, masked_tokens: &mut [MaskedToken]) -> Baseline {
        let weigh = |token: u32, after: f64, before: f64| {
            let prior = unigram.shares[token as usize];
            let weight = (after + PRIOR * prior) * (before + PRIOR * prior) / prior;
            Candidate { weight, token }
        };
        // The tokens are sorted by left neighbour, so that the counts of each left neighbour are written to `after`
        // only once.
        masked_tokens.sort_unstable();
        let mut after = vec![0.0; unigram.shares.len()];
        let mut loss = 0.0;
        let mut hits = 0;
        for group in masked_tokens.chunk_by(|a, b| a.left == b.left) {
            let left = counts_at(&self.after, group[0].left);
            let mut left_total = 0.0;
            // The best of the tokens that never precede the right neighbour. The weights of tokens that precede it are
            // too small here, so these tokens cannot replace a better one.
            let mut best_without_right = weigh(unigram.most_frequent, 0.0, 0.0);
            for &(token, count) in left {
                after[token as usize] = f64::from(count);
                left_total += f64::from(count);
                best_without_right = best_without_right.or(weigh(token, f64::from(count), 0.0));
            }
            for masked in group {
                let mut total = PRIOR * (left_total + PRIOR);
                let mut best = best_without_right;
                let mut before_target = 0.0;
                for &(token, count) in counts_at(&self.before, masked.right) {
                    let after = after[token as usize];
                    let before = f64::from(count);
                    total += before * (PRIOR + after / unigram.shares[token as usize]);
                    best = best.or(weigh(token, after, before));
                    if token == masked.target {
                        before_target = before;
                    }
                }
                let target = weigh(masked.target, after[masked.target as usize], before_target);
                loss += (total / target.weight).ln();
                hits += u64::from(best.token == masked.target);
            }
            left.iter().for_each(|&(token, _)| after[token as usize] = 0.0);
        }
        mean(loss, hits, masked_tokens.len())
    }
}

/// Returns the counts at a neighbour; empty if the neighbour is unknown.
fn counts_at(side: &Side, neighbour: Option<u32>) -> &[(u32, u32)] {
    neighbour.map_or(&[], |id| side.tokens(id as usize))
}

#[cfg(test)]
mod tests {
    use bert_random::{Domain, Random, Stream};

    use super::*;

    /// Computes the definition directly: a table of all pairs and a sum over the vocabulary for every masked token.
    fn dense(vocabulary: usize, texts: &[Vec<u32>], masked_tokens: &[MaskedToken]) -> Baseline {
        let mut single = vec![1.0; vocabulary];
        let mut pairs = vec![vec![0.0; vocabulary]; vocabulary];
        for text in texts {
            text.iter().for_each(|&id| single[id as usize] += 1.0);
            text.windows(2).for_each(|pair| pairs[pair[0] as usize][pair[1] as usize] += 1.0);
        }
        let total: f64 = single.iter().sum();
        let p: Vec<f64> = single.iter().map(|count| count / total).collect();
        let mut loss = 0.0;
        let mut hits = 0;
        for masked in masked_tokens {
            let mut q = p.clone();
            for (t, q) in q.iter_mut().enumerate() {
                if let Some(left) = masked.left {
                    let row = &pairs[left as usize];
                    *q *= (row[t] + 500.0 * p[t]) / (row.iter().sum::<f64>() + 500.0) / p[t];
                }
                if let Some(right) = masked.right {
                    let column: Vec<f64> = pairs.iter().map(|row| row[right as usize]).collect();
                    *q *= (column[t] + 500.0 * p[t]) / (column.iter().sum::<f64>() + 500.0) / p[t];
                }
            }
            loss -= (q[masked.target as usize] / q.iter().sum::<f64>()).ln();
            let best = (0..vocabulary).rev().max_by(|&a, &b| q[a].total_cmp(&q[b])).unwrap();
            hits += u64::from(best == masked.target as usize);
        }
        mean(loss, hits, masked_tokens.len())
    }

    fn counted(vocabulary: usize, texts: &[Vec<u32>]) -> BigramCounts {
        let mut counts = BigramCounts::new(vocabulary, 1);
        texts.iter().for_each(|text| counts.add(text));
        counts
    }

    fn sparse(vocabulary: usize, texts: &[Vec<u32>], masked_tokens: &[MaskedToken]) -> Baseline {
        let mut text = counted(vocabulary, texts);
        Bigram::new(&mut text).baseline(&Unigram::new(&text), &mut masked_tokens.to_vec())
    }

    #[test]
    fn sparse_sums_equal_sums_over_the_vocabulary() {
        let mut all_hits = 0.0;
        for seed in 0..8 {
            let mut random = Stream::new(seed, Domain::Test, &[]);
            let vocabulary = 5 + random.below(40);
            // Low ids are frequent; the last third occurs as targets and neighbours only, not in the texts.
            let mut id = |most: usize| random.below(most).min(random.below(most)) as u32;
            let texts: Vec<Vec<u32>> = (0..30)
                .map(|text| (0..text * 40).map(|_| id(vocabulary - vocabulary / 3)).collect())
                .collect();
            let masked_tokens: Vec<MaskedToken> = (0..300)
                .map(|_| {
                    let mut side = || Some(id(vocabulary)).filter(|&id| id != 1);
                    MaskedToken { left: side(), right: side(), target: id(vocabulary) }
                })
                .collect();
            let found = sparse(vocabulary, &texts, &masked_tokens);
            let expected = dense(vocabulary, &texts, &masked_tokens);
            assert!((found.masked_lm_loss - expected.masked_lm_loss).abs() < 1e-10, "{found:?} {expected:?}");
            assert_eq!(found.masked_lm_accuracy, expected.masked_lm_accuracy, "seed {seed}");
            all_hits += found.masked_lm_accuracy;
        }
        assert!(all_hits > 0.2, "some predictions must be correct");
    }

    #[test]
    fn bigram_predicts_from_both_neighbours() {
        // 7 occurs only between 1 and 2, 8 only between 3 and 4.
        let texts = vec![[1, 7, 2, 3, 8, 4].repeat(200)];
        let masked = |left, right, target| MaskedToken { left, right, target };
        let baseline = |masked_tokens: &[MaskedToken]| sparse(10, &texts, masked_tokens);
        for masked in [masked(Some(1), Some(2), 7), masked(Some(3), None, 8), masked(None, Some(4), 8)] {
            let found = baseline(&[masked]);
            assert!(found.masked_lm_loss < 1.0 && found.masked_lm_accuracy == 1.0, "{found:?}");
        }
    }

    #[test]
    fn masked_neighbours_leave_the_unigram_prediction() {
        let texts = vec![vec![3, 1, 3, 2, 3, 1]];
        let masked_tokens = [3, 1, 0].map(|target| MaskedToken { left: None, right: None, target });
        let found = sparse(5, &texts, &masked_tokens);
        let expected = Unigram::new(&counted(5, &texts)).baseline(&masked_tokens);
        assert!((found.masked_lm_loss - expected.masked_lm_loss).abs() < 1e-12);
        assert_eq!(found.masked_lm_accuracy, expected.masked_lm_accuracy);
    }

    #[test]
    fn unigram_loss_is_by_share() {
        let mut counts = BigramCounts::new(4, 0);
        counts.add(&[0, 1, 1, 1, 3, 3, 3]);
        let unigram = Unigram::new(&counts);
        let masked_tokens = [1, 1, 2, 3].map(|target| MaskedToken { left: None, right: Some(1), target });
        let found = unigram.baseline(&masked_tokens);
        // Shares of 2, 4, 1 and 4 elevenths; of the two most frequent tokens the lower id is the guess.
        let expected = (3.0 * (11f64 / 4.0).ln() + 11f64.ln()) / 4.0;
        assert!((found.masked_lm_loss - expected).abs() < 1e-12, "{found:?}");
        assert_eq!((unigram.most_frequent, found.masked_lm_accuracy), (1, 0.5));
    }
}
