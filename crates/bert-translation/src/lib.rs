//! BERT-fused translation in [burn]: a Transformer whose layers attend to a frozen BERT as well (Zhu et al.,
//! "Incorporating BERT into Neural Machine Translation", ICLR 2020).
//!
//! Let `H` be the hidden states that a layer takes as input, `B` BERT's last hidden states of the source sentence, and
//! `S` the output of masked self-attention. Then:
//!
//! - an encoder layer computes `1/2 attention(H, H) + 1/2 attention(H, B)`, then the feed-forward network;
//! - a decoder layer computes masked self-attention, `1/2 attention(S, encoder) + 1/2 attention(S, B)`, then the
//!   feed-forward network.
//!
//! Each of these steps ends with dropout, the residual and LayerNorm. In training, drop-net replaces the mean by one of
//! its terms in some steps. The projections of both attentions are separate. BERT is not trained.
//!
//! # Tour
//!
//! | module | contents |
//! |---|---|
//! | `config` | sizes and probabilities; [`Fusion`] selects the use of BERT |
//! | `layers` | attention, drop-net, layers of the encoder and the decoder |
//! | `model` | the model and its loss; decoding with a cache; greedy and beam search |
//! | `text` | parallel text, word pieces, batches |
//! | `training` | the training run and its checkpoints |
//! | `translator` | translation of new sentences |
//!
//! Kernels, the training step, AdamW, checkpoints and tokenizers come from the other crates of the workspace.

mod config;
mod layers;
mod model;
mod text;
mod training;
mod translator;

pub use bert_storage::Error;
pub use config::{Fusion, TranslationConfig};
pub use model::beam_search::{SearchConfig, SpecialTokens, Translation, translate};
pub use model::transformer::{EncodedSource, SourceBatch, TargetBatch, TranslationLoss, TranslationModel};
pub use text::parallel::{ParallelText, SentencePair};
pub use training::config::TrainConfig;
pub use training::run::{StepMetrics, TrainEvent, TrainOutcome, train};
pub use translator::{TranslatedSentence, Translator};

// The program and the tests use these items, which may change in any version.
#[doc(hidden)]
pub use layers::{
    decoder::DecoderLayer,
    drop_net::Branches,
    encoder::{EncoderLayer, MaskedStates},
    positions::causal_bias,
};
#[doc(hidden)]
pub use model::{beam_search::StepScores, initialization::initialize};
#[doc(hidden)]
pub use text::{
    parallel::{ParallelArgs, check_lines},
    tokenizers::is_wide,
};
