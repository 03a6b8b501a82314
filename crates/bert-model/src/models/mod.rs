//! Whole models: [`bert`] is the encoder with embeddings and pooler, and the modules of the heads add a head to it.
//!
//! [`architecture`] builds every model from a configuration. The heads are [`pretraining`] (masked LM and next
//! sentence, and the losses of all heads), [`classification`], [`question_answering`], and [`feature_head`] for a
//! frozen encoder. [`gradient_checkpointing`] computes gradients with the memory of one layer. [`pretrained`] loads and
//! saves a model's folder, and [`contents`] lists the parts that a folder has.

pub(crate) mod architecture;
pub(crate) mod bert;
pub(crate) mod classification;
pub(crate) mod contents;
pub(crate) mod feature_head;
pub(crate) mod gradient_checkpointing;
pub(crate) mod pretrained;
pub(crate) mod pretraining;
pub(crate) mod question_answering;
