//! BERT-fused translation in [burn]: a Transformer whose layers attend to a frozen BERT as well (Zhu et al.,
//! "Incorporating BERT into Neural Machine Translation", ICLR 2020).
//!
//! With `H` the hidden states of a layer's input and `B` BERT's last hidden states of the source sentence:
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
//! | [`config`] | sizes and probabilities; [`Fusion`](config::Fusion) selects the use of BERT |
//! | [`layers`] | attention, drop-net, layers of the encoder and the decoder |
//! | [`model`] | the model and its loss; decoding with a cache; greedy and beam search |
//! | [`text`] | parallel text, word pieces, batches |
//! | [`training`] | the training run and its checkpoints |
//! | [`translator`] | translation of new sentences |
//!
//! Kernels, the training step, AdamW, checkpoints and tokenizers come from the other crates of the workspace.

pub mod config;
pub mod error;
pub mod layers;
pub mod model;
pub mod text;
pub mod training;
pub mod translator;

pub use error::Error;
