//! Checkpoints in Hugging Face's format: parameter names, safetensors, folders, and the files of the tokenizer.

pub(crate) mod foreign_weights;
pub mod load;
pub(crate) mod load_report;
pub mod parameter_names;
pub mod pretrained;
pub mod safetensors;
pub mod snapshot;
pub mod tokenizer_files;
