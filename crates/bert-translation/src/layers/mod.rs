//! The layers of the encoder and the decoder, with and without attention over BERT.

pub(crate) mod attention;
pub(crate) mod blocks;
pub(crate) mod decoder;
pub(crate) mod drop_net;
pub(crate) mod encoder;
pub(crate) mod positions;
