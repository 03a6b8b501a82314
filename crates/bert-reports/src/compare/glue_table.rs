//! Combines the fine-tunings of one checkpoint on GLUE's nine tasks into one table, next to published scores of a model
//! of the same size: [`GlueTable`].

use std::path::Path;

use bert_finetuning::FinetuneReport;
use bert_model::BertConfig;
use bert_tasks::{Metric, SeedSummary, Task};
use bert_training::Error;
use serde::Serialize;

/// The tasks of GLUE, in the order of its leaderboard.
pub const TASKS: [Task; 9] = [
    Task::Cola,
    Task::Sst2,
    Task::Mrpc,
    Task::Stsb,
    Task::Qqp,
    Task::Mnli,
    Task::Qnli,
    Task::Rte,
    Task::Wnli,
];

/// Name, layers and hidden size of each published model, and its scores in percent on GLUE's test sets in the order of
/// [`TASKS`]. The scores of tiny to medium are from the table in google-research/bert's README (best of 20 settings on
/// dev, 4 epochs), the scores of base and large from table 1 of the paper. The score of QQP and MRPC is F1, and the
/// score of STS-B is Spearman's correlation.
const PUBLISHED: [(&str, (usize, usize), &str); 6] = [
    ("BERT-tiny", (2, 128), "0.0 83.2 81.1/71.1 74.3/73.6 62.2/83.4 70.2/70.3 81.5 57.2 62.3"),
    ("BERT-mini", (4, 256), "0.0 85.9 81.1/71.8 75.4/73.3 66.4/86.2 74.8/74.3 84.1 57.9 62.3"),
    ("BERT-small", (4, 512), "27.8 89.7 83.4/76.2 78.8/77.0 68.1/87.0 77.6/77.0 86.4 61.8 62.3"),
    ("BERT-medium", (8, 512), "38.0 89.6 86.6/81.6 80.4/78.4 69.6/87.9 80.0/79.1 87.7 62.2 62.3"),
    ("BERT-base", (12, 768), "52.1 93.5 88.9 -/85.8 71.2 84.6/83.4 90.5 66.4 -"),
    ("BERT-large", (24, 1024), "60.5 94.9 89.3 -/86.5 72.1 86.7/85.9 92.7 70.1 -"),
];

/// Returns the name and the scores of the published model of this size.
fn published(model: &BertConfig) -> Option<(&'static str, &'static str)> {
    let size = (model.num_hidden_layers, model.hidden_size);
    let (name, _, scores) = PUBLISHED.into_iter().find(|(_, of, _)| *of == size)?;
    Some((name, scores))
}

/// Returns a published model's score for a task, if there is one.
fn score_of(task: &Task, scores: &'static str) -> Option<&'static str> {
    let at = TASKS.iter().position(|of| of == task)?;
    scores.split(' ').nth(at).filter(|score| *score != "-")
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GlueRow {
    /// The task.
    pub task: Task,
    /// Scores on dev over the seeds.
    pub dev: SeedSummary,
    /// Scores on the second dev set, for MNLI.
    pub dev_mismatched: Option<SeedSummary>,
    /// Whether train or dev is a sample instead of the official file.
    pub is_sample: bool,
    /// Test scores of the published model of this size, in percent.
    pub published: Option<&'static str>,
}

/// The GLUE table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GlueTable {
    /// Name of the published model of the checkpoint's size, if there is one.
    pub published: Option<&'static str>,
    /// One row per task.
    pub rows: Vec<GlueRow>,
    /// Mean metric on dev, averaged over all tasks except WNLI, as is usual; from 0 to 1.
    pub average: Option<f64>,
}

impl GlueTable {
    /// Reads the reports in the output folders `folder/TASK`.
    ///
    /// # Errors
    /// Fails when a report is missing, or this program did not write it.
    pub fn read(folder: &Path, tasks: &[Task], model: &BertConfig) -> Result<Self, Error> {
        let published = published(model);
        let rows = tasks.iter().map(|task| {
            let report = FinetuneReport::read(&folder.join(task.spec().name))?;
            Ok(GlueRow {
                task: task.clone(),
                dev: report.dev,
                dev_mismatched: report.dev_mismatched,
                is_sample: report.is_sample,
                published: published.and_then(|(_, scores)| score_of(task, scores)),
            })
        });
        let rows = rows.collect::<Result<Vec<GlueRow>, Error>>()?;
        let scores: Vec<f64> = rows.iter().filter(|row| row.task != Task::Wnli).map(GlueRow::mean).collect();
        let average = (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64);
        Ok(Self { published: published.map(|(name, _)| name), rows, average })
    }
}

impl GlueRow {
    /// Returns the mean of the task's official metrics, over both dev sets of MNLI.
    fn mean(&self) -> f64 {
        let sets = [Some(&self.dev), self.dev_mismatched.as_ref()].into_iter().flatten();
        let means: Vec<f64> = sets.map(mean_of_metrics).collect();
        means.iter().sum::<f64>() / means.len() as f64
    }
}

/// Returns the mean of the task's official metrics; for CoLA, the Matthews correlation only.
fn mean_of_metrics(summary: &SeedSummary) -> f64 {
    let official = |metric: &Metric| !(summary.task == Task::Cola && *metric == Metric::Accuracy);
    let values = summary.metrics.iter().filter(|m| official(&m.metric)).map(|m| m.statistics.mean);
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use bert_model::Preset;

    use super::*;

    #[test]
    fn scores_are_those_of_the_task() {
        let of = |preset, task| score_of(&task, published(&BertConfig::preset(preset, 100)).unwrap().1);
        assert_eq!(of(Preset::Tiny, Task::Sst2), Some("83.2"));
        assert_eq!(of(Preset::Mini, Task::Rte), Some("57.9"));
        assert_eq!(of(Preset::Base, Task::Wnli), None);
        assert_eq!(of(Preset::Base, Task::Rte), Some("66.4"));
        // The paper gives Spearman's correlation only.
        assert_eq!(of(Preset::Base, Task::Stsb), Some("-/85.8"));
        assert_eq!(of(Preset::Tiny, Task::Snli), None);
        let odd = BertConfig { hidden_size: 64, ..BertConfig::preset(Preset::Tiny, 100) };
        assert_eq!(published(&odd), None);
    }
}
