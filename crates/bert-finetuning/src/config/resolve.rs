//! Fills in the defaults of a fine-tuning and validates its flags, each alone and in combination: adapters, question
//! answering, tables.

use std::collections::BTreeSet;

use bert_inference::{Resolved, SquadArgs};
use bert_model::{AdapterConfig, BottleneckForm};
use bert_tasks::answer_spans::AnswerSettings;
use bert_tasks::windows::WindowSettings;
use bert_tasks::{Kind, Split, Task};
use bert_training::{Error, InitializationChoice, at_least_one, check, check_value};

use crate::config::flag_values::{AdapterKind, Choices};
use crate::config::grid::TuningDefaults;
use crate::config::{FinetuneConfig, Selection};

pub(super) const NEEDS_LABELS: &str = "works with tasks that classify or score a text or a pair";

/// Rejects the first flag that is marked as wrong.
pub(crate) fn reject_first(flags: &[(&'static str, bool)], reason: &str) -> Result<(), Error> {
    flags.iter().try_for_each(|&(flag, given)| check(!given, flag, reason))
}

pub(super) fn check_positive(setting: &'static str, value: f64) -> Result<(), Error> {
    check_value(value.is_finite() && value > 0.0, setting, value, "positive")
}

/// Returns the single value, or the default if the flag is absent; several values are an error.
fn single_value<T: Copy>(flag: &'static str, choices: &Option<Choices<T>>, default: T) -> Result<T, Error> {
    match choices.as_ref().map(Choices::values) {
        None => Ok(default),
        Some([value]) => Ok(*value),
        Some(_) => Err(Error::option(flag, "accepts one value only here")),
    }
}

impl FinetuneConfig {
    /// Returns the settings with the defaults for BERT-base filled in, and validates the values, each alone and in
    /// combination. A grid is resolved cell by cell.
    ///
    /// # Errors
    /// Fails when the value of an option is invalid; the error names the flag.
    pub fn resolve(&self) -> Result<Resolved, Error> {
        self.resolve_with(&TuningDefaults::published(self), None)
    }

    /// Returns the settings with these defaults filled in for a training set with this number of items, and validates
    /// the values as [`Self::resolve`] does.
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
        check_positive("num_train_epochs", resolved.num_train_epochs)?;
        at_least_one("train_batch_size", Some(resolved.train_batch_size))?;
        check_positive("learning_rate", resolved.learning_rate)?;
        let length = resolved.max_seq_length;
        check_value(length >= 5, "max_seq_length", length, "at least 5")?;
        let warmup = self.warmup_proportion;
        check_value((0.0..1.0).contains(&warmup), "warmup_proportion", warmup, "at least 0 and below 1")?;
        self.optimizer.check()?;
        let parts = self.gradient_accumulation_steps;
        check_value(
            (1..=resolved.train_batch_size as u64).contains(&parts),
            "gradient_accumulation_steps",
            parts,
            "between 1 and `.train_batch_size`",
        )?;
        at_least_one("max_train_examples", self.max_train_examples)?;
        let share = self.holdout.unwrap_or(0.1);
        check_value(share > 0.0 && share < 1.0, "holdout", share, "above 0 and below 1")?;
        at_least_one("patience", self.patience)?;
        check(
            self.patience.is_none() || self.select == Selection::Best,
            "patience",
            "needs `.select best`: `.select last` scores only the last epoch",
        )?;
        check(self.feature_head().is_none() || self.gives_labels(), "head", NEEDS_LABELS)?;
        let decay = self.layer_decay.unwrap_or(1.0);
        check_value(decay > 0.0 && decay <= 1.0, "layer_decay", decay, "above 0 and at most 1")?;
        let counts_text = self.initialization == Some(InitializationChoice::Bigram);
        let has_text = self.initialization_data.is_some();
        let wrong = [
            (self.head.is_some() && !self.freeze_encoder, "head", "needs `.freeze_encoder`"),
            (self.initialization.is_some() && !self.random_init, "initialization", "needs `.random_init`"),
            (has_text && !counts_text, "initialization_data", "needs `.initialization bigram`"),
            (counts_text && !has_text, "initialization_data", "is required with `.initialization bigram`"),
        ];
        wrong.into_iter().try_for_each(|(is_wrong, setting, reason)| check(!is_wrong, setting, reason))?;
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

impl FinetuneConfig {
    /// Returns the adapter with its defaults filled in, or `None` if the whole model or only the head is trained.
    ///
    /// # Errors
    /// Fails when a flag has an invalid value or conflicts with the others; the error names the flag.
    pub(crate) fn adapter_config(&self) -> Result<Option<AdapterConfig>, Error> {
        let adapters = &self.adapters;
        let lora = adapters.adapter == Some(AdapterKind::Lora);
        let lora_flags = [
            ("lora_rank", !lora && adapters.lora_rank.is_some()),
            ("lora_alpha", !lora && adapters.lora_alpha.is_some()),
            ("merge_lora", !lora && adapters.merge_lora),
        ];
        reject_first(&lora_flags, "works with `.adapter lora` only")?;
        check(
            adapters.adapter_reduction.is_none() || (adapters.adapter.is_some() && !lora),
            "adapter_reduction",
            "works with `.adapter pfeiffer`, houlsby or parallel only",
        )?;
        let Some(kind) = adapters.adapter else { return Ok(None) };
        check(
            !self.freeze_encoder,
            "freeze_encoder",
            "cannot be used with `.adapter`, which trains weights inside the encoder",
        )?;
        check(self.gives_labels(), "adapter", NEEDS_LABELS)?;
        check(
            !self.random_init,
            "random_init",
            "cannot be used with `.adapter`: the frozen encoder must be pre-trained",
        )?;
        let form = match kind {
            AdapterKind::Pfeiffer => BottleneckForm::Pfeiffer,
            AdapterKind::Houlsby => BottleneckForm::Houlsby,
            AdapterKind::Parallel => BottleneckForm::Parallel,
            AdapterKind::Lora => {
                let rank = adapters.lora_rank.unwrap_or(8);
                let alpha = adapters.lora_alpha.unwrap_or(8.0);
                at_least_one("lora_rank", Some(rank))?;
                check_positive("lora_alpha", alpha)?;
                return Ok(Some(AdapterConfig::Lora { rank, alpha }));
            }
        };
        let reduction_factor = adapters.adapter_reduction.unwrap_or(form.default_reduction_factor());
        let narrows = reduction_factor.is_finite() && reduction_factor >= 1.0;
        check_value(narrows, "adapter_reduction", reduction_factor, "at least 1")?;
        Ok(Some(AdapterConfig::Bottleneck { form, reduction_factor }))
    }

    /// Checks `--fusion` against the other flags.
    pub(super) fn check_fusion(&self) -> Result<(), Error> {
        if self.adapters.fusion.is_empty() {
            return Ok(());
        }
        check(self.gives_labels(), "fusion", NEEDS_LABELS)?;
        check(self.adapters.fusion.len() > 1, "fusion", "needs two adapters or more")?;
        let foreign = "cannot be used with `.random_init`: its adapters belong to the checkpoint";
        check(!self.random_init, "fusion", foreign)
    }
}

impl FinetuneConfig {
    /// Returns the settings for windows and answers of question answering, with the defaults of `run_squad.py`; `None`
    /// for other tasks.
    ///
    /// # Errors
    /// Fails when a flag has an invalid value or belongs to a different task; the error names the flag.
    pub(crate) fn question_settings(&self) -> Result<Option<(WindowSettings, AnswerSettings)>, Error> {
        let spec = self.task.spec();
        let SquadArgs { doc_stride, max_query_length, n_best_size, max_answer_length, .. } = self.squad;
        let threshold = self.squad.null_score_diff_threshold;
        let Kind::Spans { version_2 } = spec.kind else {
            let given = [
                ("doc_stride", doc_stride.is_some()),
                ("max_query_length", max_query_length.is_some()),
                ("n_best_size", n_best_size.is_some()),
                ("max_answer_length", max_answer_length.is_some()),
                ("null_score_diff_threshold", threshold.is_some()),
                ("skip_misplaced_answers", self.squad.skip_misplaced_answers),
            ];
            return reject_first(&given, "works with `.task squad` and squad2 only").map(|()| None);
        };
        check(
            version_2 || threshold.is_none(),
            "null_score_diff_threshold",
            "works with `.task squad2` only: in squad every question has an answer",
        )?;
        self.squad.check()?;
        let windows = self.squad.windows(self.max_seq_length.unwrap_or(spec.defaults.max_seq_length));
        let answers = self.squad.answers(version_2);
        let WindowSettings { max_seq_length, max_query_length, .. } = windows;
        let no_room = format!(
            "{max_seq_length} is too short: a question of {max_query_length} tokens (`.max_query_length`) and three \
             special tokens leave no room for the text"
        );
        check(max_seq_length > max_query_length + 3, "max_seq_length", &no_room)?;
        Ok(Some((windows, answers)))
    }
}

impl FinetuneConfig {
    /// Checks the flags for files and tables against the task and each other.
    pub(super) fn check_files(&self) -> Result<(), Error> {
        let table = &self.table;
        let is_table = self.is_table();
        let table_flags = [
            ("columns", !is_table && !table.columns.is_empty()),
            ("labels", !is_table && !table.labels.is_empty()),
            ("regression", !is_table && table.regression),
        ];
        reject_first(&table_flags, "works with `.task table` only")?;
        let has_official_files = self.gives_labels() && !is_table;
        let files = [
            ("train_file", has_official_files && self.train_file.is_some()),
            ("dev_file", has_official_files && self.dev_file.is_some()),
            ("test_file", has_official_files && self.test_file.is_some()),
        ];
        reject_first(&files, "works with `.task table`, squad, squad2, conll and swag only")?;
        check(
            self.test_file.is_none() || is_table || self.task.spec().has_labels(Split::Test),
            "test_file",
            "the task has no labelled test set; predict an unlabelled file with `.predict`",
        )?;
        let twice = "is a table, which is the training file: give it or `.train_file`, not both";
        check(self.data_table().is_none() || self.train_file.is_none(), "data", twice)?;
        let has_dev = self.data.is_some() || self.dev_file.is_some();
        check(has_dev, "dev_file", "is required without `.data`")?;
        let distinct: BTreeSet<&String> = table.labels.iter().collect();
        let are_valid = distinct.len() == table.labels.len() && table.labels.len() != 1;
        check(are_valid, "labels", "must be two or more that differ from each other")?;
        let are_filled = table.labels.iter().all(|label| !label.trim().is_empty());
        check(are_filled, "labels", "has an empty name")
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn config(flags: &str) -> FinetuneConfig {
        let command = FinetuneConfig::augment_args(Command::new("finetune").no_binary_name(true));
        let line = format!("--task rte --data d --checkpoint c --output o {flags}");
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        FinetuneConfig::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn adapter_defaults_match_the_adapters_library() {
        let adapter = |flags| config(flags).adapter_config().unwrap();
        let bottleneck = |form, reduction_factor| Some(AdapterConfig::Bottleneck { form, reduction_factor });
        assert_eq!(adapter(""), None);
        assert_eq!(adapter("--adapter pfeiffer"), bottleneck(BottleneckForm::Pfeiffer, 16.0));
        assert_eq!(adapter("--adapter houlsby"), bottleneck(BottleneckForm::Houlsby, 16.0));
        assert_eq!(adapter("--adapter parallel"), bottleneck(BottleneckForm::Parallel, 2.0));
        assert_eq!(adapter("--adapter lora"), Some(AdapterConfig::Lora { rank: 8, alpha: 8.0 }));
        assert_eq!(
            adapter("--adapter pfeiffer --adapter-reduction 4"),
            bottleneck(BottleneckForm::Pfeiffer, 4.0)
        );
        assert_eq!(
            adapter("--adapter lora --lora-rank 4 --lora-alpha 16"),
            Some(AdapterConfig::Lora { rank: 4, alpha: 16.0 })
        );
        let rate = |flags| config(flags).resolve().unwrap().learning_rate;
        assert_eq!(rate("--adapter houlsby"), 1e-4);
        assert_eq!(rate("--adapter lora"), 5e-4);
        assert_eq!(rate("--adapter lora --learning-rate 1e-3"), 1e-3);
    }

    #[test]
    fn conflicting_flags_are_rejected_by_name() {
        let cases = [
            ("--adapter pfeiffer --freeze-encoder", "freeze_encoder"),
            ("--adapter lora --random-init", "random_init"),
            ("--adapter lora --adapter-reduction 4", "adapter_reduction"),
            ("--adapter-reduction 4", "adapter_reduction"),
            ("--adapter houlsby --lora-rank 4", "lora_rank"),
            ("--lora-alpha 4", "lora_alpha"),
            ("--adapter parallel --merge-lora", "merge_lora"),
            ("--adapter lora --lora-rank 0", "lora_rank"),
            ("--adapter lora --lora-alpha 0", "lora_alpha"),
            ("--adapter pfeiffer --adapter-reduction 0.5", "adapter_reduction"),
            ("--adapter pfeiffer --adapter-reduction nan", "adapter_reduction"),
            ("--skip-misplaced-answers", "skip_misplaced_answers"),
        ];
        for (flags, expected) in cases {
            let error = config(flags).resolve().unwrap_err();
            assert_eq!(error.setting(), Some(expected), "{flags}: {error}");
        }
    }
}
