//! Fills in the defaults of a fine-tuning and validates its flags, each alone and in combination.

use std::collections::BTreeSet;

use bert_model::{AdapterConfig, BottleneckForm};
use serde::{Deserialize, Serialize};

use super::flag_values::Choices;
use crate::compute::precision::PrecisionChoice;
use crate::error::Error;
use crate::finetune::config::{AdapterKind, FinetuneConfig, Selection};
use bert_tasks::decode::answer_spans::AnswerSettings;
use bert_tasks::encode::windows::WindowSettings;
use bert_tasks::{Kind, Split, Task};

const NEEDS_LABELS: &str = "works with tasks that classify or score a text or a pair";

/// The configuration with the task's defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// Number of epochs.
    pub num_train_epochs: f64,
    /// Batch size.
    pub train_batch_size: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Maximum sequence length.
    pub max_seq_length: usize,
    /// Precision of matrix products.
    #[serde(default)]
    pub precision: PrecisionChoice,
    /// Hidden size divided by the bottleneck size of an adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_reduction: Option<f64>,
    /// Rank of LoRA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora_rank: Option<usize>,
    /// LoRA alpha: the update is scaled by alpha / rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora_alpha: Option<f64>,
}

impl Resolved {
    /// Returns the batch size for a set of `items` items: at most `items`, so that a step never repeats one.
    pub(crate) fn batch_of(&self, items: usize) -> usize {
        self.train_batch_size.min(items)
    }

    /// Returns a warning if the batch is larger than the set.
    pub(crate) fn batch_warning(&self, items: usize) -> Option<String> {
        (self.train_batch_size > items).then(|| {
            format!(
                "--train-batch-size {} is larger than the training set: each step uses all {items} examples",
                self.train_batch_size
            )
        })
    }
}

/// Rejects a flag if `good` is false.
pub(crate) fn check(good: bool, flag: &'static str, reason: &str) -> Result<(), Error> {
    match good {
        true => Ok(()),
        false => Err(Error::Configuration { flag, reason: reason.to_string() }),
    }
}

/// Rejects the first flag that is marked as wrong.
pub(crate) fn refuse_first(flags: &[(&'static str, bool)], reason: &str) -> Result<(), Error> {
    flags.iter().try_for_each(|&(flag, given)| check(!given, flag, reason))
}

fn positive(x: f64) -> bool {
    x.is_finite() && x > 0.0
}

/// Returns the single value, or the default.
fn one_of<T: Copy>(flag: &'static str, choices: &Option<Choices<T>>, default: T) -> Result<T, Error> {
    match choices.as_ref().map(Choices::values) {
        None => Ok(default),
        Some([value]) => Ok(*value),
        Some(_) => Err(Error::Configuration { flag, reason: "accepts one value only here".to_string() }),
    }
}

impl FinetuneConfig {
    /// Fills in the task's defaults and validates the values, each alone and in combination. A grid is resolved cell by
    /// cell.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming the flag.
    pub fn resolve(&self) -> Result<Resolved, Error> {
        let defaults = self.task.spec().defaults;
        let (adapter_reduction, lora_rank, lora_alpha) = match self.adapter_config()? {
            None => (None, None, None),
            Some(AdapterConfig::Bottleneck { reduction_factor, .. }) => (Some(reduction_factor), None, None),
            Some(AdapterConfig::Lora { rank, alpha }) => (None, Some(rank), Some(alpha)),
        };
        let fused = !self.fusion.is_empty();
        // Rates of the `adapters` library's examples; for LoRA, the rate that its paper uses on RTE.
        let learning_rate = match (self.adapter, self.freeze_encoder) {
            _ if fused => 5e-5,
            (Some(AdapterKind::Lora), _) => 5e-4,
            (Some(_), _) => 1e-4,
            (None, true) => defaults.frozen_learning_rate,
            (None, false) => defaults.learning_rate,
        };
        let resolved = Resolved {
            num_train_epochs: one_of("num-train-epochs", &self.num_train_epochs, defaults.num_train_epochs)?,
            train_batch_size: one_of("train-batch-size", &self.train_batch_size, defaults.train_batch_size)?,
            learning_rate: one_of("learning-rate", &self.learning_rate, learning_rate)?,
            max_seq_length: self.max_seq_length.unwrap_or(defaults.max_seq_length),
            precision: PrecisionChoice::or_default(self.precision, self.device),
            adapter_reduction,
            lora_rank,
            lora_alpha,
        };
        check(positive(resolved.num_train_epochs), "num-train-epochs", "must be positive")?;
        check(resolved.train_batch_size > 0, "train-batch-size", "must be at least 1")?;
        check(positive(resolved.learning_rate), "learning-rate", "must be positive")?;
        check(resolved.max_seq_length >= 5, "max-seq-length", "must be at least 5")?;
        check((0.0..1.0).contains(&self.warmup_proportion), "warmup-proportion", "must be in [0, 1)")?;
        let (decay, norm) = (self.weight_decay, self.max_gradient_norm);
        check(decay.is_finite() && decay >= 0.0, "weight-decay", "must not be negative")?;
        check(positive(self.adam_epsilon), "adam-epsilon", "must be positive")?;
        check(norm.is_finite() && norm >= 0.0, "max-gradient-norm", "must not be negative")?;
        resolved.precision.check(self.device, self.kernels)?;
        let parts = self.gradient_accumulation_steps;
        check(
            parts > 0 && parts <= resolved.train_batch_size as u64,
            "gradient-accumulation-steps",
            "must be between 1 and --train-batch-size",
        )?;
        check(self.max_train_examples != Some(0), "max-train-examples", "must be at least 1")?;
        let share = self.holdout.unwrap_or(0.1);
        check(share > 0.0 && share < 1.0, "holdout", "must be between 0 and 1")?;
        check(self.patience != Some(0), "patience", "must be at least 1")?;
        check(
            self.patience.is_none() || self.select == Selection::Best,
            "patience",
            "needs --select best: --select last scores only the last epoch",
        )?;
        check(self.feature_head().is_none() || self.gives_labels(), "head", NEEDS_LABELS)?;
        let decay = self.layer_decay.unwrap_or(1.0);
        check(decay > 0.0 && decay <= 1.0, "layer-decay", "must be above 0 and at most 1")?;
        check(!fused || self.gives_labels(), "fusion", NEEDS_LABELS)?;
        check(self.fusion.len() != 1, "fusion", "needs two adapters or more")?;
        let foreign = "cannot be used with --random-init: its adapters belong to the checkpoint";
        check(!(fused && self.random_init), "fusion", foreign)?;
        self.check_files()?;
        self.question_settings()?;
        check(!self.seeds.is_empty(), "seeds", "must name at least one")?;
        let distinct: BTreeSet<&u64> = self.seeds.iter().collect();
        check(distinct.len() == self.seeds.len(), "seeds", "must differ from each other")?;
        Ok(resolved)
    }

    /// Returns whether the task assigns a class or a score to a text or a pair.
    pub(crate) fn gives_labels(&self) -> bool {
        let spec = self.task.spec();
        spec.choices == 0 && matches!(spec.kind, Kind::Classification { .. } | Kind::Regression { .. })
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.task, Task::Table(_))
    }

    /// Returns the adapter with its defaults filled in, or `None` if the whole model or only the head is trained.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming a flag that conflicts with the others.
    pub(crate) fn adapter_config(&self) -> Result<Option<AdapterConfig>, Error> {
        let lora = self.adapter == Some(AdapterKind::Lora);
        let of_lora = [
            ("lora-rank", !lora && self.lora_rank.is_some()),
            ("lora-alpha", !lora && self.lora_alpha.is_some()),
            ("merge-lora", !lora && self.merge_lora),
        ];
        refuse_first(&of_lora, "works with --adapter lora only")?;
        check(
            self.adapter_reduction.is_none() || (self.adapter.is_some() && !lora),
            "adapter-reduction",
            "works with --adapter pfeiffer, houlsby or parallel only",
        )?;
        let Some(kind) = self.adapter else { return Ok(None) };
        check(
            !self.freeze_encoder,
            "freeze-encoder",
            "cannot be used with --adapter, which trains weights inside the encoder",
        )?;
        check(self.gives_labels(), "adapter", NEEDS_LABELS)?;
        check(
            !self.random_init,
            "random-init",
            "cannot be used with --adapter: the frozen encoder must be pre-trained",
        )?;
        let form = match kind {
            AdapterKind::Pfeiffer => BottleneckForm::Pfeiffer,
            AdapterKind::Houlsby => BottleneckForm::Houlsby,
            AdapterKind::Parallel => BottleneckForm::Parallel,
            AdapterKind::Lora => {
                let (rank, alpha) = (self.lora_rank.unwrap_or(8), self.lora_alpha.unwrap_or(8.0));
                check(rank > 0, "lora-rank", "must be at least 1")?;
                check(positive(alpha), "lora-alpha", "must be positive")?;
                return Ok(Some(AdapterConfig::Lora { rank, alpha }));
            }
        };
        let reduction_factor = self.adapter_reduction.unwrap_or(form.default_reduction_factor());
        let narrows = reduction_factor.is_finite() && reduction_factor >= 1.0;
        check(narrows, "adapter-reduction", "must be at least 1")?;
        Ok(Some(AdapterConfig::Bottleneck { form, reduction_factor }))
    }

    /// Checks the flags for files and tables against the task and each other.
    fn check_files(&self) -> Result<(), Error> {
        let is_table = self.is_table();
        let of_table = [
            ("columns", !is_table && !self.columns.is_empty()),
            ("labels", !is_table && !self.labels.is_empty()),
            ("regression", !is_table && self.regression),
        ];
        refuse_first(&of_table, "works with --task table only")?;
        let official = self.gives_labels() && !is_table;
        let files = [
            ("train-file", official && self.train_file.is_some()),
            ("dev-file", official && self.dev_file.is_some()),
            ("test-file", official && self.test_file.is_some()),
        ];
        refuse_first(&files, "works with --task table, squad, squad2, conll and swag only")?;
        check(
            self.test_file.is_none() || is_table || self.task.spec().has_labels(Split::Test),
            "test-file",
            "the task has no labelled test set; predict an unlabelled file with --predict",
        )?;
        let needed = "is required with --task table: TEXT,LABEL or TEXT,TEXT_B,LABEL";
        check(!is_table || !self.columns.is_empty(), "columns", needed)?;
        let some_dev = self.data.is_some() || self.dev_file.is_some();
        check(some_dev, "dev-file", "is required without --data")?;
        let distinct: BTreeSet<&String> = self.labels.iter().collect();
        let several = distinct.len() == self.labels.len() && self.labels.len() != 1;
        check(several, "labels", "must be two or more that differ from each other")
    }

    /// Returns the settings for windows and answers of question answering, with the defaults of `run_squad.py`; `None`
    /// for other tasks.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming a flag that is wrong or belongs to another task.
    pub(crate) fn question_settings(&self) -> Result<Option<(WindowSettings, AnswerSettings)>, Error> {
        let spec = self.task.spec();
        let threshold = self.null_score_diff_threshold;
        let Kind::Spans { version_2 } = spec.kind else {
            let given = [
                ("doc-stride", self.doc_stride.is_some()),
                ("max-query-length", self.max_query_length.is_some()),
                ("n-best-size", self.n_best_size.is_some()),
                ("max-answer-length", self.max_answer_length.is_some()),
                ("null-score-diff-threshold", threshold.is_some()),
            ];
            return refuse_first(&given, "works with --task squad and squad2 only").map(|()| None);
        };
        check(
            version_2 || threshold.is_none(),
            "null-score-diff-threshold",
            "works with --task squad2 only: in squad every question has an answer",
        )?;
        let windows = WindowSettings {
            max_seq_length: self.max_seq_length.unwrap_or(spec.defaults.max_seq_length),
            doc_stride: self.doc_stride.unwrap_or(128),
            max_query_length: self.max_query_length.unwrap_or(64),
        };
        let answers = AnswerSettings {
            n_best_size: self.n_best_size.unwrap_or(20),
            max_answer_length: self.max_answer_length.unwrap_or(30),
            null_threshold: version_2.then_some(threshold.unwrap_or(0.0)),
        };
        let zeros = [
            ("doc-stride", windows.doc_stride == 0),
            ("max-query-length", windows.max_query_length == 0),
            ("n-best-size", answers.n_best_size == 0),
            ("max-answer-length", answers.max_answer_length == 0),
        ];
        refuse_first(&zeros, "must be at least 1")?;
        let WindowSettings { max_seq_length, max_query_length, .. } = windows;
        let no_room = format!(
            "{max_seq_length} is too short: a question of {max_query_length} tokens (--max-query-length) and three \
             special tokens leave no room for the text"
        );
        check(max_seq_length > max_query_length + 3, "max-seq-length", &no_room)?;
        check(threshold.is_none_or(f64::is_finite), "null-score-diff-threshold", "must be a number")?;
        Ok(Some((windows, answers)))
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
    fn defaults_are_the_libraries() {
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
    fn flags_that_do_not_go_together_are_refused_by_name() {
        let cases = [
            ("--adapter pfeiffer --freeze-encoder", "freeze-encoder"),
            ("--adapter lora --random-init", "random-init"),
            ("--adapter lora --adapter-reduction 4", "adapter-reduction"),
            ("--adapter-reduction 4", "adapter-reduction"),
            ("--adapter houlsby --lora-rank 4", "lora-rank"),
            ("--lora-alpha 4", "lora-alpha"),
            ("--adapter parallel --merge-lora", "merge-lora"),
            ("--adapter lora --lora-rank 0", "lora-rank"),
            ("--adapter lora --lora-alpha 0", "lora-alpha"),
            ("--adapter pfeiffer --adapter-reduction 0.5", "adapter-reduction"),
            ("--adapter pfeiffer --adapter-reduction nan", "adapter-reduction"),
        ];
        for (flags, expected) in cases {
            match config(flags).resolve() {
                Err(Error::Configuration { flag, .. }) => assert_eq!(flag, expected, "{flags}"),
                other => panic!("{flags}: {other:?}"),
            }
        }
    }
}
