//! Splits the training file into the examples to train on (all, or `--max-train-examples`) and those held out to choose
//! epochs and cells (`--holdout`). Both draws depend only on `--subset-seed`. Examples of one source are held out together:
//! the questions of a paragraph, the sentences of a document, and rows with equal texts.

use std::collections::BTreeMap;

use bert_random::{Domain, Random, Stream};
use bert_training::{Error, check};
use serde::{Deserialize, Serialize};

use crate::config::FinetuneConfig;
use crate::data::text_hashes::{Texts, groups};

/// The split of the training file, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingParts {
    /// Examples in the file.
    pub in_file: usize,
    /// Examples trained on.
    pub trained_on: usize,
    /// Examples held out.
    pub held_out: usize,
    /// Random seed of the split.
    pub subset_seed: u64,
}

impl TrainingParts {
    /// Returns a warning if the runs trained on a subset.
    pub fn warning(&self) -> Option<String> {
        let Self { in_file, trained_on, held_out, subset_seed } = *self;
        let held = if held_out > 0 { format!(", {held_out} held out for selection") } else { String::new() };
        (trained_on < in_file).then(|| {
            format!(
                "Trained on {trained_on} of the {in_file} training examples{held} (--subset-seed {subset_seed}): not \
                 comparable with results on all examples."
            )
        })
    }
}

/// The examples of the training file, divided in two; each part keeps the order of the file.
#[derive(Debug)]
pub(crate) struct DividedExamples<T> {
    pub(crate) train: Vec<T>,
    pub(crate) held_out: Vec<T>,
    pub(crate) parts: TrainingParts,
}

/// Divides the examples of the training file into examples to train on and held-out examples.
///
/// # Errors
/// Fails when a part would be empty.
pub(crate) fn divide<T: Texts>(
    config: &FinetuneConfig,
    examples: Vec<T>,
) -> Result<DividedExamples<T>, Error> {
    let in_file = examples.len();
    let limit = config.max_train_examples.unwrap_or(in_file).min(in_file);
    let stream = |domain| Stream::new(config.subset_seed, domain, &[]);
    let single = (0..in_file).map(|at| vec![at]).collect();
    let (mut train, _) = draw(examples, single, limit, stream(Domain::FinetuneSubset));
    let mut held_out = Vec::new();
    if let Some(share) = config.held_out_share() {
        let count = (share * train.len() as f64).round() as usize;
        let groups = groups(&train, |hashes| hashes.group);
        let reason = format!(
            "{share} of {} training examples leaves one part empty ({} sources are not divided); choose another fraction",
            train.len(),
            groups.len()
        );
        (held_out, train) = draw(train, groups, count, stream(Domain::FinetuneHoldout));
        check(!held_out.is_empty() && !train.is_empty(), "holdout", &reason)?;
    }
    let parts = TrainingParts {
        in_file,
        trained_on: train.len(),
        held_out: held_out.len(),
        subset_seed: config.subset_seed,
    };
    Ok(DividedExamples { train, held_out, parts })
}

/// Share of a single table that becomes dev.
const DEV_SHARE: f64 = 0.2;

/// Divides the examples of a single table into train and dev: a fifth of the sources of each class becomes dev. The
/// draw depends on `--subset-seed` alone.
///
/// # Errors
/// Fails when dev would be empty.
pub(crate) fn divide_table<T: Texts>(
    config: &FinetuneConfig,
    examples: Vec<T>,
) -> Result<(Vec<T>, Vec<T>), Error> {
    let mut by_class: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
    let count = examples.len();
    let groups = groups(&examples, |hashes| hashes.group);
    let reason = format!(
        "the table has {count} examples with {} different texts, which is too few to divide them into train and dev, because equal \
         texts stay together; name two files",
        groups.len()
    );
    for group in groups {
        by_class.entry(examples[group[0]].class()).or_default().push(group);
    }
    let mut stream = Stream::new(config.subset_seed, Domain::FinetuneHoldout, &[1]);
    let mut is_dev = vec![false; examples.len()];
    for mut groups in by_class.into_values() {
        stream.shuffle(&mut groups);
        let rows: usize = groups.iter().map(Vec::len).sum();
        let mut left = (DEV_SHARE * rows as f64).round() as usize;
        // One source of each class always stays in train.
        for group in groups.iter().skip(1) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(group.len());
            group.iter().for_each(|&at| is_dev[at] = true);
        }
    }
    let mut is_dev = is_dev.into_iter();
    let (dev, train): (Vec<T>, Vec<T>) = examples.into_iter().partition(|_| is_dev.next() == Some(true));
    check(!dev.is_empty() && !train.is_empty(), "data", &reason)?;
    Ok((train, dev))
}

/// Draws whole groups in random order until they have at least `count` examples, and returns their examples and the
/// other examples. With the same stream, larger subsets contain the smaller ones.
fn draw<T>(
    examples: Vec<T>,
    mut groups: Vec<Vec<usize>>,
    count: usize,
    mut stream: Stream,
) -> (Vec<T>, Vec<T>) {
    stream.shuffle(&mut groups);
    let mut chosen = vec![false; examples.len()];
    let mut left = count;
    for group in groups {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(group.len());
        group.into_iter().for_each(|at| chosen[at] = true);
    }
    let mut chosen = chosen.into_iter();
    examples.into_iter().partition(|_| chosen.next() == Some(true))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bert_tasks::{Example, Label};

    pub(crate) fn config(flags: &[&str]) -> FinetuneConfig {
        use clap::{Args, FromArgMatches};
        let always = ["--task", "rte", "--data", "d", "--checkpoint", "c", "--output", "o"];
        let command = FinetuneConfig::augment_args(clap::Command::new("t").no_binary_name(true));
        let command = command.args_override_self(true);
        let matches = command.try_get_matches_from([&always[..], flags].concat()).unwrap();
        FinetuneConfig::from_arg_matches(&matches).unwrap()
    }

    fn examples(count: usize) -> Vec<Example> {
        let label = |at| Some(Label::Class(at % 2));
        let one = |at: usize| Example {
            index: at.to_string(),
            text_a: at.to_string(),
            text_b: None,
            choices: vec![],
            label: label(at),
        };
        (0..count).map(one).collect()
    }

    fn parts(flags: &[&str]) -> (Vec<usize>, Vec<usize>) {
        let divided = divide(&config(flags), examples(100)).unwrap();
        let numbers = |of: Vec<Example>| of.iter().map(|example| example.index.parse().unwrap()).collect();
        (numbers(divided.train), numbers(divided.held_out))
    }

    #[test]
    fn larger_subsets_contain_smaller_ones() {
        let (small, _) = parts(&["--max-train-examples", "10"]);
        let (large, _) = parts(&["--max-train-examples", "40"]);
        assert!(small.len() == 10 && large.len() == 40 && small.is_sorted());
        assert!(small.iter().all(|example| large.contains(example)));
        assert_ne!(small, (0..10).collect::<Vec<_>>());
        assert_ne!(small, parts(&["--max-train-examples", "10", "--subset-seed", "2"]).0);
        // The seeds of the runs do not affect the split.
        assert_eq!(small, parts(&["--max-train-examples", "10", "--seeds", "8,9"]).0);
        assert_eq!(parts(&["--max-train-examples", "1000"]).0, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn held_out_examples_are_not_trained_on() {
        let (train, held) = parts(&["--holdout", "0.2", "--max-train-examples", "50"]);
        assert_eq!((train.len(), held.len()), (40, 10));
        let mut both = [train, held].concat();
        both.sort_unstable();
        assert_eq!(both, parts(&["--max-train-examples", "50"]).0);
        let none = divide(&config(&["--holdout", "0.001"]), examples(100)).unwrap_err();
        assert_eq!(
            none.to_string(),
            "`.holdout`: 0.001 of 100 training examples leaves one part empty (100 sources are not divided); choose another fraction"
        );
    }

    #[test]
    fn equal_rows_are_not_divided() {
        let rows: Vec<Example> = (0..60).map(|at| Example::from_text(format!("text {}", at % 20))).collect();
        let divided = divide(&config(&["--holdout", "0.3"]), rows).unwrap();
        let texts = |of: &[Example]| {
            of.iter().map(|row| row.text_a.clone()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!((divided.train.len(), divided.held_out.len()), (42, 18));
        assert!(texts(&divided.train).is_disjoint(&texts(&divided.held_out)));
        let equal: Vec<Example> = (0..60).map(|_| Example::from_text("text")).collect();
        let error = divide(&config(&["--holdout", "0.3"]), equal).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "`.holdout`: 0.3 of 60 training examples leaves one part empty (1 sources are not divided)"
            ),
            "{error}"
        );
    }

    #[test]
    fn training_on_a_subset_gives_a_warning() {
        let warning = |flags: &[&str]| divide(&config(flags), examples(100)).unwrap().parts.warning();
        assert_eq!(warning(&[]), None);
        let text = warning(&["--holdout", "0.1"]).unwrap();
        assert!(
            text.starts_with("Trained on 90 of the 100 training examples, 10 held out for selection"),
            "{text}"
        );
    }

    #[test]
    fn table_is_divided_by_class_and_text() {
        let row = |at: usize| Example {
            index: at.to_string(),
            // Every text occurs twice.
            text_a: format!("text {}", at / 2),
            text_b: None,
            choices: vec![],
            label: Some(Label::Class(usize::from(at >= 80))),
        };
        let (train, dev) = divide_table(&config(&[]), (0..100).map(row).collect()).unwrap();
        let count = |rows: &[Example], class| rows.iter().filter(|row| row.class() == class).count();
        assert_eq!([count(&dev, 0), count(&dev, 1)], [16, 4]);
        assert_eq!([count(&train, 0), count(&train, 1)], [64, 16]);
        assert!(dev.iter().all(|row| train.iter().all(|other| other.text_a != row.text_a)));
        let other = divide_table(&config(&["--subset-seed", "5"]), (0..100).map(row).collect()).unwrap().1;
        assert_ne!(dev, other);
        assert!(divide_table(&config(&[]), vec![row(0), row(1)]).is_err());
    }
}
