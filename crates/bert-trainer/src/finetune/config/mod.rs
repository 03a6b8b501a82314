//! Defines the configuration of a fine-tuning. Every field is a flag of `finetune` (feature `cli`) and a key in JSON,
//! and its doc comment is the flag's help text.

pub(crate) mod data_files;
pub(crate) mod flag_values;
pub mod grid;
pub(crate) mod resolve;

use std::path::PathBuf;

use bert_model::FeatureHeadKind;
#[cfg(feature = "cli")]
use clap::ArgAction;
use serde::{Deserialize, Serialize};

use crate::compute::device::KernelChoice;
#[cfg(feature = "cli")]
use crate::compute::device::{DEVICE_HELP, DeviceName};
use crate::compute::precision::PrecisionChoice;
use crate::finetune::config::flag_values::{Choices, Seeds};
use crate::initialization::InitializationChoice;
use crate::training::adamw::AdamWConfig;
use crate::training::lr_schedule::ScheduleKind;
use bert_tasks::Task;

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

/// The kinds of adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum AdapterKind {
    /// A bottleneck after the feed-forward network, on its normalized output (`seq_bn`).
    Pfeiffer,
    /// Bottlenecks after attention and after the feed-forward network (`double_seq_bn`).
    Houlsby,
    /// A bottleneck parallel to the feed-forward network (`par_bn`).
    Parallel,
    /// Low-rank matrices added to the query and value projections.
    Lora,
}

/// The configuration of `finetune`. Defaults marked "by task" are in the table of `docs/finetuning.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[setters(prefix = "with_", strip_option)]
#[serde(deny_unknown_fields)]
pub struct FinetuneConfig {
    /// Task to train: rte, sst-2, mrpc, cola, qnli, qqp, mnli, wnli, sts-b, sst-5, cfimdb, sick, sick-r, snli, squad,
    /// squad2, conll, swag, or table for a custom table in CSV, TSV, JSON Lines or Parquet (see --columns).
    #[cfg_attr(feature = "cli", arg(long, value_name = "TASK"))]
    #[serde(serialize_with = "Task::serialize_name")]
    pub task: Task,

    /// Folder with the task's files, or with a subfolder of the task's name that contains them. For --task table: files
    /// named train, dev and optionally test, ending in .csv, .tsv, .jsonl or .parquet.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", required_unless_present = "train_file"))]
    #[setters(into)]
    pub data: Option<PathBuf>,

    /// For --task table: names of the text column, optionally the second text column, and the label or score column.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TEXT[,TEXT_B],LABEL", value_delimiter = ','))]
    pub columns: Vec<String>,

    /// For --task table: the classes in the order of their numbers [default: the labels of the training file, sorted].
    #[cfg_attr(
        feature = "cli",
        arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with = "regression")
    )]
    pub labels: Vec<String>,

    /// For --task table: predict a number; its range is read from the files.
    #[cfg_attr(feature = "cli", arg(long))]
    pub regression: bool,

    /// Training file, for table, squad, squad2, conll and swag; replaces the one in --data.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub train_file: Option<PathBuf>,

    /// Dev file, for table, squad, squad2, conll and swag; replaces the one in --data.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub dev_file: Option<PathBuf>,

    /// Test file, for table and conll; it is scored if it has labels.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub test_file: Option<PathBuf>,

    /// Model to start from: a pre-training run, one of its checkpoints, a Hugging Face folder, or the built-in model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", default_value = crate::run_dir::builtin_model::NAME))]
    #[setters(into)]
    pub checkpoint: PathBuf,

    /// Output folder for report.json, predictions and the fine-tuned model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub output: PathBuf,

    /// Train the classifier only; the encoder and its pooler stay frozen, with dropout disabled.
    #[cfg_attr(feature = "cli", arg(long))]
    pub freeze_encoder: bool,

    /// Head on the frozen encoder: linear on the pooled output (default) or on the mean of the tokens, an MLP, a GRU or
    /// a BiLSTM.
    #[cfg_attr(feature = "cli", arg(long, value_enum, requires = "freeze_encoder"))]
    pub head: Option<HeadKind>,

    /// Train only the last N layers, the pooler and the head; lower layers and embeddings stay frozen.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", conflicts_with_all = ["freeze_encoder", "adapter"]))]
    pub trainable_layers: Option<usize>,

    /// Layer-wise learning rate decay: multiply the rate by X for the last layer, X^2 for the one before, and so on
    /// down to the embeddings.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", conflicts_with_all = ["freeze_encoder", "adapter"]))]
    pub layer_decay: Option<f64>,

    /// Train an adapter and the classifier only; the encoder stays frozen, but applies dropout.
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub adapter: Option<AdapterKind>,

    /// Fuse trained adapters (AdapterFusion, pfeiffer only): train an attention over them and the classifier, with
    /// encoder and adapters frozen. Takes output folders of finetune --adapter or folders of the adapters library.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR,DIR,...", value_delimiter = ',', conflicts_with_all = ["adapter", "freeze_encoder", "trainable_layers", "layer_decay"]))]
    #[serde(default)]
    pub fusion: Vec<PathBuf>,

    /// Reduction factor of the adapter: hidden size divided by bottleneck size, at least 1 [default: 16; parallel: 2].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub adapter_reduction: Option<f64>,

    /// Rank of the matrices of --adapter lora [default: 8].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub lora_rank: Option<usize>,

    /// LoRA alpha: the update is scaled by alpha / rank [default: 8].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub lora_alpha: Option<f64>,

    /// Save a full model with LoRA merged into its weights, and the LoRA matrices in adapter/.
    #[cfg_attr(feature = "cli", arg(long))]
    pub merge_lora: bool,

    /// Use the checkpoint's configuration and vocabulary with random weights, as a baseline without pre-training.
    #[cfg_attr(feature = "cli", arg(long))]
    pub random_init: bool,

    /// Initialization of --random-init: reference (as in the paper), previous-next (attention heads that attend to
    /// the previous and next token), or bigram (the same, with word embeddings from bigram counts of a text) [default:
    /// reference].
    #[cfg_attr(feature = "cli", arg(long, value_enum, requires = "random_init"))]
    pub initialization: Option<InitializationChoice>,

    /// Data folder of make-pretrain-data for the bigram counts; it must use the checkpoint's vocabulary.
    #[cfg_attr(
        feature = "cli",
        arg(
            long,
            value_name = "DIR",
            required_if_eq_any([("initialization", "bigram"), ("initialization", "counts")]),
            requires = "initialization"
        )
    )]
    #[setters(into)]
    pub initialization_data: Option<PathBuf>,

    /// Seeds, one run each (classifier, sample order, dropout): numbers and ranges, as in 1-5 or 1,2,7-9.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N,N-N,...", default_value_t = defaults().seeds))]
    pub seeds: Seeds,

    /// Train on a random subset of N examples; larger subsets contain the smaller ones.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_train_examples: Option<usize>,

    /// Fraction of the training examples to hold out for choosing epochs and grid cells, so that dev is used for
    /// scoring only [default: 0.1 for a grid, else none].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub holdout: Option<f64>,

    /// Random seed for --max-train-examples and --holdout.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().subset_seed))]
    #[serde(default = "one")]
    pub subset_seed: u64,

    /// Number of epochs; several values make a grid [default: by task].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X,..."))]
    pub num_train_epochs: Option<Choices<f64>>,

    /// Batch size; several values make a grid [default: by task].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N,..."))]
    pub train_batch_size: Option<Choices<usize>>,

    /// Number of micro-batches per step, to save memory; the gradients add up to the gradient of the whole batch.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().gradient_accumulation_steps))]
    #[serde(default = "one")]
    pub gradient_accumulation_steps: u64,

    /// Peak learning rate; several values make a grid [default: by task, --freeze-encoder and --adapter].
    #[cfg_attr(feature = "cli", arg(long, value_name = "RATE,..."))]
    pub learning_rate: Option<Choices<f64>>,

    /// Fraction of the steps used for warm-up.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().warmup_proportion))]
    pub warmup_proportion: f64,

    /// Learning rate schedule: bert (the reference), linear (Hugging Face), trapezoid or constant.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().schedule))]
    pub schedule: ScheduleKind,

    /// Decoupled weight decay; not applied to LayerNorm and biases.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().weight_decay))]
    pub weight_decay: f64,

    /// Adam's epsilon.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().adam_epsilon))]
    pub adam_epsilon: f64,

    /// Apply Adam's bias correction. The reference does not, which makes results vary more between seeds.
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", default_value_t = defaults().adam_bias_correction, action = ArgAction::Set))]
    pub adam_bias_correction: bool,

    /// Maximum global gradient norm; 0 disables clipping.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().max_gradient_norm))]
    pub max_gradient_norm: f64,

    /// Maximum sequence length, including special tokens [default: by task].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_seq_length: Option<usize>,

    /// For squad and squad2: stride between windows of a long text, in tokens [default: 128].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub doc_stride: Option<usize>,

    /// For squad and squad2: maximum question length in tokens; longer questions are truncated [default: 64].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_query_length: Option<usize>,

    /// For squad and squad2: number of start and end candidates per window, and of answers kept per question [default:
    /// 20].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub n_best_size: Option<usize>,

    /// For squad and squad2: maximum answer length in tokens [default: 30].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_answer_length: Option<usize>,

    /// For squad2: predict "no answer" if its score exceeds the best answer's by more than X [default: 0].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", allow_negative_numbers = true))]
    pub null_score_diff_threshold: Option<f64>,

    /// Epoch to score and save for each run: the best on dev (or on the examples of --holdout), or the last.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().select))]
    pub select: Selection,

    /// Early stopping: end a run after N epochs in a row without improvement.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub patience: Option<u64>,

    /// File in the task's test format to predict with the best run's model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub predict: Option<PathBuf>,

    /// Compute device; see `DEVICE_HELP`.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEVICE", default_value_t = defaults().device, help = DEVICE_HELP))]
    pub device: DeviceName,

    /// Use the fused kernels, or plain burn operations (slower; for debugging and teaching).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().kernels))]
    pub kernels: KernelChoice,

    /// Precision of matrix products, f32 or bf16; everything else is f32 [default: bf16 on CUDA, f32 elsewhere].
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub precision: Option<PrecisionChoice>,
}

/// Returns the defaults of the flags.
#[cfg(feature = "cli")]
fn defaults() -> FinetuneConfig {
    FinetuneConfig::new(Task::Rte, "", "")
}

fn one() -> u64 {
    1
}

impl FinetuneConfig {
    /// Returns the default configuration for a task, a checkpoint and an output folder. The task's files must also be
    /// set ([`FinetuneConfig::with_data`] or [`FinetuneConfig::with_train_file`]).
    ///
    /// ```
    /// use bert_trainer::finetune::FinetuneConfig;
    /// use bert_trainer::tasks::Task;
    ///
    /// let config = FinetuneConfig::new(Task::Rte, "run", "rte").with_data("glue").with_freeze_encoder(true);
    /// assert_eq!(config.seeds[..], [1]);
    /// ```
    #[must_use]
    pub fn new(task: Task, checkpoint: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            task,
            data: None,
            columns: Vec::new(),
            labels: Vec::new(),
            regression: false,
            train_file: None,
            dev_file: None,
            test_file: None,
            checkpoint: checkpoint.into(),
            output: output.into(),
            freeze_encoder: false,
            head: None,
            trainable_layers: None,
            layer_decay: None,
            adapter: None,
            fusion: Vec::new(),
            adapter_reduction: None,
            lora_rank: None,
            lora_alpha: None,
            merge_lora: false,
            random_init: false,
            initialization: None,
            initialization_data: None,
            seeds: Seeds(vec![1]),
            max_train_examples: None,
            holdout: None,
            subset_seed: 1,
            num_train_epochs: None,
            train_batch_size: None,
            gradient_accumulation_steps: 1,
            learning_rate: None,
            warmup_proportion: 0.1,
            schedule: ScheduleKind::Bert,
            weight_decay: 0.01,
            adam_epsilon: 1e-6,
            adam_bias_correction: true,
            max_gradient_norm: 1.0,
            max_seq_length: None,
            doc_stride: None,
            max_query_length: None,
            n_best_size: None,
            max_answer_length: None,
            null_score_diff_threshold: None,
            select: Selection::Best,
            patience: None,
            predict: None,
            device: DeviceName::Flex,
            kernels: KernelChoice::Fused,
            precision: None,
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

    /// Returns the fraction of the training examples to hold out, given or by default.
    pub fn held_out_share(&self) -> Option<f64> {
        self.holdout.or((self.grid_cells() > 1).then_some(0.1))
    }

    /// Returns the optimizer's hyper-parameters.
    pub fn optimizer(&self) -> AdamWConfig {
        AdamWConfig {
            epsilon: self.adam_epsilon,
            weight_decay: self.weight_decay,
            bias_correction: self.adam_bias_correction,
            max_gradient_norm: self.max_gradient_norm,
            ..AdamWConfig::default()
        }
    }
}
