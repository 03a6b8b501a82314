//! Configures a multi-task training.

use std::path::PathBuf;

use bert_tasks::Task;
use bert_training::{Error, check};

use crate::config::flag_values::Choices;
use crate::config::resolve::{gives_labels, reject_first};
use crate::config::size_defaults::TuningDefaults;
use crate::config::{FinetuneConfig, Selection, grid};
use crate::run::task_draw::Sampling;

/// The configuration of a multi-task training.
#[derive(Clone, Debug)]
pub struct MultitaskConfig {
    /// The configuration of each task. Number of epochs, batch size and learning rate come from the first.
    pub tasks: Vec<FinetuneConfig>,
    /// The sampling of tasks.
    pub sampling: Sampling,
    /// The temperature for [`Sampling::Temperature`].
    pub temperature: f64,
    /// Output folder; contains a folder for each task.
    pub output: PathBuf,
}

/// Returns whether a flag makes a grid.
fn has_several<T>(choices: &Option<Choices<T>>) -> bool {
    choices.as_ref().is_some_and(|choices| choices.values().len() > 1)
}

impl MultitaskConfig {
    /// Rejects options that do not support several tasks.
    ///
    /// # Errors
    /// Fails when an option is invalid or does not support several tasks; the error names the flag.
    pub fn check(&self) -> Result<(), Error> {
        check(self.temperature.is_finite() && self.temperature >= 1.0, "temperature", "must be at least 1")?;
        for (at, config) in self.tasks.iter().enumerate() {
            if !config.gives_labels() || config.is_table() {
                let tasks = Task::ALL.into_iter().filter(gives_labels);
                let names: Vec<String> = tasks.map(|task| task.to_string()).collect();
                let reason =
                    format!("{} cannot be trained with other tasks; use {}", config.task, names.join(", "));
                return Err(Error::option("tasks", reason));
            }
            let is_new = self.tasks[..at].iter().all(|other| other.task != config.task);
            check(is_new, "tasks", "must differ from each other")?;
            let given = [
                ("adapter", config.adapters.adapter.is_some()),
                ("fusion", !config.adapters.fusion.is_empty()),
                ("freeze_encoder", config.freeze_encoder),
                // A grid holds out a share by default, so this check comes first.
                ("learning_rate", has_several(&config.learning_rate)),
                ("train_batch_size", has_several(&config.train_batch_size)),
                ("num_train_epochs", has_several(&config.num_train_epochs)),
                ("holdout", config.held_out_share().is_some()),
                ("patience", config.patience.is_some()),
                ("predict", config.predict.is_some()),
                ("forgetting_data", config.forgetting_data.is_some()),
                ("keep_seeds", config.keep_seeds),
                ("seeds", config.seeds.len() > 1),
            ];
            reject_first(&given, "works with one task only")?;
            let last = config.select == Selection::Last;
            check(last, "select", "is last: the best epoch differs between tasks")?;
            grid::cells(config, &TuningDefaults::published(config), None)?;
        }
        check(self.tasks.len() > 1, "tasks", "must be two or more")
    }
}
