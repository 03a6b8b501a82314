//! Defines the configuration of a fine-tuning. Every field is a flag of `finetune` (feature `cli`) and a key in JSON,
//! and its doc comment is the flag's help text.

pub(crate) mod flag_values;
pub(crate) mod grid;
pub(crate) mod resolve;

use std::path::PathBuf;

use crate::config::flag_values::{AdapterArgs, Choices, Seeds, TableArgs};
use bert_hub::name_of_cached;
use bert_inference::{ComputeArgs, SquadArgs};
#[cfg(feature = "cli")]
use bert_inference::{HelpGroup, with_heading};
use bert_model::FeatureHeadKind;
use bert_tasks::Task;
use bert_training::{InitializationChoice, OptimizerArgs, OptimizerConfig};
use serde::{Deserialize, Serialize, Serializer};

/// The epoch of a run whose weights are scored and saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// The best epoch by the task's main metric; evaluates after every epoch.
    Best,
    /// The last epoch.
    Last,
}

/// The head on a frozen encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum HeadKind {
    /// A linear classifier on the pooled output.
    Linear,
    /// A linear classifier on the mean of the tokens.
    Mean,
    /// A dense layer with tanh, then the classifier.
    Mlp,
    /// A GRU over the tokens, then the classifier.
    Gru,
    /// A bidirectional LSTM over the tokens, then the classifier.
    #[cfg_attr(feature = "cli", value(name = "bilstm"))]
    BiLstm,
}

/// The configuration of `finetune`. Defaults marked "by task" are in the table of `docs/guide/finetuning.md`. Unknown JSON keys
/// are ignored; the program `finetune` rejects them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(
    feature = "cli",
    derive(clap::Args),
    command(
        mut_args(|flag| with_heading(flag, HELP_GROUPS)),
        mut_arg("adam_bias_correction", |flag| flag.default_value("true")),
        group(clap::ArgGroup::new("examples").args(["data", "train_file"]).required(true).multiple(true))
    )
)]
#[setters(prefix = "with_", strip_option)]
pub struct FinetuneConfig {
    /// Task, or table for a custom table. The tasks are rte, sst-2, mrpc, cola, qnli, qqp,
    /// mnli, wnli, sts-b, sst-5, cfimdb, sick, sick-r, snli, squad, squad2, conll and swag. A custom table is CSV, TSV,
    /// JSON Lines or Parquet; see --columns.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TASK"))]
    #[serde(serialize_with = "Task::serialize_name")]
    pub task: Task,

    /// Folder with the task's files. They may be in a subfolder of the task's name. For --task table: files named train,
    /// dev and optionally test, ending in .csv, .tsv, .jsonl or .parquet; or one such file, of which a fifth becomes dev unless
    /// --dev-file is given.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[serde(serialize_with = "recorded_path")]
    #[setters(into)]
    pub data: Option<PathBuf>,

    /// Columns and labels of --task table.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub table: TableArgs,

    /// Training file, for table, squad, squad2, conll and swag; replaces the one in --data.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[serde(serialize_with = "recorded_path")]
    #[setters(into)]
    pub train_file: Option<PathBuf>,

    /// Dev file, for table, squad, squad2, conll and swag; replaces the one in --data.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[serde(serialize_with = "recorded_path")]
    #[setters(into)]
    pub dev_file: Option<PathBuf>,

    /// Test file, for table and conll; it is scored if it has labels.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[serde(serialize_with = "recorded_path")]
    #[setters(into)]
    pub test_file: Option<PathBuf>,

    /// Model folder to start from. A pre-training run, a checkpoint of one, a Hugging Face folder, a name on the Hugging Face
    /// Hub (OWNER/MODEL), or a built-in model: tiny-en or mini-en.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", default_value = bert_inference::builtin_model::NAME))]
    #[setters(into)]
    pub checkpoint: PathBuf,

    /// Output folder: report.json, predictions, model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub output: PathBuf,

    /// Train the classifier only. The encoder and its pooler stay frozen, with dropout disabled.
    #[cfg_attr(feature = "cli", arg(long))]
    pub freeze_encoder: bool,

    /// Head on the frozen encoder: linear on the pooled output (default) or on the mean of the tokens, an MLP, a GRU or
    /// a BiLSTM.
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub head: Option<HeadKind>,

    /// Train only the last N layers, the pooler and the head; lower layers and embeddings stay frozen.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", conflicts_with_all = ["freeze_encoder", "adapter"]))]
    pub trainable_layers: Option<usize>,

    /// Layer-wise learning rate decay: multiply the rate by X for the last layer, X^2 for the one before, and so on
    /// down to the embeddings.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", conflicts_with_all = ["freeze_encoder", "adapter"]))]
    pub layer_decay: Option<f64>,

    /// Adapters.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub adapters: AdapterArgs,

    /// Use the checkpoint's configuration and vocabulary with random weights, as a baseline without pre-training.
    #[cfg_attr(feature = "cli", arg(long))]
    pub random_init: bool,

    /// Initialization of --random-init: reference (as in the paper), previous-next (attention heads that attend to
    /// the previous and next token), or bigram (the same, with word embeddings from bigram counts of a text) [default:
    /// reference].
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub initialization: Option<InitializationChoice>,

    /// Data folder of make-pretrain-data for the bigram counts; it must use the checkpoint's vocabulary.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub initialization_data: Option<PathBuf>,

    /// Seeds, one run each. Numbers and ranges, as 1-5 or 1,2,7-9. A seed determines classifier, sample order and dropout.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N,N-N,...", default_value_t = defaults().seeds))]
    pub seeds: Seeds,

    /// Keep the model of every seed in seed-N/model of the output folder; for a grid, of the seeds of the chosen
    /// configuration. `bert predict --all-seeds` and `bert probe --all-seeds` use all of them.
    #[cfg_attr(feature = "cli", arg(long))]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_seeds: bool,

    /// Train on a random subset of N examples; larger subsets contain the smaller ones.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_train_examples: Option<usize>,

    /// Fraction of the training examples to hold out for choosing epochs and grid cells, so that dev is used for
    /// scoring only [default: 0.1 for a grid, else none].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub holdout: Option<f64>,

    /// Score on dev or test even if nearly all of its examples are in the training file.
    #[cfg_attr(feature = "cli", arg(long))]
    pub allow_overlap: bool,

    /// Leave out examples without a label, tag or answer. A label is missing if it is empty or null, a word by which pandas
    /// marks it (nan, NA, None, `<NA>` and others), or -1 where the task has no such class. Otherwise such examples are errors.
    #[cfg_attr(feature = "cli", arg(long))]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_unlabelled: bool,

    /// Random seed for --max-train-examples and --holdout.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().subset_seed))]
    pub subset_seed: u64,

    /// Epochs, or a grid [default: by task and model size]. Several values make a grid.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X,..."))]
    pub num_train_epochs: Option<Choices<f64>>,

    /// Batch size, or a grid [default: by task]. Several values make a grid.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N,..."))]
    pub train_batch_size: Option<Choices<usize>>,

    /// Number of micro-batches per step, to save memory; the gradients add up to the gradient of the whole batch.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().gradient_accumulation_steps))]
    pub gradient_accumulation_steps: u64,

    /// Peak rate, or a grid [default: by model size]. Several values make a grid. The default is 5e-4 for tiny and falls
    /// to the rate of the task for base; it also depends on --freeze-encoder and --adapter.
    #[cfg_attr(feature = "cli", arg(long, value_name = "RATE,..."))]
    pub learning_rate: Option<Choices<f64>>,

    /// Fraction of the steps used for warm-up.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().warmup_proportion))]
    pub warmup_proportion: f64,

    /// Hyper-parameters that pre-training has too.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub optimizer: OptimizerArgs,

    /// Maximum sequence length [default: by task]. Special tokens are included.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_seq_length: Option<usize>,

    /// Windows and answers of --task squad and squad2.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub squad: SquadArgs,

    /// Epoch to score and save for each run: the best on dev (or on the examples of --holdout), or the last.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().select))]
    pub select: Selection,

    /// Early stopping: end a run after N epochs in a row without improvement.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub patience: Option<u64>,

    /// File in the task's test format to predict with the best run's model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[serde(serialize_with = "recorded_path")]
    #[setters(into)]
    pub predict: Option<PathBuf>,

    /// Measure forgetting: after every epoch, compute the masked-LM loss of the encoder on this data folder of
    /// make-pretrain-data, with the pre-training heads of --checkpoint. Both need the same vocabulary.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", conflicts_with = "random_init"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[setters(into)]
    pub forgetting_data: Option<PathBuf>,

    /// Device, kernels and precision.
    #[cfg_attr(feature = "cli", command(flatten))]
    #[serde(flatten)]
    pub compute: ComputeArgs,
}

/// The headings of the help.
#[cfg(feature = "cli")]
const HELP_GROUPS: &[HelpGroup] = &[
    HelpGroup {
        heading: "Files",
        common: &[],
        rare: &[
            "train_file",
            "dev_file",
            "test_file",
            "allow_overlap",
            "skip_unlabelled",
            "predict",
            "keep_seeds",
            "forgetting_data",
        ],
    },
    HelpGroup {
        heading: "Trained layers",
        common: &["freeze_encoder"],
        rare: &["head", "trainable_layers", "layer_decay"],
    },
    HelpGroup {
        heading: "Initial weights",
        common: &[],
        rare: &["random_init", "initialization", "initialization_data"],
    },
    HelpGroup {
        heading: "Training",
        common: &["num_train_epochs", "train_batch_size", "max_seq_length", "seeds"],
        rare: &["gradient_accumulation_steps", "max_train_examples"],
    },
    HelpGroup { heading: "Optimizer", common: &["learning_rate"], rare: &["warmup_proportion"] },
    HelpGroup {
        heading: "Selection of the epoch and the grid cell",
        common: &[],
        rare: &["holdout", "select", "patience", "subset_seed"],
    },
];

/// Returns the defaults of the flags.
#[cfg(feature = "cli")]
fn defaults() -> FinetuneConfig {
    FinetuneConfig::new(Task::Rte, "", "")
}

/// Writes a path in the form that the report records. A file of a data set in the Hub's cache is recorded by its name
/// with the commit.
fn recorded_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(|path| name_of_cached(path).map_or(path.into(), PathBuf::from)).serialize(serializer)
}

impl FinetuneConfig {
    /// Returns the default configuration for a task, a checkpoint and an output folder. The task's files must also be
    /// set ([`FinetuneConfig::with_data`] or [`FinetuneConfig::with_train_file`]).
    ///
    /// ```
    /// use bert_finetuning::FinetuneConfig;
    /// use bert_tasks::Task;
    ///
    /// let config = FinetuneConfig::new(Task::Rte, "run", "rte").with_data("glue").with_freeze_encoder(true);
    /// assert_eq!(config.seeds[..], [1]);
    /// ```
    #[must_use]
    pub fn new(task: Task, checkpoint: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            task,
            data: None,
            table: TableArgs::default(),
            train_file: None,
            dev_file: None,
            test_file: None,
            checkpoint: checkpoint.into(),
            output: output.into(),
            freeze_encoder: false,
            head: None,
            trainable_layers: None,
            layer_decay: None,
            adapters: AdapterArgs::default(),
            random_init: false,
            initialization: None,
            initialization_data: None,
            seeds: Seeds(vec![1]),
            keep_seeds: false,
            max_train_examples: None,
            holdout: None,
            allow_overlap: false,
            skip_unlabelled: false,
            subset_seed: 1,
            num_train_epochs: None,
            train_batch_size: None,
            gradient_accumulation_steps: 1,
            learning_rate: None,
            warmup_proportion: 0.1,
            optimizer: OptimizerArgs { adam_bias_correction: true, ..OptimizerArgs::default() },
            max_seq_length: None,
            squad: SquadArgs::default(),
            select: Selection::Best,
            patience: None,
            predict: None,
            forgetting_data: None,
            compute: ComputeArgs::default(),
        }
    }

    /// Returns the kind of head, or `None` for a linear classifier on the pooled output.
    pub(super) fn feature_head(&self) -> Option<FeatureHeadKind> {
        match self.head? {
            HeadKind::Linear => None,
            HeadKind::Mean => Some(FeatureHeadKind::Mean),
            HeadKind::Mlp => Some(FeatureHeadKind::Mlp),
            HeadKind::Gru => Some(FeatureHeadKind::Gru),
            HeadKind::BiLstm => Some(FeatureHeadKind::BiLstm),
        }
    }

    /// Returns the number of configurations in the grid.
    pub fn grid_cells(&self) -> usize {
        let rates = self.learning_rate.as_ref().map_or(1, |choices| choices.values().len());
        let sizes = self.train_batch_size.as_ref().map_or(1, |choices| choices.values().len());
        let epochs = self.num_train_epochs.as_ref().map_or(1, |choices| choices.values().len());
        rates * sizes * epochs
    }

    /// Returns the fraction of the training examples to hold out: the given one or the default.
    pub fn held_out_share(&self) -> Option<f64> {
        self.holdout.or((self.grid_cells() > 1).then_some(0.1))
    }

    /// Returns the optimizer's hyper-parameters.
    pub fn optimizer(&self) -> OptimizerConfig {
        self.optimizer.config()
    }
}
