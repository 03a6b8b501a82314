//! Commands that train a model.

pub(super) mod finetune_flags;

pub mod finetune;
pub mod glue;
pub mod launch;
pub mod multitask;
pub mod pretrain;
