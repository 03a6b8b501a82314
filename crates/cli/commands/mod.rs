//! One module per command; each has an `Args` struct and a `run`.

pub mod finetune;
pub mod make_pretrain_data;
pub mod pretrain;
