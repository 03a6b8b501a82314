//! Converts token scores into answer texts.
//!
//! Ports `write_predictions` of the reference's `run_squad.py`. It combines the best start and end positions of every
//! window, keeps the spans that can be answers, and returns the best ones with probabilities. For SQuAD 2.0 it
//! predicts "no answer" if `[CLS]` scores higher than the best answer by more than a threshold. The reference aligns
//! two tokenizations; this module quotes the answer from the text by the byte positions of its tokens.

use serde::{Deserialize, Serialize};

use crate::encode::windows::EncodedQuestion;

/// Settings for answer candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerSettings {
    /// Number of start and end candidates per window, and of answers kept; the reference uses 20.
    pub n_best_size: usize,
    /// Maximum answer length in tokens; the reference uses 30.
    pub max_answer_length: usize,
    /// SQuAD 2.0: margin by which "no answer" must exceed the best answer. `None` if every question has an answer.
    pub null_threshold: Option<f64>,
}

/// Scores of one window's sequence, without padding.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowScores {
    /// Scores of starting at each token.
    pub start: Vec<f32>,
    /// Scores of ending at each token, inclusive.
    pub end: Vec<f32>,
}

/// A candidate answer with its scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The answer quoted from the text; empty for "no answer".
    pub text: String,
    /// Probability among the question's candidates.
    pub probability: f64,
    /// Score of the start.
    pub start_logit: f32,
    /// Score of the end.
    pub end_logit: f32,
}

impl Candidate {
    fn new(text: String, start_logit: f32, end_logit: f32) -> Self {
        Self { text, probability: 0.0, start_logit, end_logit }
    }

    fn score(&self) -> f64 {
        f64::from(self.start_logit) + f64::from(self.end_logit)
    }
}

/// The predicted answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedAnswer {
    /// The answer; empty for "no answer".
    pub text: String,
    /// The best candidates, best first.
    pub n_best: Vec<Candidate>,
    /// Score of "no answer" minus the best answer's score; SQuAD 2.0 only.
    pub null_score_difference: Option<f64>,
}

/// Returns the answer to a question from the scores of all its windows.
///
/// # Panics
/// Panics if the numbers of scores, windows and tokens do not match.
pub fn answer(
    context: &str,
    question: &EncodedQuestion,
    scores: &[WindowScores],
    settings: AnswerSettings,
) -> PredictedAnswer {
    assert_eq!(question.windows.len(), scores.len(), "scores for each window");
    let mut candidates = candidates(context, question, scores, settings);
    if settings.null_threshold.is_some() {
        candidates.extend(no_answer(scores));
    }
    candidates.sort_by(|a, b| b.score().total_cmp(&a.score()));
    let mut n_best: Vec<Candidate> = Vec::new();
    for candidate in &candidates {
        if n_best.len() == settings.n_best_size {
            break;
        }
        if n_best.iter().all(|known| known.text != candidate.text) {
            n_best.push(candidate.clone());
        }
    }
    // Keep "no answer" among the candidates, whatever its score.
    if n_best.iter().all(|known| !known.text.is_empty()) {
        n_best.extend(candidates.into_iter().find(|candidate| candidate.text.is_empty()));
    }
    fill_probabilities(&mut n_best);
    let best = n_best.iter().find(|candidate| !candidate.text.is_empty());
    let null = n_best.iter().find(|candidate| candidate.text.is_empty());
    let difference =
        settings.null_threshold.and(null.zip(best)).map(|(null, best)| null.score() - best.score());
    let is_no_answer =
        difference.zip(settings.null_threshold).is_some_and(|(difference, threshold)| difference > threshold);
    let text = best.filter(|_| !is_no_answer).map_or_else(String::new, |best| best.text.clone());
    PredictedAnswer { text, n_best, null_score_difference: difference }
}

/// Returns every span from a start candidate to an end candidate that lies in the text, is not too long, and begins at
/// a token that has its maximum context in the window.
fn candidates(
    context: &str,
    question: &EncodedQuestion,
    scores: &[WindowScores],
    settings: AnswerSettings,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (window, scores) in question.windows.iter().zip(scores) {
        let pieces = &question.pieces[window.tokens.clone()];
        let starts = best(&scores.start, settings.n_best_size);
        let ends = best(&scores.end, settings.n_best_size);
        let token = |position: usize| position.checked_sub(window.first).filter(|&at| at < pieces.len());
        for &start in &starts {
            for &end in &ends {
                let (Some(first), Some(last)) = (token(start), token(end)) else { continue };
                let fits = first <= last && last - first < settings.max_answer_length;
                if fits && window.max_context[first] {
                    let text = context[pieces[first].start..pieces[last].end].to_string();
                    candidates.push(Candidate::new(text, scores.start[start], scores.end[end]));
                }
            }
        }
    }
    candidates
}

/// Returns the "no answer" candidate, from the window in which its score is lowest.
fn no_answer(scores: &[WindowScores]) -> Option<Candidate> {
    let candidate = |scores: &WindowScores| Candidate::new(String::new(), scores.start[0], scores.end[0]);
    scores.iter().map(candidate).reduce(|min, next| if next.score() < min.score() { next } else { min })
}

/// Returns the indices of the `n` highest scores, highest first; ties go to the first.
fn best(scores: &[f32], n: usize) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..scores.len()).collect();
    indices.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    indices.truncate(n);
    indices
}

/// Fills in the softmax over the scores of the candidates.
fn fill_probabilities(candidates: &mut [Candidate]) {
    let max = candidates.iter().map(Candidate::score).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = candidates.iter().map(|candidate| (candidate.score() - max).exp()).sum();
    for candidate in candidates {
        candidate.probability = (candidate.score() - max).exp() / total;
    }
}

#[cfg(test)]
mod tests {
    use bert_tokenization::PieceWithOffsets;

    use super::*;
    use crate::EncodedPair;
    use crate::encode::windows::Window;

    const TEXT: &str = "ab cd ef gh";

    /// Four words after `[CLS] q [SEP]`, in two windows of three that begin at the first and at the second word.
    fn question() -> EncodedQuestion {
        let pieces = (0..4).map(|at| PieceWithOffsets { id: 0, start: 3 * at, end: 3 * at + 2 });
        let window = |start: usize, max_context: [bool; 3]| Window {
            encoded: EncodedPair { input_ids: vec![0; 7], segment_ids: vec![0; 7] },
            tokens: start..start + 3,
            first: 3,
            max_context: max_context.to_vec(),
            target: (0, 0),
        };
        let windows = vec![window(0, [true, true, false]), window(1, [false, true, true])];
        EncodedQuestion { pieces: pieces.collect(), windows }
    }

    fn scores(start: [f32; 7], end: [f32; 7]) -> WindowScores {
        WindowScores { start: start.to_vec(), end: end.to_vec() }
    }

    const SETTINGS: AnswerSettings =
        AnswerSettings { n_best_size: 20, max_answer_length: 2, null_threshold: None };

    #[test]
    fn best_valid_span_is_the_answer() {
        // Excluded: "ef" where another window has more context, the question's own word, and spans of three words.
        let first = scores([9.0, 8.0, 0.0, 3.0, 1.0, 7.0, 0.0], [9.0, 8.0, 0.0, 0.0, 2.0, 7.5, 0.0]);
        let second = scores([0.0, 0.0, 0.0, 6.0, 1.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.2, 0.0]);
        let found = answer(TEXT, &question(), &[first, second], SETTINGS);
        // "cd ef" in the first window scores 1.0 + 7.5.
        assert_eq!(found.text, "cd ef");
        assert_eq!(found.n_best[1].text, "ab cd");
        assert_eq!(found.null_score_difference, None);
        let total: f64 = found.n_best.iter().map(|candidate| candidate.probability).sum();
        assert!(
            (total - 1.0).abs() < 1e-12 && found.n_best.is_sorted_by(|a, b| a.probability >= b.probability)
        );
        // e^5.0 divided by e^8.5.
        let ratio = found.n_best[0].probability / found.n_best[1].probability;
        assert!((ratio.ln() - 3.5).abs() < 1e-9, "{ratio}");
        let one = AnswerSettings { max_answer_length: 1, ..SETTINGS };
        let first = scores([0.0; 7], [0.0; 7]);
        let second = scores([0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0, 0.0, 1.0, 0.0]);
        // "cd" has more context in the first window than in the second.
        assert_eq!(answer(TEXT, &question(), &[first, second], one).text, "gh");
    }

    #[test]
    fn no_answer_needs_the_null_threshold() {
        // The second window's [CLS] has the lower score and counts: 2 + 1 against 1 + 1.5.
        let first = scores([5.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0]);
        let second = scores([2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let with = |threshold: f64| {
            let settings = AnswerSettings { null_threshold: Some(threshold), ..SETTINGS };
            answer(TEXT, &question(), &[first.clone(), second.clone()], settings)
        };
        assert_eq!(with(0.0).null_score_difference, Some(0.5));
        assert_eq!((with(0.0).text.as_str(), with(0.5).text.as_str()), ("", "ab"));
        assert_eq!(with(0.0).n_best[0].text, "");
        // "no answer" stays among the candidates even if only one is kept.
        let settings = AnswerSettings { null_threshold: Some(9.0), n_best_size: 1, ..SETTINGS };
        let weak = scores([-9.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [-9.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0]);
        let found = answer(TEXT, &question(), &[weak.clone(), weak], settings);
        assert_eq!(found.n_best.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["ab", ""]);
    }

    #[test]
    fn windows_without_valid_spans_give_no_answer() {
        let nothing = scores([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let few = AnswerSettings { n_best_size: 1, ..SETTINGS };
        let found = answer(TEXT, &question(), &[nothing.clone(), nothing], few);
        assert_eq!((found.text.as_str(), found.n_best.len()), ("", 0));
    }
}
