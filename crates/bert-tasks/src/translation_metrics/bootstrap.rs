//! Bootstrap intervals of corpus scores (Koehn, 2004): the sentences are drawn with replacement, and the runs of several
//! seeds as well.

use bert_random::{Domain, Random, Stream};
use serde::Serialize;

use super::{TranslationMetric, total};

const RESAMPLES: usize = 1000;

/// The mean score over runs, with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreSummary {
    /// The metric.
    pub metric: TranslationMetric,
    /// The score of each run.
    pub runs: Vec<f64>,
    /// The mean of the runs.
    pub mean: f64,
    /// 2.5th percentile of the mean over resamples.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
}

/// Scores the outputs of several runs on the same sentences. `references[i]` has the references of sentence `i`.
///
/// # Panics
/// Panics if there are no runs or no sentences, or if a run does not have one output for each sentence.
pub fn summarize(
    metric: TranslationMetric,
    runs: &[Vec<String>],
    references: &[Vec<String>],
) -> ScoreSummary {
    let counts: Vec<Vec<Vec<u64>>> =
        runs.iter().map(|run| sentence_counts(metric, run, references)).collect();
    let scores: Vec<f64> = counts.iter().map(|run| metric.score(&total(run.iter()))).collect();
    let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len() as f64;
    let stream = Stream::new(0, Domain::Bootstrap, &[]);
    let mut resamples: Vec<f64> = (0..RESAMPLES as u64)
        .map(|resample| {
            let mut draws = stream.branch(resample);
            let sentences: Vec<usize> =
                (0..references.len()).map(|_| draws.below(references.len())).collect();
            let run_of_draw = |_: usize| {
                let run_counts = &counts[draws.below(runs.len())];
                metric.score(&total(sentences.iter().map(|&at| &run_counts[at])))
            };
            mean(&(0..runs.len()).map(run_of_draw).collect::<Vec<f64>>())
        })
        .collect();
    resamples.sort_by(f64::total_cmp);
    let low = resamples[RESAMPLES / 40];
    let high = resamples[RESAMPLES - 1 - RESAMPLES / 40];
    ScoreSummary { metric, mean: mean(&scores), runs: scores, low, high }
}

fn sentence_counts(metric: TranslationMetric, run: &[String], references: &[Vec<String>]) -> Vec<Vec<u64>> {
    assert_eq!(run.len(), references.len(), "the outputs of a run and their references");
    let one = |(hypothesis, references): (&String, &Vec<String>)| {
        let references: Vec<&str> = references.iter().map(String::as_str).collect();
        metric.counts(hypothesis, &references)
    };
    run.iter().zip(references).map(one).collect()
}
