//! Configures a pre-training run. Every field is a flag of `pretrain` (feature `cli`) and a JSON key; its doc comment
//! is the flag's help text.

use std::path::PathBuf;

use bert_data::{ByteSize, CACHE_BYTES};
use bert_inference::{ComputeArgs, PrecisionChoice, RetentionPolicy};
#[cfg(feature = "cli")]
use bert_inference::{HelpGroup, with_heading};
use serde::{Deserialize, Serialize};

use crate::data_loader::training_data::TrainingData;
use crate::error::{Error, at_least_one, check, check_value};
use crate::initialization::InitializationChoice;
use crate::optimizer::OptimizerConfig;
use crate::optimizer::optimizer_args::{OptimizerArgs, Schedule};
use crate::pretrain::time_budget::Budget;

/// Configuration of a pre-training run. Defaults match the reference where it has the flag, except that learning rate,
/// beta2, warm-up and precision follow from model size, initialization and processor (`run_settings.rs`). Unknown JSON keys are ignored; the program `pretrain` rejects them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(
    feature = "cli",
    derive(clap::Args),
    command(mut_args(|flag| with_heading(flag, HELP_GROUPS)), groups([one_of("start", ["model", "init_checkpoint"]), one_of("length", ["steps", "budget"])]))
)]
#[setters(prefix = "with_", strip_option)]
pub struct PretrainConfig {
    /// The data folders.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[setters(into)]
    pub data: TrainingData,

    /// Cache folder for shards when --data is in an object store [default: ~/.cache/bert/shards].
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub cache: Option<PathBuf>,

    /// Maximum size of this cache, as 500M or 20G; the least recently used shards are deleted first.
    #[cfg_attr(feature = "cli", arg(long, value_name = "SIZE", default_value_t = defaults().cache_size))]
    pub cache_size: ByteSize,

    /// Size, tiny to large, or a config.json. The sizes are tiny, mini, small, medium, base and large. Conflicts with --init-checkpoint.
    #[cfg_attr(feature = "cli", arg(long, value_name = "SIZE|FILE", conflicts_with = "init_checkpoint"))]
    #[setters(into)]
    pub model: Option<String>,

    /// Run, checkpoint or model folder to start from. Pre-training continues with moments at zero, unless --keep-moments
    /// is given. A model folder is a Hugging Face folder, or a name on the Hugging Face Hub (OWNER/MODEL).
    #[cfg_attr(feature = "cli", arg(long, visible_alias = "continue-from", value_name = "DIR"))]
    #[setters(into)]
    pub init_checkpoint: Option<PathBuf>,

    /// Initialize at random the weights outside the encoder that --init-checkpoint lacks: masked-LM head, pooler,
    /// next-sentence head. Without this flag only the pooler and the next-sentence head may be missing, and only if
    /// --data was made with --nsp off.
    #[cfg_attr(feature = "cli", arg(long))]
    pub fresh_heads: bool,

    /// Start with the optimizer's moments of --init-checkpoint, as for a second phase at another length. Steps and the
    /// schedule start at 0; bias correction and beta2 continue. Without this flag the moments start at zero, as in the reference.
    #[cfg_attr(feature = "cli", arg(long))]
    pub keep_moments: bool,

    /// Initial weights: as in the paper (reference), with attention heads for the previous and next token
    /// (previous-next), or with these heads and word embeddings from bigram counts of the text (bigram) [default:
    /// bigram up to medium, reference for larger models; conflicts with --init-checkpoint].
    #[cfg_attr(feature = "cli", arg(long, value_enum, conflicts_with = "init_checkpoint"))]
    pub initialization: Option<InitializationChoice>,

    /// Output folder of the run. It gets the checkpoints, metrics.jsonl and run.json.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub output: PathBuf,

    /// Number of optimizer steps.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", conflicts_with = "budget"))]
    pub steps: Option<u64>,

    /// Time budget instead of --steps, as 45m or 2h. The first minute (or twentieth of a shorter budget) measures how
    /// many steps fit; run.json records the number.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TIME"))]
    pub budget: Option<Budget>,

    /// Global batch size: sequences per step.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().batch_size))]
    pub batch_size: usize,

    /// Batch sequences of similar length together, using N length ranges; 1 disables it.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().length_buckets))]
    pub length_buckets: usize,

    /// Split the global batch into K micro-batches to save memory; the gradient is the same.
    #[cfg_attr(feature = "cli", arg(long, value_name = "K", default_value_t = defaults().gradient_accumulation_steps))]
    pub gradient_accumulation_steps: usize,

    /// Maximum number of sequences in a micro-batch, instead of --gradient-accumulation-steps.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", conflicts_with = "gradient_accumulation_steps"))]
    pub micro_batch_size: Option<usize>,

    /// Recompute each layer in the backward pass (gradient checkpointing) to save memory, at the cost of one more
    /// forward pass per step. With the fused kernels on a CPU the result is bit-identical.
    #[cfg_attr(feature = "cli", arg(long))]
    pub recompute: bool,

    /// Peak learning rate [default: by model size]. The default is 1.5e-3 for tiny, and falls to 1e-4 for base. It is 1e-4
    /// with --init-checkpoint and with --optimizer lamb.
    #[cfg_attr(feature = "cli", arg(long, value_name = "RATE"))]
    pub learning_rate: Option<f64>,

    /// Warm-up steps [default: a tenth of --steps]. The default is at most 1000 for tiny and mini, and at most 10000 for
    /// base.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub warmup_steps: Option<u64>,

    /// Warm-up as a share of --steps, instead of --warmup-steps.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", conflicts_with = "warmup_steps"))]
    pub warmup_ratio: Option<f64>,

    /// Adam's beta1: decay rate of the first moment.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().adam_beta1))]
    pub adam_beta1: f64,

    /// Adam's beta2: decay rate of the second moment [default: by model size]. The default is 0.98 for tiny and mini, and
    /// rises to 0.999 for base. It is 0.999 with --init-checkpoint and with --optimizer lamb.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub adam_beta2: Option<f64>,

    /// Hyper-parameters that fine-tuning has too.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub optimizer: OptimizerArgs,

    /// Maximum consecutive steps whose update is skipped because of a non-finite loss or gradient; one more ends the
    /// run.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().max_skipped_steps))]
    pub max_skipped_steps: u64,

    /// Random seed. It determines initial weights, sample order and dropout. With --init-checkpoint of a run on the same data,
    /// the default is another seed than that run had, so that new samples are read.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().seed))]
    pub seed: u64,

    /// Data folder to evaluate on, or its URL. It needs the same vocabulary as --data [default: the data that
    /// make-pretrain-data --hold-out wrote with --data, if any].
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR|URL"))]
    #[setters(into)]
    pub eval_data: Option<PathBuf>,

    /// The held-out data of the parts of a mixture, which the run finds itself. Empty if the user sets
    /// `eval_data`, and for one data set.
    #[cfg_attr(feature = "cli", arg(skip))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eval_parts: Vec<EvalPart>,

    /// Train even if all documents of the evaluation data, or of a part of a mixture, are in other training data.
    #[cfg_attr(feature = "cli", arg(long))]
    pub allow_overlap: bool,

    /// Evaluate every N steps [default: 20 times in a run, but at least 10 steps apart; with --budget, with every checkpoint].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub eval_every: Option<u64>,

    /// Evaluate at most N instances [default: all].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub eval_instances: Option<u64>,

    /// Write a checkpoint every N steps and after the last step.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().save_every))]
    pub save_every: u64,

    /// Number of most recent checkpoints to keep.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().keep_checkpoints))]
    pub keep_checkpoints: usize,

    /// Also save the weights with the lowest held-out masked-LM loss, in best/ of the run.
    #[cfg_attr(feature = "cli", arg(long))]
    pub keep_best: bool,

    /// Also save the average weights of the last N checkpoints (--save-every steps apart), in average/ of the run.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub average_last: Option<usize>,

    /// Device, kernels and precision.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub compute: ComputeArgs,
}

/// Returns the requirement that one of two options is given.
#[cfg(feature = "cli")]
fn one_of(name: &'static str, options: [&'static str; 2]) -> clap::ArgGroup {
    clap::ArgGroup::new(name).args(options).required(true)
}

/// The headings of the help.
#[cfg(feature = "cli")]
const HELP_GROUPS: &[HelpGroup] = &[
    HelpGroup {
        heading: "Initial weights",
        common: &["init_checkpoint"],
        rare: &["initialization", "fresh_heads", "keep_moments"],
    },
    HelpGroup {
        heading: "Training",
        common: &["batch_size", "seed"],
        rare: &[
            "gradient_accumulation_steps",
            "micro_batch_size",
            "length_buckets",
            "recompute",
            "max_skipped_steps",
        ],
    },
    HelpGroup {
        heading: "Optimizer",
        common: &["learning_rate", "warmup_steps"],
        rare: &["warmup_ratio", "adam_beta1", "adam_beta2"],
    },
    HelpGroup {
        heading: "Evaluation",
        common: &["eval_data"],
        rare: &["eval_every", "eval_instances", "allow_overlap"],
    },
    HelpGroup {
        heading: "Checkpoints",
        common: &["save_every"],
        rare: &["keep_checkpoints", "keep_best", "average_last"],
    },
    HelpGroup { heading: "Shard cache", common: &[], rare: &["cache", "cache_size"] },
];

/// The held-out data of a part of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalPart {
    /// The folder of the held-out data.
    pub folder: PathBuf,
    /// The share of the held-out data in the mean of the evaluation.
    pub share: f64,
}

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// A number of optimizer steps.
    Steps(u64),
    /// A time budget; the number of steps is measured.
    Budget(Budget),
}

/// Returns the default values of the flags.
fn defaults() -> PretrainConfig {
    PretrainConfig::new("", "", 0)
}

/// The sequences of a step, and the number of micro-batches that they are divided into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchShape {
    pub(crate) sequences: usize,
    pub(crate) micro_batches: usize,
}

impl PretrainConfig {
    /// Returns the defaults for a data folder, an output folder and a number of steps. Set a model size or an initial
    /// checkpoint as well.
    ///
    /// ```
    /// use bert_training::PretrainConfig;
    ///
    /// let config = PretrainConfig::new("data", "run", 10_000).with_model("tiny").with_batch_size(64);
    /// assert_eq!(config.warmup(), 1000);
    /// ```
    #[must_use]
    pub fn new(data: impl Into<TrainingData>, output: impl Into<PathBuf>, steps: u64) -> Self {
        Self {
            data: data.into(),
            cache: None,
            cache_size: ByteSize(CACHE_BYTES),
            model: None,
            init_checkpoint: None,
            fresh_heads: false,
            keep_moments: false,
            initialization: None,
            output: output.into(),
            steps: Some(steps),
            budget: None,
            batch_size: 32,
            length_buckets: 1,
            gradient_accumulation_steps: 1,
            micro_batch_size: None,
            recompute: false,
            learning_rate: None,
            warmup_steps: None,
            warmup_ratio: None,
            adam_beta1: OptimizerConfig::default().beta1,
            adam_beta2: None,
            optimizer: OptimizerArgs::default(),
            max_skipped_steps: 10,
            seed: 12345,
            eval_data: None,
            eval_parts: Vec::new(),
            allow_overlap: false,
            eval_every: None,
            eval_instances: None,
            save_every: 1000,
            keep_checkpoints: 3,
            keep_best: false,
            average_last: None,
            compute: ComputeArgs::default(),
        }
    }

    /// Checks each value and the combination of values.
    ///
    /// # Errors
    /// Fails when the value of an option is invalid, alone or together with others; the error names the flag.
    pub fn validate(&self) -> Result<(), Error> {
        self.length()?;
        at_least_one("steps", self.steps)?;
        at_least_one("batch_size", Some(self.batch_size))?;
        at_least_one("micro_batch_size", self.micro_batch_size)?;
        let parts = self.micro_batches();
        let expected = "between 1 and `.batch_size`";
        check_value((1..=self.batch_size).contains(&parts), "gradient_accumulation_steps", parts, expected)?;
        let rate = self.peak_learning_rate();
        check_value(rate.is_finite() && rate > 0.0, "learning_rate", rate, "positive")?;
        if let Some(ratio) = self.warmup_ratio {
            check_value((0.0..1.0).contains(&ratio), "warmup_ratio", ratio, "at least 0 and below 1")?;
        }
        if let Some(steps) = self.steps {
            let expected = format!("at most `.steps` ({steps})");
            check_value(self.warmup() <= steps, "warmup_steps", self.warmup(), expected)?;
        }
        check(
            !self.fresh_heads || self.init_checkpoint.is_some(),
            "fresh_heads",
            "needs `.init_checkpoint`",
        )?;
        check(
            !self.keep_moments || self.init_checkpoint.is_some(),
            "keep_moments",
            "needs `.init_checkpoint`",
        )?;
        for (setting, beta) in [("adam_beta1", self.adam_beta1), ("adam_beta2", self.optimizer().beta2)] {
            check_value((0.0..1.0).contains(&beta), setting, beta, "at least 0 and below 1")?;
        }
        self.optimizer.check()?;
        let buckets = self.length_buckets;
        check_value((1..=512).contains(&buckets), "length_buckets", buckets, "between 1 and 512")?;
        at_least_one("save_every", Some(self.save_every))?;
        at_least_one("keep_checkpoints", Some(self.keep_checkpoints))?;
        at_least_one("average_last", self.average_last)?;
        at_least_one("eval_every", self.eval_every)?;
        at_least_one("eval_instances", self.eval_instances)?;
        let has_data = self.eval_data.is_some();
        let needs_data = "needs `.eval_data`, or data made with make-pretrain-data `.hold_out`";
        check(!self.keep_best || has_data, "keep_best", needs_data)?;
        check(self.eval_every.is_none() || has_data, "eval_every", needs_data)?;
        check(self.eval_instances.is_none() || has_data, "eval_instances", needs_data)?;
        if let Some(last) = self.average_last {
            let written = self.total_steps().div_ceil(self.save_every);
            let too_few = format!(
                "the run writes {written} checkpoints: {} steps, one every {} (`.save_every`)",
                self.total_steps(),
                self.save_every
            );
            check(self.steps.is_none() || last as u64 <= written, "average_last", &too_few)?;
        }
        self.compute.checked_precision(self.precision()).map(drop)
    }

    /// Returns which checkpoints to keep.
    pub(crate) fn retention(&self) -> RetentionPolicy {
        RetentionPolicy {
            newest: self.keep_checkpoints,
            averaged_interval: self.save_every,
            averaged_count: self.average_last.unwrap_or(0),
        }
    }

    /// Returns the initialization, or its default; `None` if the run starts from a checkpoint.
    pub fn initialization(&self) -> Option<InitializationChoice> {
        self.init_checkpoint.is_none().then(|| self.initialization.unwrap_or_default())
    }

    /// Returns the number of micro-batches of a step.
    pub fn micro_batches(&self) -> usize {
        let by_size = self.micro_batch_size.map(|size| self.batch_size.div_ceil(size.max(1)));
        by_size.unwrap_or(self.gradient_accumulation_steps)
    }

    /// Returns the number of sequences in the largest micro-batch.
    pub fn largest_micro_batch(&self) -> usize {
        self.batch_size.div_ceil(self.micro_batches())
    }

    /// Returns the size of a step.
    pub(crate) fn batch_shape(&self) -> BatchShape {
        BatchShape { sequences: self.batch_size, micro_batches: self.micro_batches() }
    }

    /// Returns the peak learning rate, or the default for BERT-base.
    pub fn peak_learning_rate(&self) -> f64 {
        self.learning_rate.unwrap_or(1e-4)
    }

    /// Returns the number of whole warm-up steps, or the default for BERT-base.
    pub fn warmup(&self) -> u64 {
        let by_ratio = self.warmup_ratio.map(|ratio| (ratio * self.total_steps() as f64) as u64);
        self.warmup_steps.or(by_ratio).unwrap_or((self.total_steps() / 10).min(10_000))
    }

    /// Returns the length of the run.
    ///
    /// # Errors
    /// Fails when both or neither of a number of steps and a budget are set.
    pub fn length(&self) -> Result<RunLength, Error> {
        let wrong = |flag, reason: &'static str| Err(Error::option(flag, reason));
        match (self.steps, self.budget) {
            (Some(steps), None) => Ok(RunLength::Steps(steps)),
            (None, Some(budget)) => Ok(RunLength::Budget(budget)),
            (Some(_), Some(_)) => wrong("budget", "cannot be used with `.steps`"),
            (None, None) => wrong("steps", "is required, or `.budget`"),
        }
    }

    /// Returns the number of optimizer steps; 0 until a budget has been converted to steps.
    pub(crate) fn total_steps(&self) -> u64 {
        self.steps.unwrap_or(0)
    }

    /// Returns the number of steps between two evaluations.
    pub(crate) fn evaluation_interval(&self) -> u64 {
        const EVALUATIONS: u64 = 20;
        let default = match self.budget {
            Some(_) => self.save_every,
            None => self.save_every.min((self.total_steps() / EVALUATIONS).max(10)),
        };
        self.eval_every.unwrap_or(default)
    }

    /// Returns the precision of matrix products, or its default.
    pub fn precision(&self) -> PrecisionChoice {
        self.compute.precision()
    }

    /// Returns the learning-rate schedule.
    pub fn schedule(&self) -> Schedule {
        Schedule {
            kind: self.optimizer.schedule,
            peak: self.peak_learning_rate(),
            total_steps: self.total_steps(),
            warmup_steps: self
                .warmup_ratio
                .map_or(self.warmup() as f64, |ratio| ratio * self.total_steps() as f64),
        }
    }

    /// Returns the optimizer's hyper-parameters, with the default beta2 of BERT-base if none is set.
    pub fn optimizer(&self) -> OptimizerConfig {
        let beta2 = self.adam_beta2.unwrap_or(OptimizerConfig::default().beta2);
        OptimizerConfig { beta1: self.adam_beta1, beta2, ..self.optimizer.config() }
    }
}
