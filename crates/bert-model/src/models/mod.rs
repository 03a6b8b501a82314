//! Models: BERT without a head and with the heads of pre-training and of the tasks, and their losses.

pub mod architecture;
pub mod bert;
pub mod classification;
pub mod feature_head;
pub mod gradient_checkpointing;
pub mod loss;
pub mod pretraining;
pub mod question_answering;
