//! Changes of the model before training: adapters, trainable layers, features of a frozen encoder.

pub(crate) mod adapters;
