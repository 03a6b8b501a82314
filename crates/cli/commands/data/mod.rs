//! Commands that read text or pre-training data.

pub mod engine;
pub mod make_pretrain_data;
pub mod make_vocab;
pub mod verify;
