//! Holds the configuration of a fine-tuning. Every field is a flag of `finetune` (feature `cli`) and a key in JSON,
//! and its doc comment is the flag's help text.

use std::path::PathBuf;

use bert_model::FeatureHeadKind;
#[cfg(feature = "cli")]
use clap::ArgAction;
use serde::{Deserialize, Serialize};

use super::flag_values::{Choices, Seeds};
use crate::device::KernelChoice;
#[cfg(feature = "cli")]
use crate::device_name::DEVICE_HELP;
use crate::device_name::DeviceName;
use crate::initialization::InitializationChoice;
use crate::optimizer::AdamWConfig;
use crate::precision::PrecisionChoice;
use crate::schedule::ScheduleKind;
use crate::tasks::Task;

/// Which state of a run is scored and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// The best by the task's main metric, evaluated after every epoch.
    Best,
    /// The last.
    Last,
}

/// What stands on a frozen encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum HeadKind {
    /// The classifier on the pooled output.
    Linear,
    /// The classifier on the mean of the tokens.
    Mean,
    /// A dense layer with tanh, then the classifier.
    Mlp,
    /// A GRU over the tokens, then the classifier.
    Gru,
    /// Two LSTMs over the tokens, from either end, then the classifier.
    #[cfg_attr(feature = "cli", value(name = "bilstm"))]
    BiLstm,
}

/// The forms of `--adapter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum AdapterKind {
    /// After the feed-forward network, on its normalized output (`seq_bn`).
    Pfeiffer,
    /// After attention and after the feed-forward network (`double_seq_bn`).
    Houlsby,
    /// Beside the feed-forward network (`par_bn`).
    Parallel,
    /// Two narrow matrices beside the query and value projections.
    Lora,
}

/// What `finetune` does. Defaults marked "by task" are in the table of `docs/finetuning.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[setters(prefix = "with_", strip_option)]
#[serde(deny_unknown_fields)]
pub struct FinetuneConfig {
    /// rte, sst-2, mrpc, cola, qnli, qqp, mnli, wnli, sts-b, sst-5, cfimdb, sick, sick-r, snli, squad, squad2, conll,
    /// swag, or table: one's own, in CSV, TSV, JSON Lines or Parquet (see --columns).
    #[cfg_attr(feature = "cli", arg(long, value_name = "TASK"))]
    #[serde(serialize_with = "Task::serialize_name")]
    pub task: Task,

    /// Folder with the task's files, or with a folder of the task's name that has them. Of a table: train, dev and
    /// perhaps test, ending in .csv, .tsv, .jsonl or .parquet.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", required_unless_present = "train_file"))]
    #[setters(into)]
    pub data: Option<PathBuf>,

    /// Of a table: the columns with the text, the second text of a pair, and the label or score.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TEXT[,TEXT_B],LABEL", value_delimiter = ','))]
    pub columns: Vec<String>,

    /// Of a table: the classes in the order of their numbers [default: those of the training file, sorted].
    #[cfg_attr(
        feature = "cli",
        arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with = "regression")
    )]
    pub labels: Vec<String>,

    /// Of a table: predict a number; its range is found in the files.
    #[cfg_attr(feature = "cli", arg(long))]
    pub regression: bool,

    /// Of table, squad, squad2, conll and swag: the training file, wherever it is.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub train_file: Option<PathBuf>,

    /// Of the same: the dev file.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub dev_file: Option<PathBuf>,

    /// Of table and conll: the test file; it is scored if it has labels.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub test_file: Option<PathBuf>,

    /// Pre-training run, one of its checkpoints, a Hugging Face folder, or the built-in model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", default_value = crate::built_in::NAME))]
    #[setters(into)]
    pub checkpoint: PathBuf,

    /// Folder for report.json, predictions and the tuned model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    #[setters(into)]
    pub output: PathBuf,

    /// Train the classifier only; the encoder, pooler included, stays as it is and drops nothing.
    #[cfg_attr(feature = "cli", arg(long))]
    pub freeze_encoder: bool,

    /// What learns on the frozen encoder: the classifier alone, on the pooled output or on the mean of the tokens, or
    /// also a layer more on the pooled output, or a recurrent network over the tokens.
    #[cfg_attr(feature = "cli", arg(long, value_enum, requires = "freeze_encoder"))]
    pub head: Option<HeadKind>,

    /// Train the last N layers, the pooler and the head only; layers below and embeddings stay as they are.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", conflicts_with_all = ["freeze_encoder", "adapter"]))]
    pub trainable_layers: Option<usize>,

    /// Multiply the learning rate of the last layer by X, of the one before by X * X, and so on; of the embeddings
    /// once more.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", conflicts_with_all = ["freeze_encoder", "adapter"]))]
    pub layer_decay: Option<f64>,

    /// Train an adapter and the classifier only; the encoder stays as it is, but drops as in a full fine-tuning.
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub adapter: Option<AdapterKind>,

    /// Put trained adapters (pfeiffer) into the frozen encoder, and train an attention over them and the classifier
    /// only: output folders of finetune --adapter, or folders of the adapters library.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR,DIR,...", value_delimiter = ',', conflicts_with_all = ["adapter", "freeze_encoder", "trainable_layers", "layer_decay"]))]
    #[serde(default)]
    pub fusion: Vec<PathBuf>,

    /// Hidden size over the adapter's width, at least 1 [default: 16, of a parallel adapter 2].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub adapter_reduction: Option<f64>,

    /// Rank of the matrices of --adapter lora [default: 8].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub lora_rank: Option<usize>,

    /// The product of these matrices is multiplied by alpha / rank [default: 8].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub lora_alpha: Option<f64>,

    /// Save a whole model, LoRA added to its weights, and the LoRA itself in adapter/.
    #[cfg_attr(feature = "cli", arg(long))]
    pub merge_lora: bool,

    /// Take the checkpoint's shape and vocabulary but fresh weights: what a model without pre-training gives.
    #[cfg_attr(feature = "cli", arg(long))]
    pub random_init: bool,

    /// Which fresh weights: as in the paper (reference), with heads that look at neighbours (neighbours), or these and
    /// word embeddings from counts of a text (counts) [default: reference].
    #[cfg_attr(feature = "cli", arg(long, value_enum, requires = "random_init"))]
    pub initialization: Option<InitializationChoice>,

    /// Data folder made by make-pretrain-data whose text is counted, with the checkpoint's vocabulary.
    #[cfg_attr(
        feature = "cli",
        arg(
            long,
            value_name = "DIR",
            required_if_eq("initialization", "counts"),
            requires = "initialization"
        )
    )]
    #[setters(into)]
    pub initialization_data: Option<PathBuf>,

    /// One run per seed (classifier, sample order, dropout): numbers and ranges, as in 1-5 or 1,2,7-9.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N,N-N,...", default_value_t = defaults().seeds))]
    pub seeds: Seeds,

    /// Train on so many examples of the training file only; a larger subset has every smaller in it.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_train_examples: Option<usize>,

    /// Share of the training examples that is held out to choose epochs and cells of a grid by, so that dev is not
    /// [default: 0.1 for a grid, else none].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub holdout: Option<f64>,

    /// Seed of the draws of --max-train-examples and --holdout.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().subset_seed))]
    #[serde(default = "one")]
    pub subset_seed: u64,

    /// Passes over the training set; several values are a grid [default: by task].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X,..."))]
    pub num_train_epochs: Option<Choices<f64>>,

    /// Examples in a step; several values are a grid [default: by task].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N,..."))]
    pub train_batch_size: Option<Choices<usize>>,

    /// Micro-batches that a step is cut into, to save memory; their gradients add up to that of the whole.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = defaults().gradient_accumulation_steps))]
    #[serde(default = "one")]
    pub gradient_accumulation_steps: u64,

    /// Highest learning rate; several values are a grid [default: by task, --freeze-encoder and --adapter].
    #[cfg_attr(feature = "cli", arg(long, value_name = "RATE,..."))]
    pub learning_rate: Option<Choices<f64>>,

    /// Share of the steps that warm up.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().warmup_proportion))]
    pub warmup_proportion: f64,

    /// How the learning rate falls: bert (the reference), linear (Hugging Face), trapezoid or constant.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().schedule))]
    pub schedule: ScheduleKind,

    /// Decoupled weight decay; never on LayerNorm and biases.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().weight_decay))]
    pub weight_decay: f64,

    /// Adam's epsilon.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().adam_epsilon))]
    pub adam_epsilon: f64,

    /// Whether Adam corrects its moments for their start at zero. The reference does not, and is less
    /// stable over seeds for it.
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", default_value_t = defaults().adam_bias_correction, action = ArgAction::Set))]
    pub adam_bias_correction: bool,

    /// Largest norm of all gradients together; 0 switches clipping off.
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = defaults().max_gradient_norm))]
    pub max_gradient_norm: f64,

    /// Longest sequence, special tokens included [default: by task].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_seq_length: Option<usize>,

    /// Of squad: tokens from the beginning of a window of the text to that of the next [default: 128].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub doc_stride: Option<usize>,

    /// Of squad: longer questions are cut to so many tokens [default: 64].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_query_length: Option<usize>,

    /// Of squad: starts and ends looked at in each window, and answers kept of each question [default: 20].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub n_best_size: Option<usize>,

    /// Of squad: longest answer, in tokens [default: 30].
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max_answer_length: Option<usize>,

    /// Of squad2: by how much "no answer" must score higher than the best answer to be given [default: 0].
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", allow_negative_numbers = true))]
    pub null_score_diff_threshold: Option<f64>,

    /// Which state of each run counts; the best is chosen on dev, or on what --holdout holds out.
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().select))]
    pub select: Selection,

    /// End a run after so many epochs in a row that were no better than the best before them.
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub patience: Option<u64>,

    /// Predict the examples of this file (the task's test form) with the best run's model.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    #[setters(into)]
    pub predict: Option<PathBuf>,

    /// What computes; see `DEVICE_HELP`.
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEVICE", default_value_t = defaults().device, help = DEVICE_HELP))]
    pub device: DeviceName,

    /// Fused kernels, or burn's own operations (slower; for teaching and for doubt).
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = defaults().kernels))]
    pub kernels: KernelChoice,

    /// Matrix products in f32 or bf16, all else in f32 [default: bf16 on CUDA, f32 elsewhere].
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub precision: Option<PrecisionChoice>,
}

/// What the flags fall back on.
#[cfg(feature = "cli")]
fn defaults() -> FinetuneConfig {
    FinetuneConfig::new(Task::Rte, "", "")
}

fn one() -> u64 {
    1
}

impl FinetuneConfig {
    /// The defaults, for a task, a checkpoint and the folder of the report. The task's files are needed as well
    /// ([`FinetuneConfig::with_data`] or [`FinetuneConfig::with_train_file`]).
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

    /// The head, where it is more than a classifier.
    pub(super) fn feature_head(&self) -> Option<FeatureHeadKind> {
        match self.head? {
            HeadKind::Linear => None,
            HeadKind::Mean => Some(FeatureHeadKind::Mean),
            HeadKind::Mlp => Some(FeatureHeadKind::Mlp),
            HeadKind::Gru => Some(FeatureHeadKind::Gru),
            HeadKind::BiLstm => Some(FeatureHeadKind::BiLstm),
        }
    }

    /// Configurations that the flags with several values make.
    pub fn grid_cells(&self) -> usize {
        let rates = self.learning_rate.as_ref().map_or(1, |choices| choices.values().len());
        let sizes = self.train_batch_size.as_ref().map_or(1, |choices| choices.values().len());
        let epochs = self.num_train_epochs.as_ref().map_or(1, |choices| choices.values().len());
        rates * sizes * epochs
    }

    /// Share of the training examples that is held out, given or by default.
    pub fn held_out_share(&self) -> Option<f64> {
        self.holdout.or((self.grid_cells() > 1).then_some(0.1))
    }

    /// The optimizer's hyper-parameters.
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
