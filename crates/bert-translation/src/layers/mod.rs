//! The layers of the encoder and the decoder, with and without attention over BERT.

pub mod attention;
pub mod blocks;
pub mod decoder;
pub mod drop_net;
pub mod encoder;
pub mod positions;
