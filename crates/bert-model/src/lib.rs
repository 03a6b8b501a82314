//! BERT in [burn]: encoder, pre-training heads, task heads, adapters, and Hugging Face's folder format.
//!
//! A model takes batches of token ids as tensors and computes hidden states, logits and losses. Its parameters have
//! the names and the layout of Hugging Face's checkpoints. Text is read by `bert-data`; `bert-training` has the
//! optimizer, the training loop and the choice of a device.
//!
//! ```
//! use bert_model::{Architecture, BertConfig, BertInput, BertModel, Mode, Preset};
//! use burn::module::Module;
//! use burn::tensor::{Device, Int, Tensor};
//!
//! // BERT-tiny for a vocabulary of 100 words.
//! let config = BertConfig::preset(Preset::Tiny, 100);
//! let device = Device::flex();
//! let model = BertModel::new(&config, 42, &device); // 42 is the seed
//! assert_eq!(model.num_params(), 491_904);
//! assert_eq!(config.parameter_count(), 491_904);
//!
//! // One row of eight tokens, all with id 0, without padding.
//! let zeros = Tensor::<2, Int>::zeros([1, 8], &device);
//! let input = BertInput { input_mask: zeros.ones_like(), segment_ids: zeros.clone(), input_ids: zeros };
//! let output = model.forward(input, Mode::Eval);
//! assert_eq!(output.sequence_output.dims(), [1, 8, 128]);
//! assert_eq!(output.pooled_output.dims(), [1, 128]);
//! ```
//!
//! To add your own head, write a burn module that contains a [`BertModel`] and the layers of the head:
//!
//! ```
//! use bert_model::{Architecture, BertConfig, BertInput, BertModel, Mode, Preset};
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig};
//! use burn::tensor::{Device, Int, Tensor};
//!
//! /// A model that computes one score for each token.
//! #[derive(Module, Debug)]
//! struct TokenScorer {
//!     bert: BertModel,
//!     score: Linear,
//! }
//!
//! impl TokenScorer {
//!     fn new(config: &BertConfig, seed: u64, device: &Device) -> Self {
//!         let score = LinearConfig::new(config.hidden_size, 1).init(device);
//!         Self { bert: BertModel::new(config, seed, device), score }
//!     }
//!
//!     /// Returns the scores, of shape `[batch, length, 1]`.
//!     fn forward(&self, input: BertInput, mode: Mode) -> Tensor<3> {
//!         self.score.forward(self.bert.forward(input, mode).sequence_output)
//!     }
//! }
//!
//! let device = Device::flex();
//! let model = TokenScorer::new(&BertConfig::preset(Preset::Tiny, 100), 42, &device);
//! let zeros = Tensor::<2, Int>::zeros([1, 8], &device);
//! let input = BertInput { input_mask: zeros.ones_like(), segment_ids: zeros.clone(), input_ids: zeros };
//! assert_eq!(model.forward(input, Mode::Eval).dims(), [1, 8, 1]);
//! ```
//!
//! # Tour
//!
//! 1. [`BertConfig`] holds the sizes of a model. It comes from a [`Preset`] or from a `config.json`. Its field
//!    [`compute`](BertConfig::compute) selects fused or plain kernels, and products in f32 or bf16.
//! 2. [`Architecture`] builds a model from it: [`BertModel`] without a head, or one of the classes with heads below.
//!    [`Initialization`] selects the initial weights.
//! 3. [`BertInput`] is a batch; [`Mode`] enables or disables dropout and selects the masks.
//! 4. [`BertForPreTraining::loss`], [`classification_loss`] and the other losses are sums over rows, divided once by
//!    the number of real targets of the whole batch.
//! 5. [`load_pretrained_weights`] and [`save_pretrained`] read and write a Hugging Face folder; [`LoadPolicy`] selects
//!    the accepted differences between a checkpoint and a model, and [`LoadReport`] lists the differences.
//! 6. [`AdapterConfig`] adds an adapter or LoRA to a model whose encoder stays frozen.
//!
//! The table lists the folders. Each folder imports only folders above it:
//!
//! | folder | contents |
//! |---|---|
//! | `config` | the sizes of a model: `config.json`, the released presets, parameter and FLOP counts |
//! | [`layers`] | the layers of the encoder: attention, feed-forward network, dropout, adapters, LoRA |
//! | `checkpoint` | parameter names, Hugging Face's folders, readers of safetensors, PyTorch and TensorFlow files |
//! | `init` | initial values: the reference's, previous-next heads, bigram counts |
//! | `models` | BERT without a head and with the heads of pre-training and of the tasks, and their losses |
//! | `adapters` | adapters, LoRA and AdapterFusion: attaching them to a model, and their files |
//!
//! `error` has the errors of all folders. The types that a caller needs are re-exported here.
//!
//! # Promises
//!
//! - **The reference's numbers.** The reference for behaviour is google-research/bert (`modeling.py`,
//!   `run_pretraining.py`); the reference for names and files is `transformers`. `tests/golden` holds the numbers
//!   that the tests compare with.
//! - **No hidden random state.** Initial values are a pure function of the seed, the parameter's name and the
//!   [`Initialization`]. Dropout masks are a pure function of the seed, the place in the network, and the token's
//!   position in the global batch.
//! - **Unsupported input is rejected.** A configuration of another model, mismatched weights and pickles of anything
//!   but tensors are errors that name the file, the key or the tensor. Wrong tensor shapes in a forward pass are
//!   programmer errors and panic.

mod adapters;
mod checkpoint;
mod config;
mod error;
mod init;
pub mod layers;
mod models;

#[doc(no_inline)]
pub use bert_kernels::gelu::Gelu;

pub use crate::adapters::{
    AdapterFolder, AdapterFusion, AdapterMetadata, FusionFolder, read_adapter, read_fusion, save_fusion,
};
pub use crate::checkpoint::foreign_weights::is_adapter_folder;
pub use crate::checkpoint::load::{LoadPolicy, load_named_tensors};
pub use crate::checkpoint::parameter_names::NamedTensors;
pub use crate::checkpoint::pretrained::{
    Sink, find_config, find_weights, folder_sink, load_pretrained_weights, read_pretrained_config,
    read_pretrained_tensors,
};
pub use crate::checkpoint::pytorch::read_pytorch;
pub use crate::checkpoint::safetensors::read_safetensors;
pub use crate::checkpoint::snapshot::Snapshot;
pub use crate::checkpoint::tensorflow::read_tensorflow;
pub use crate::checkpoint::tokenizer_files::FolderTokenizer;
pub use crate::checkpoint::weights_files::{WeightsFiles, WeightsForm};
pub use crate::config::adapter::{AdapterConfig, BottleneckForm};
pub use crate::config::{BertConfig, Preset};
pub use crate::error::{Class, Error, LoadReport};
#[doc(hidden)]
pub use crate::error::{config_key, missing_file, not_tied};
pub use crate::init::{Initialization, initialize};
pub use crate::layers::dropout::{DropoutKey, Mode, SelectedTokens, Site, dropout};
pub use crate::models::architecture::Architecture;
pub use crate::models::bert::{BertInput, BertModel, BertOutput, BertPooler, BertStates};
pub use crate::models::classification::{
    BertForMultipleChoice, BertForSequenceClassification, BertForSeveralTasks, BertForTokenClassification,
    token_loss,
};
pub use crate::models::feature_head::{BertWithFeatureHead, FeatureHead, FeatureHeadKind};
pub use crate::models::gradient_checkpointing::RecomputeState;
pub use crate::models::pretrained::{load_pretrained, save_pretrained};
pub use crate::models::pretraining::{
    BertForPreTraining, BertPredictionHead, BertPredictionHeadTransform, BertPretrainingHeads,
    LossNormalizer, PretrainingInput, PretrainingLoss, PretrainingOutput, PretrainingScores,
    PretrainingTargets, classification_loss, cross_entropy, cross_entropy_sum, regression_loss,
};
pub use crate::models::question_answering::{BertForQuestionAnswering, SpanLogits, span_loss};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use crate::adapters::{is_adapter_parameter, is_fusion_parameter};
#[doc(hidden)]
pub use crate::checkpoint::{
    foreign_weights::{is_fusion_folder, reject_adapter, reject_other_weights},
    load::{CurrentTensors, current_names},
    parameter_names::{hf_name, is_transposed, map_parameters, named_parameters},
    pretrained::reject_weights_file,
    safetensors::{
        named_tensors_from_bytes, named_tensors_to_bf16_bytes, named_tensors_to_bytes,
        named_tensors_to_f16_bytes, to_safetensors_bytes,
    },
    snapshot::{OnRelease, to_named_tensors},
    tokenizer_files::DESCRIPTION,
    weights_files::WEIGHTS,
};
#[doc(hidden)]
pub use crate::init::log_bilinear::{LogBilinear, LogBilinearShape, LogBilinearSide};
#[doc(hidden)]
pub use crate::models::{contents::FolderContents, pretrained::files_except_weights};
