//! Puts the fine-tunings of one checkpoint on GLUE's nine tasks into one table, beside published models of its
//! size.
//!
//! | what | with | file |
//! |---|---|---|
//! | the table, from the reports of the fine-tunings | [`GlueTable`] | `mod.rs` |
//! | the published scores for a model's size | [`Published`] | `published.rs` |
//! | the archive for GLUE's server, from the tuned models and the test files | [`write_submission`] | `submission.rs` |

mod published;
mod submission;

use std::fmt;
use std::path::Path;

use bert_model::BertConfig;
use serde::Serialize;

pub use published::{Published, published};
pub use submission::{Submission, write_submission};

use crate::error::Error;
use crate::report_file::ReportFile;
use crate::tasks::{Metric, SeedSummary, Task};

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

/// One task's line.
#[derive(Clone, Debug, Serialize)]
pub struct GlueRow {
    /// The task.
    pub task: Task,
    /// Its seeds on dev.
    pub dev: SeedSummary,
    /// On the second dev set, of MNLI.
    pub dev_mismatched: Option<SeedSummary>,
    /// Whether train or dev is a sample, not the official file.
    pub is_sample: bool,
    /// Scores of the published model of this size on test, in percent.
    pub published: Option<&'static str>,
}

/// The table.
#[derive(Clone, Debug, Serialize)]
pub struct GlueTable {
    /// Name and parameters of the published model of the checkpoint's size, where there is one.
    pub published: Option<&'static str>,
    /// Each task.
    pub rows: Vec<GlueRow>,
    /// The mean over the tasks, each with the mean of its metrics on dev, WNLI left out as is usual; from 0 to 1.
    pub average: Option<f64>,
}

impl GlueTable {
    /// The table of fine-tunings whose output folders are `folder/TASK`.
    ///
    /// # Errors
    /// When one has no report, or it is not one of this program.
    pub fn read(folder: &Path, tasks: &[Task], model: &BertConfig) -> Result<Self, Error> {
        let published = published(model);
        let rows = tasks.iter().map(|&task| {
            let report = ReportFile::read(&folder.join(task.spec().name))?;
            Ok(GlueRow {
                task,
                dev: report.dev()?,
                dev_mismatched: report.summary("dev_mismatched")?,
                is_sample: report.value["is_sample"].as_bool() == Some(true),
                published: published.and_then(|published| published.score(task)),
            })
        });
        let rows = rows.collect::<Result<Vec<GlueRow>, Error>>()?;
        let scores: Vec<f64> =
            rows.iter().filter(|row| row.task != Task::Wnli).map(|row| mean_of_metrics(&row.dev)).collect();
        let average = (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64);
        Ok(Self { published: published.map(|published| published.name), rows, average })
    }
}

/// The mean of the task's official metrics: of CoLA the Matthews correlation alone.
fn mean_of_metrics(summary: &SeedSummary) -> f64 {
    let official = |metric: &Metric| !(summary.task == Task::Cola && *metric == Metric::Accuracy);
    let values = summary.metrics.iter().filter(|m| official(&m.metric)).map(|m| m.statistics.mean);
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

impl fmt::Display for GlueTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published = self.published.unwrap_or("no published model of this size");
        writeln!(
            f,
            "{:<7}{:<10}{:>9}{:>8}{:>9}   {published}, test",
            "task", "on dev", "mean", "sd", "majority"
        )?;
        for row in &self.rows {
            let parts = [Some(&row.dev), row.dev_mismatched.as_ref()];
            for (part, summary) in parts.into_iter().flatten().enumerate() {
                for (at, metric) in summary.metrics.iter().enumerate() {
                    let first = part == 0 && at == 0;
                    let task = if first { row.task.spec().name } else { "" };
                    let sd = metric.statistics.sd.map_or("-".to_string(), |sd| format!("{:.1}", 100.0 * sd));
                    let majority = summary.majority_baseline.get(metric.metric);
                    let majority = majority.map_or("-".to_string(), |value| format!("{:.1}", 100.0 * value));
                    let published = if first { row.published.unwrap_or("-") } else { "" };
                    let note = match (first && row.is_sample, part) {
                        (true, _) => "  (ours on samples)",
                        (_, 1) => "  (mismatched)",
                        _ => "",
                    };
                    let (name, mean) = (metric.metric.to_string(), 100.0 * metric.statistics.mean);
                    let line =
                        format!("{task:<7}{name:<10}{mean:>9.1}{sd:>8}{majority:>9}   {published}{note}");
                    writeln!(f, "{}", line.trim_end())?;
                }
            }
        }
        match self.average {
            Some(average) => write!(f, "mean of the tasks without wnli: {:.1}", 100.0 * average),
            None => Ok(()),
        }
    }
}
