//! The settings of a training run.

use std::path::PathBuf;

use bert_inference::{DEVICE_HELP, DeviceName, Error};
use bert_training::{OptimizerConfig, Schedule, ScheduleKind, at_least_one, check, check_value};
use serde::Serialize;

use crate::config::{Fusion, TranslationConfig};
use crate::text::parallel::ParallelArgs;

/// The settings of a training run, with their flags.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize)]
pub struct TrainConfig {
    /// The training text.
    #[command(flatten)]
    pub text: ParallelArgs,

    /// Source vocabulary: vocab.txt, tokenizer.json or a model folder [default: BERT's].
    #[arg(long, value_name = "FILE|DIR")]
    pub source_vocab: Option<PathBuf>,

    /// Target vocabulary: vocab.txt, tokenizer.json or a model folder.
    #[arg(long, value_name = "FILE|DIR")]
    pub target_vocab: PathBuf,

    /// Use of BERT: not at all, as source embeddings, or attention to it in every layer.
    #[arg(long, value_enum, default_value = "fused")]
    pub fusion: Fusion,

    /// BERT: pre-training run, checkpoint or Hugging Face folder. It is not trained.
    #[arg(long, value_name = "DIR", default_value = "tiny-en")]
    pub bert: PathBuf,

    /// Width of the hidden states.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub hidden_size: usize,

    /// Width of the feed-forward network.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub intermediate_size: usize,

    /// Attention heads.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub heads: usize,

    /// Layers of the encoder, and of the decoder.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub layers: usize,

    /// Maximum number of tokens of a sentence, special tokens included; longer sentences are cut.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub max_length: usize,

    /// Dropout probability.
    #[arg(long, value_name = "X", default_value_t = 0.1)]
    pub dropout: f64,

    /// Drop-net: probability that a fused layer uses one of its two attentions alone in a training step.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub drop_net: f64,

    /// Label smoothing.
    #[arg(long, value_name = "X", default_value_t = 0.1)]
    pub label_smoothing: f64,

    /// Training steps.
    #[arg(long, value_name = "N")]
    pub steps: u64,

    /// Sentence pairs per step.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub batch_size: usize,

    /// Peak learning rate.
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    pub learning_rate: f64,

    /// Warm-up steps [default: a tenth of the steps].
    #[arg(long, value_name = "N")]
    pub warmup_steps: Option<u64>,

    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 12345)]
    pub seed: u64,

    /// Steps between checkpoints.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub save_interval: u64,

    /// Folder of the run.
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    pub device: DeviceName,
}

impl TrainConfig {
    /// Returns the model's sizes. `vocabularies` are the sizes of the source and the target vocabulary.
    pub(crate) fn model(&self, vocabularies: [usize; 2], bert_hidden_size: usize) -> TranslationConfig {
        TranslationConfig {
            fusion: self.fusion,
            source_vocab_size: vocabularies[0],
            target_vocab_size: vocabularies[1],
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_attention_heads: self.heads,
            encoder_layers: self.layers,
            decoder_layers: self.layers,
            bert_hidden_size,
            max_length: self.max_length,
            dropout_prob: self.dropout,
            drop_net_prob: self.drop_net,
            label_smoothing: self.label_smoothing,
            layer_norm_eps: 1e-5,
            compute: Default::default(),
        }
    }

    /// Checks the settings that need no file.
    ///
    /// # Errors
    /// Fails when a value is invalid; the error names the flag.
    pub fn validate(&self) -> Result<(), Error> {
        at_least_one("steps", Some(self.steps))?;
        at_least_one("batch_size", Some(self.batch_size))?;
        at_least_one("save_interval", Some(self.save_interval))?;
        let rate = self.learning_rate;
        check_value(rate > 0.0 && rate.is_finite(), "learning_rate", rate, "positive")?;
        let vocabulary = self.source_vocab.is_some();
        check(vocabulary || self.fusion != Fusion::None, "source_vocab", "is required with `.fusion none`")?;
        let used = !vocabulary || self.fusion != Fusion::Embeddings;
        check(used, "source_vocab", "is not used with `.fusion embeddings`: BERT has its own vocabulary")?;
        self.model([1, 1], 0).validate()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        let warmup_steps = self.warmup_steps.map_or(self.steps as f64 / 10.0, |steps| steps as f64);
        Schedule {
            kind: ScheduleKind::Linear,
            peak: self.learning_rate,
            total_steps: self.steps,
            warmup_steps,
        }
    }

    /// Returns the hyper-parameters of Adam as in Vaswani et al., 2017.
    pub(crate) fn optimizer() -> OptimizerConfig {
        OptimizerConfig {
            beta2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.0,
            bias_correction: true,
            ..OptimizerConfig::default()
        }
    }
}
