//! Tests fine-tunings of a small pre-trained run.

mod finetuning; // stops during evaluations, micro-batches
#[path = "../../../bert-training/tests/integration/world.rs"]
mod world; // the data and the runs of the tests
