//! Reads the predictions of a finished fine-tuning on dev from its output folder.
//!
//! `dev_labels.tsv` has the names and labels of the examples, and each seed's `dev_predictions.tsv` has the predictions
//! in the same order. The predictions of a regression are read from `dev_probabilities.tsv`, which has all digits.

use std::path::{Path, PathBuf};

use bert_finetuning::{DEV_LABELS, FinetuneReport};
use bert_storage::{exists, read_limited};
use bert_tasks::{Kind, Label, SeedSummary, Task};
use bert_training::{Error, damaged};

/// Maximum file size.
const LARGEST: u64 = 1 << 30;

/// The predictions of a fine-tuning's runs on dev.
pub(crate) struct DevAnswers {
    /// The scores in the report.
    pub(crate) dev: SeedSummary,
    /// The name of each example in the task's file: its index or row.
    names: Vec<String>,
    /// The labels.
    pub(crate) labels: Vec<Label>,
    pub(crate) runs: Vec<SeedAnswers>,
    /// Digest of texts and labels.
    digest: String,
}

/// The predictions of one run, in the order of the labels.
pub(crate) struct SeedAnswers {
    pub(crate) seed: u64,
    pub(crate) answers: Vec<Label>,
}

/// Reads the predictions in an output folder of `finetune`.
///
/// # Errors
/// Fails when the folder has no finished fine-tuning, when the task has no labels to compare, or when a file cannot be
/// read or is damaged; the error names the file and the line.
fn read_answers(folder: &Path) -> Result<DevAnswers, Error> {
    let FinetuneReport { dev, dev_digest, .. } = FinetuneReport::read(folder)?;
    if matches!(dev.task.spec().kind, Kind::Spans { .. } | Kind::Tags) {
        let reason = format!("{}: task {} has no labels to compare", folder.display(), dev.task);
        return Err(Error::option("paired", reason));
    }
    let files = Files { task: dev.task.clone(), folder: folder.to_path_buf(), examples: dev.examples };
    let (names, labels) = files.labels()?;
    let runs =
        dev.runs.iter().map(|run| Ok(SeedAnswers { seed: run.seed, answers: files.answers(run.seed)? }));
    let runs = runs.collect::<Result<Vec<_>, Error>>()?;
    if runs.is_empty() {
        return Err(damaged(&folder.join("report.json"), "the report has no runs"));
    }
    Ok(DevAnswers { dev, names, labels, runs, digest: dev_digest })
}

/// The files in the output folder of a fine-tuning.
struct Files {
    task: Task,
    folder: PathBuf,
    examples: usize,
}

impl Files {
    /// Returns the names and labels of the dev examples.
    fn labels(&self) -> Result<(Vec<String>, Vec<Label>), Error> {
        let mut names = Vec::new();
        let mut labels = Vec::new();
        for (line, text) in self.lines(DEV_LABELS, 1)? {
            let (name, label) = text.split_once('\t').unwrap_or((&text, ""));
            names.push(name.to_string());
            labels.push(self.label(DEV_LABELS, line, label)?);
        }
        self.check_count(DEV_LABELS, labels.len())?;
        Ok((names, labels))
    }

    /// Returns the predictions of a seed.
    fn answers(&self, seed: u64) -> Result<Vec<Label>, Error> {
        let spec = self.task.spec();
        let (kind, header, answer): (&str, usize, fn(&str) -> &str) =
            match (spec.kind, spec.predicts_in_rows()) {
                (Kind::Regression { .. }, _) => ("probabilities", 0, |line| line),
                (_, true) => ("predictions", 1, |line| line.split('\t').nth(1).unwrap_or_default()),
                // minBERT's format: the prediction, then the text.
                (_, false) => ("predictions", 0, |line| line.split(" ||| ").next().unwrap_or_default()),
            };
        let file = format!("seed-{seed}/dev_{kind}.tsv");
        let lines = self.lines(&file, header)?.into_iter();
        let answers = lines.map(|(line, text)| {
            let answer = self.label(&file, line, answer(&text))?;
            Ok::<_, Error>(self.task.as_written(answer))
        });
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        self.check_count(&file, answers.len())?;
        Ok(answers)
    }

    fn check_count(&self, file: &str, found: usize) -> Result<(), Error> {
        let expected = self.examples;
        if found == expected {
            Ok(())
        } else {
            Err(self.wrong(file, found as u64, format!("{found} examples, but report.json has {expected}")))
        }
    }

    fn label(&self, file: &str, line: u64, text: &str) -> Result<Label, Error> {
        let label = match self.task.spec().kind {
            Kind::Classification => self.task.labels().position(|label| label == text).map(Label::Class),
            Kind::Regression { .. } => text.parse().ok().map(Label::Score),
            Kind::Spans { .. } | Kind::Tags => None,
        };
        label.ok_or_else(|| self.wrong(file, line, format!("{text:?} is not a label of task {}", self.task)))
    }

    /// Returns the lines of a file with their numbers from 1, without the first `header` lines.
    fn lines(&self, file: &str, header: usize) -> Result<Vec<(u64, String)>, Error> {
        let path = self.folder.join(file);
        if !exists(&path)? {
            let reason = "this file is missing: restore it, or fine-tune again";
            return Err(self.wrong(file, 0, reason.to_string()));
        }
        let bytes = read_limited(&path, LARGEST).map_err(Error::io("read", &path))?;
        let text = String::from_utf8(bytes).map_err(|_| self.wrong(file, 1, "invalid UTF-8".to_string()))?;
        let lines = (1..).zip(text.split_terminator('\n')).skip(header);
        Ok(lines.map(|(number, line)| (number, line.to_string())).collect())
    }

    /// Returns the error for a line, counted from 1, or for the whole file if `line` is 0.
    fn wrong(&self, file: &str, line: u64, reason: String) -> Error {
        let error = Error::data(reason);
        let path = self.folder.join(file);
        if line == 0 { error.at(path) } else { error.at_line(path, line) }
    }
}

/// Reads the predictions in the folders of one configuration and combines them by seed.
pub(crate) fn read_side(folders: &[PathBuf]) -> Result<DevAnswers, Error> {
    let mut all = read_answers(&folders[0])?;
    for folder in &folders[1..] {
        let more = read_answers(folder)?;
        check_same(&all, &folders[0], &more, folder)?;
        all.runs.extend(more.runs);
    }
    all.runs.sort_by_key(|run| run.seed);
    Ok(all)
}

/// Returns the error for a dev set that differs from the dev set of the first folder.
pub(crate) fn another_dev_set(first: &Path, path: &Path, difference: &str) -> Error {
    let first = first.display();
    Error::usage(format!(
        "not the same dev set as {first}: {difference}; scores are compared on the same examples only"
    ))
    .at(path)
}

/// Rejects scores on different tasks, with different classes, or on sets of different sizes. The columns of a table and
/// the range of its training scores may differ.
pub(crate) fn check_sets(
    first: &SeedSummary,
    first_path: &Path,
    other: &SeedSummary,
    path: &Path,
) -> Result<(), Error> {
    let kind = |dev: &SeedSummary| {
        let spec = dev.task.spec();
        (dev.examples, spec.name, spec.metrics)
    };
    if kind(first) == kind(other) {
        if first.task.labels().eq(other.task.labels()) {
            return Ok(());
        }
        let [one, two] = [first, other].map(|set| set.task.labels().collect::<Vec<_>>().join(", "));
        let difference = format!(
            "its classes are {two}, those of the first folder are {one} (`.labels` of a fine-tuning names them)"
        );
        return Err(another_dev_set(first_path, path, &difference));
    }
    let problem = Error::usage(format!(
        "{} on {} examples, but the first folder has {} on {}: scores on different sets cannot be combined",
        other.task, other.examples, first.task, first.examples
    ));
    Err(problem.at(path))
}

/// Rejects predictions for different examples.
pub(crate) fn check_same(
    first: &DevAnswers,
    first_path: &Path,
    second: &DevAnswers,
    path: &Path,
) -> Result<(), Error> {
    check_sets(&first.dev, first_path, &second.dev, path)?;
    let rows = first.names.iter().zip(&first.labels).zip(second.names.iter().zip(&second.labels));
    if let Some((row, _)) = rows.enumerate().find(|(_, (a, b))| a != b) {
        let difference = format!("row {row} has another example or another label");
        return Err(another_dev_set(first_path, path, &difference));
    }
    if first.digest != second.digest {
        return Err(another_dev_set(first_path, path, "the texts differ"));
    }
    Ok(())
}
