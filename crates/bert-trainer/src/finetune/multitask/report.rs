//! Defines `multitask.json`, the report of several tasks that were trained together.

use std::fmt;

use serde::Serialize;

use super::sampling::Sampling;
use crate::finetune::progress::TaskEpoch;

/// `multitask.json`.
#[derive(Clone, Debug, Serialize)]
pub struct MultitaskReport {
    /// How tasks were drawn.
    pub sampling: Sampling,
    /// Of `--sampling temperature`.
    pub temperature: f64,
    /// The seed.
    pub seed: u64,
    /// All tasks after each epoch.
    pub epochs: Vec<Vec<TaskEpoch>>,
}

impl fmt::Display for MultitaskReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7}{:<8}{:>7}{:>12}  on dev", "epoch", "task", "steps", "train loss")?;
        for (epoch, tasks) in self.epochs.iter().enumerate() {
            for (at, TaskEpoch { task, steps, train_loss, dev }) in tasks.iter().enumerate() {
                let epoch = if at == 0 { (epoch + 1).to_string() } else { String::new() };
                let loss = train_loss.map_or("-".to_string(), |loss| format!("{loss:.4}"));
                write!(f, "\n{epoch:<7}{task:<8}{steps:>7}{loss:>12}  {dev}")?;
            }
        }
        Ok(())
    }
}
