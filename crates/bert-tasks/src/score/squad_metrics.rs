//! Computes exact match and F1 of answers like SQuAD's official scripts (`evaluate-v1.1.py`, `evaluate-v2.0.py`).

use std::collections::HashMap;

use bert_tokenization::{is_ideograph, is_punctuation, is_python_alphanumeric, is_python_space};

use crate::task::example::Question;

/// The scores of one answer, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuestionScores {
    /// 1 if the answer matches a correct answer exactly, else 0.
    pub exact_match: f64,
    /// F1 of the words, maximum over the correct answers.
    pub f1: f64,
}

/// The rules by which answers are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerRules {
    /// Whether questions may have no answer, as in version 2.0.
    pub version_2: bool,
    /// Whether every ideograph is a word and punctuation of all scripts is removed, as in the scripts of MLQA and CMRC
    /// 2018. SQuAD's scripts count words that white space separates, so F1 of Chinese answers would equal their exact
    /// match.
    pub by_character: bool,
}

impl AnswerRules {
    /// Returns the rules for a set of questions. Answers are compared by character if most of them have ideographs.
    pub fn new(version_2: bool, questions: &[Question]) -> Self {
        let answers = || questions.iter().flat_map(|question| &question.answers);
        let ideographic = answers().filter(|answer| answer.text.chars().any(is_ideograph)).count();
        Self { version_2, by_character: 2 * ideographic > answers().count() }
    }

    fn words(self, answer: &str) -> Vec<String> {
        if !self.by_character {
            return normalized_words(answer);
        }
        let plain: String = answer.chars().filter(|&c| !is_punctuation(c)).collect();
        let mut words = Vec::new();
        for word in normalized_words(&plain) {
            let parts = word.split_inclusive(is_ideograph).flat_map(|part| {
                let at = part
                    .char_indices()
                    .next_back()
                    .filter(|(_, last)| is_ideograph(*last))
                    .map_or(part.len(), |(at, _)| at);
                [part[..at].to_string(), part[at..].to_string()]
            });
            words.extend(parts.filter(|part| !part.is_empty()));
        }
        words
    }
}

/// Returns the scores of the answer to one question. In version 2.0, gold answers that normalize to no words are
/// ignored, and two empty answers match.
pub fn question_scores(rules: AnswerRules, question: &Question, given: &str) -> QuestionScores {
    let given = rules.words(given);
    let gold = question.answers.iter().map(|answer| rules.words(&answer.text));
    let gold: Vec<_> = gold.filter(|words| !rules.version_2 || !words.is_empty()).collect();
    if rules.version_2 && gold.is_empty() {
        let correct = f64::from(given.is_empty());
        return QuestionScores { exact_match: correct, f1: correct };
    }
    best(gold.iter().map(|gold| compare(gold, &given)))
}

fn compare(gold: &[String], given: &[String]) -> QuestionScores {
    QuestionScores { exact_match: f64::from(gold == given), f1: word_f1(gold, given) }
}

/// Returns the maximum of each score.
fn best(scores: impl Iterator<Item = QuestionScores>) -> QuestionScores {
    scores.fold(QuestionScores::default(), |best, scores| QuestionScores {
        exact_match: best.exact_match.max(scores.exact_match),
        f1: best.f1.max(scores.f1),
    })
}

/// Returns the F1 of the words that two answers share, counting repeated words.
fn word_f1(gold: &[String], given: &[String]) -> f64 {
    let mut left: HashMap<&str, usize> = HashMap::new();
    gold.iter().for_each(|word| *left.entry(word).or_default() += 1);
    let mut same = 0.0;
    for word in given {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            same += 1.0;
        }
    }
    if same == 0.0 {
        return 0.0;
    }
    let precision = same / given.len() as f64;
    let recall = same / gold.len() as f64;
    2.0 * precision * recall / (precision + recall)
}

/// Returns the words of an answer in lower case, without ASCII punctuation and English articles.
fn normalized_words(answer: &str) -> Vec<String> {
    let plain: String = answer.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut kept = String::new();
    let mut word = String::new();
    for c in plain.chars().chain([' ']) {
        // Underscores were already removed with the punctuation.
        if is_python_alphanumeric(c) {
            word.push(c);
            continue;
        }
        if matches!(word.as_str(), "a" | "an" | "the") {
            kept.push(' ');
        } else {
            kept.push_str(&word);
        }
        word.clear();
        kept.push(c);
    }
    kept.split(is_python_space).filter(|word| !word.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::example::Answer;

    /// Gold answers, prediction, exact match and F1 of version 1.1 and of version 2.0. Computed with
    /// `normalize_answer`, `compute_exact`, `compute_f1` and `get_raw_scores` of `evaluate-v2.0.py` and with `f1_score`
    /// of `evaluate-v1.1.py`, Python 3.
    type Scored = (&'static [&'static str], &'static str, Option<(f64, f64)>, (f64, f64));

    #[rustfmt::skip]
    const SCORED: &[Scored] = &[
        (&["the lighthouse"], "Lighthouse", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["A harbour-master", "harbour master"], "the harbourmaster", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["1,204 metres"], "1204 metres high", Some((0.0, 0.8)), (0.0, 0.8)),
        (&["the the"], "a", Some((1.0, 0.0)), (1.0, 1.0)),
        (&["an"], "the", Some((1.0, 0.0)), (1.0, 1.0)),
        (&["the"], "", Some((1.0, 0.0)), (1.0, 1.0)),
        (&[], "", None, (1.0, 1.0)),
        (&[], "a pier", None, (0.0, 0.0)),
        (&[], "the", None, (1.0, 1.0)),
        (&["Zo\u{eb}\u{2013}Anna"], "zo\u{eb} a anna", Some((0.0, 0.0)), (0.0, 0.0)),
        (&["a\u{2013}b"], "\u{2013}b", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["L'\u{e9}t\u{e9} \u{e0} Paris"], "\u{e9}t\u{e9} \u{e0} paris", Some((0.0, 0.6666666666666666)), (0.0, 0.6666666666666666)),
        (&["na\u{ef}ve caf\u{e9}, the old one"], "The Old Caf\u{e9}", Some((0.0, 0.6666666666666666)), (0.0, 0.6666666666666666)),
        (&["theatre an hour"], "the atre hour", Some((0.0, 0.5)), (0.0, 0.5)),
        (&["x_a_y"], "x a y", Some((0.0, 0.0)), (0.0, 0.0)),
        (&["salt salt pepper"], "salt pepper pepper", Some((0.0, 0.6666666666666666)), (0.0, 0.6666666666666666)),
        (&["\u{4f60}\u{597d} \u{4e16}\u{754c}"], "\u{4f60}\u{597d}\u{4e16}\u{754c}", Some((0.0, 0.0)), (0.0, 0.0)),
        (&["the\u{a0}\u{2003}mill"], "mill", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["\u{1f}mill\u{1c}"], "mill", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["\u{bd} a mile"], "\u{bd} mile", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["a\u{301}b the"], "\u{301}b", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["\u{2167} the"], "\u{2177}", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["\u{130}zmir"], "i\u{307}zmir", Some((1.0, 1.0)), (1.0, 1.0)),
        (&["\u{39f}\u{394}\u{39f}\u{3a3}"], "\u{3bf}\u{3b4}\u{3bf}\u{3c2}", Some((1.0, 1.0)), (1.0, 1.0)),
    ];

    fn question(answers: &[&str]) -> Question {
        Question {
            id: String::new(),
            question: String::new(),
            context: answers.concat().into(),
            answers: answers.iter().map(|text| Answer { text: text.to_string(), start: 0 }).collect(),
            is_impossible: false,
        }
    }

    #[test]
    fn scores_equal_the_official_scripts() {
        for (gold, given, first, second) in SCORED {
            for (version_2, expected) in [(false, *first), (true, Some(*second))] {
                let rules = AnswerRules { version_2, by_character: false };
                let QuestionScores { exact_match, f1 } = question_scores(rules, &question(gold), given);
                if let Some(expected) = expected {
                    assert_eq!((exact_match, f1), expected, "{rules:?}: {gold:?} {given:?}");
                }
            }
        }
    }

    /// Two of the three characters of the first answer are given: precision 1, recall 2/3.
    #[test]
    fn ideographs_are_compared_one_by_one() {
        let chinese = ["\u{5317}\u{4eac}\u{5e02}", "1949\u{5e74}", "Paris"].map(|answer| question(&[answer]));
        let rules = AnswerRules::new(false, &chinese);
        assert!(rules.by_character && !AnswerRules::new(false, &chinese[1..]).by_character);
        let f1 = |at: usize, given: &str| question_scores(rules, &chinese[at], given).f1;
        assert!((f1(0, "\u{5317}\u{4eac}\u{3002}") - 0.8).abs() < 1e-12);
        assert_eq!((f1(1, "1949"), f1(1, "1949 \u{5e74}"), f1(2, "paris")), (2.0 / 3.0, 1.0, 1.0));
    }
}
