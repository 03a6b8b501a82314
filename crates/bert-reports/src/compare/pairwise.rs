//! Compares two fine-tunings on one dev set: `bert scores A B --paired`.
//!
//! It reads two output folders of `finetune`, or the folders of two configurations. The [`Comparison`] contains the
//! difference of the mean scores with a paired t test over examples and seeds and, for accuracy, McNemar's test for each
//! pair of seeds.

use std::path::PathBuf;

use bert_tasks::{Label, McNemar, Metric, PairedTest, Statistics, Task, paired_test, score};
use bert_training::Error;
use serde::Serialize;

use crate::compare::collect::collect;
use crate::compare::saved_answers::{DevAnswers, SeedAnswers, check_same, read_side};

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Output folders.
    pub folders: Vec<PathBuf>,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Statistics of the main metric over the seeds.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// McNemar's test for one run of each side.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SeedPair {
    /// Seed of the first side's run.
    pub first_seed: u64,
    /// Seed of the second side's run.
    pub second_seed: u64,
    /// The test.
    #[serde(flatten)]
    pub test: McNemar,
}

/// A comparison of two fine-tunings on one dev set.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The task.
    pub task: Task,
    /// Number of dev examples.
    pub examples: usize,
    /// The first side.
    pub first: Side,
    /// The second side.
    pub second: Side,
    /// Test of the main metric, first minus second.
    pub test: PairedTest,
    /// The tests of pairs of runs, if the main metric is accuracy. Runs with equal seeds form a pair; without equal
    /// seeds, runs are paired in order.
    pub mcnemar: Vec<SeedPair>,
}

/// Compares two output folders, or the folders of two configurations.
///
/// # Errors
/// Fails when there are not exactly two sides, when they were not scored on the same examples, when the main metric is
/// not computed from single answers, or when a file cannot be read.
pub fn compare(folders: &[PathBuf]) -> Result<Comparison, Error> {
    let sides: Vec<Vec<PathBuf>> = match folders {
        [first, second] => vec![vec![first.clone()], vec![second.clone()]],
        _ => {
            let groups = collect(folders)?.groups.into_iter().map(|group| group.folders).collect::<Vec<_>>();
            if groups.len() != 2 {
                let reason = format!(
                    "needs two folders, or the folders of two configurations; given are {} of {} configurations",
                    folders.len(),
                    groups.len()
                );
                return Err(Error::option("paired", reason));
            }
            groups
        }
    };
    compare_sides(&sides[0], &sides[1])
}

/// Compares the folders of two configurations; the folders of a side have different seeds.
///
/// # Errors
/// Fails as [`compare`] does, or when a side has no folder.
pub fn compare_sides(first_folders: &[PathBuf], second_folders: &[PathBuf]) -> Result<Comparison, Error> {
    let ([a, ..], [b, ..]) = (first_folders, second_folders) else {
        return Err(Error::option("paired", "a side has no folder"));
    };
    let first = read_side(first_folders)?;
    let second = read_side(second_folders)?;
    check_same(&first, a, &second, b)?;
    let metric = first.dev.task.spec().primary;
    let test = paired(metric, &first, &second)?;
    let side = |answers: &DevAnswers, folders: &[PathBuf]| {
        let value = |run: &SeedAnswers| score(&answers.dev.task, &run.answers, &answers.labels).get(metric);
        let values: Vec<f64> = answers.runs.iter().filter_map(value).collect();
        let seeds = answers.runs.iter().map(|run| run.seed).collect();
        Side { folders: folders.to_vec(), seeds, statistics: Statistics::new(&values) }
    };
    Ok(Comparison {
        task: first.dev.task.clone(),
        examples: first.labels.len(),
        mcnemar: if metric == Metric::Accuracy { seed_pairs(&first, &second) } else { Vec::new() },
        first: side(&first, first_folders),
        second: side(&second, second_folders),
        test,
    })
}

fn paired(metric: Metric, first: &DevAnswers, second: &DevAnswers) -> Result<PairedTest, Error> {
    fn runs(side: &DevAnswers) -> Vec<&[Label]> {
        side.runs.iter().map(|run| run.answers.as_slice()).collect()
    }
    let a = runs(first);
    let b = runs(second);
    paired_test(metric, &first.labels, &a, &b).ok_or_else(|| {
        let reason = format!("the {metric} of task {} is not computed from single answers", first.dev.task);
        Error::option("paired", reason)
    })
}

fn seed_pairs(first: &DevAnswers, second: &DevAnswers) -> Vec<SeedPair> {
    let with_seed = |seed: u64| second.runs.iter().find(|run| run.seed == seed);
    let mut pairs: Vec<_> = first.runs.iter().filter_map(|run| Some((run, with_seed(run.seed)?))).collect();
    if pairs.is_empty() {
        pairs = first.runs.iter().zip(&second.runs).collect();
    }
    let pairs = pairs.into_iter().map(|(a, b)| SeedPair {
        first_seed: a.seed,
        second_seed: b.seed,
        test: McNemar::new(&first.labels, &a.answers, &b.answers),
    });
    pairs.collect()
}
