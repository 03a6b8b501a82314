//! Fills in the defaults of a fine-tuning and validates its flags, each alone and in combination.

use std::collections::BTreeSet;

use bert_inference::Resolved;
use bert_model::AdapterConfig;
use bert_tasks::{Kind, Task};
use bert_training::{Error, check};

use crate::config::flag_values::Choices;
use crate::config::size_defaults::TuningDefaults;
use crate::config::{FinetuneConfig, Selection};

pub(super) const NEEDS_LABELS: &str = "works with tasks that classify or score a text or a pair";

/// Rejects the first flag that is marked as wrong.
pub(crate) fn reject_first(flags: &[(&'static str, bool)], reason: &str) -> Result<(), Error> {
    flags.iter().try_for_each(|&(flag, given)| check(!given, flag, reason))
}

pub(super) fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// Returns the single value, or the default.
fn single_value<T: Copy>(flag: &'static str, choices: &Option<Choices<T>>, default: T) -> Result<T, Error> {
    match choices.as_ref().map(Choices::values) {
        None => Ok(default),
        Some([value]) => Ok(*value),
        Some(_) => Err(Error::option(flag, "accepts one value only here")),
    }
}

impl FinetuneConfig {
    /// Fills in the defaults for BERT-base and validates the values, each alone and in combination. A grid is resolved
    /// cell by cell.
    ///
    /// # Errors
    /// Fails when the value of an option is invalid; the error names the flag.
    pub fn resolve(&self) -> Result<Resolved, Error> {
        self.resolve_with(&TuningDefaults::published(self), None)
    }

    /// Fills in these defaults for a training set with this number of items, and validates the values as
    /// [`Self::resolve`] does.
    pub(crate) fn resolve_with(
        &self,
        by_size: &TuningDefaults,
        items: Option<usize>,
    ) -> Result<Resolved, Error> {
        let defaults = self.task.spec().defaults;
        let batch_size = single_value("train_batch_size", &self.train_batch_size, defaults.train_batch_size)?;
        let (adapter_reduction, lora_rank, lora_alpha) = match self.adapter_config()? {
            None => (None, None, None),
            Some(AdapterConfig::Bottleneck { reduction_factor, .. }) => (Some(reduction_factor), None, None),
            Some(AdapterConfig::Lora { rank, alpha }) => (None, Some(rank), Some(alpha)),
        };
        let resolved = Resolved {
            num_train_epochs: single_value(
                "num_train_epochs",
                &self.num_train_epochs,
                by_size.epochs(items, batch_size),
            )?,
            train_batch_size: batch_size,
            learning_rate: single_value("learning_rate", &self.learning_rate, by_size.learning_rate)?,
            max_seq_length: self.max_seq_length.unwrap_or(defaults.max_seq_length),
            precision: self.compute.checked_precision(by_size.precision)?,
            adapter_reduction,
            lora_rank,
            lora_alpha,
        };
        check(positive(resolved.num_train_epochs), "num_train_epochs", "must be positive")?;
        check(resolved.train_batch_size > 0, "train_batch_size", "must be at least 1")?;
        check(positive(resolved.learning_rate), "learning_rate", "must be positive")?;
        check(resolved.max_seq_length >= 5, "max_seq_length", "must be at least 5")?;
        check((0.0..1.0).contains(&self.warmup_proportion), "warmup_proportion", "must be in [0, 1)")?;
        self.optimizer.check()?;
        let parts = self.gradient_accumulation_steps;
        check(
            parts > 0 && parts <= resolved.train_batch_size as u64,
            "gradient_accumulation_steps",
            "must be between 1 and `.train_batch_size`",
        )?;
        check(self.max_train_examples != Some(0), "max_train_examples", "must be at least 1")?;
        let share = self.holdout.unwrap_or(0.1);
        check(share > 0.0 && share < 1.0, "holdout", "must be between 0 and 1")?;
        check(self.patience != Some(0), "patience", "must be at least 1")?;
        check(
            self.patience.is_none() || self.select == Selection::Best,
            "patience",
            "needs `.select best`: `.select last` scores only the last epoch",
        )?;
        check(self.feature_head().is_none() || self.gives_labels(), "head", NEEDS_LABELS)?;
        let decay = self.layer_decay.unwrap_or(1.0);
        check(decay > 0.0 && decay <= 1.0, "layer_decay", "must be above 0 and at most 1")?;
        let fresh = self.random_init && self.forgetting_data.is_some();
        check(!fresh, "forgetting_data", "needs the weights of the checkpoint, without `.random_init`")?;
        self.check_fusion()?;
        self.check_files()?;
        self.question_settings()?;
        check(!self.seeds.is_empty(), "seeds", "must name at least one")?;
        let distinct: BTreeSet<&u64> = self.seeds.iter().collect();
        check(distinct.len() == self.seeds.len(), "seeds", "must differ from each other")?;
        Ok(resolved)
    }

    /// Returns whether the task assigns a class or a score to a text or a pair.
    pub(crate) fn gives_labels(&self) -> bool {
        gives_labels(&self.task)
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.task, Task::Table(_))
    }
}

/// Returns whether the answers of a task are labels or scores of texts or pairs.
pub(crate) fn gives_labels(task: &Task) -> bool {
    let spec = task.spec();
    spec.choices == 0 && matches!(spec.kind, Kind::Classification | Kind::Regression { .. })
}
