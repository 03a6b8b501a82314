//! Whole models: [`bert`] is the encoder with embeddings and pooler, the others add a head.
//!
//! [`architecture`] builds every model from a configuration. The heads are [`pretraining`] (masked LM and next
//! sentence), [`classification`], [`question_answering`], and [`feature_head`] for a frozen encoder. [`loss`] has their
//! losses. [`gradient_checkpointing`] computes gradients with the memory of one layer. [`pretrained`] loads and saves a
//! model's folder, [`contents`] lists the parts that a folder has.

pub mod architecture;
pub mod bert;
pub mod classification;
pub mod contents;
pub mod feature_head;
pub mod gradient_checkpointing;
pub mod loss;
pub mod pretrained;
pub mod pretraining;
pub mod question_answering;
