//! The model of a fine-tuning: its checkpoint, adapters and trainable layers.

pub mod adapters;
pub(crate) mod initial_model;
pub(crate) mod pretrained;
pub(crate) mod trainable_layers;
