//! Checkpoints in Hugging Face's format.
//!
//! `parameter_names` maps a module's parameters to published names, and `safetensors` reads and writes such tensors.
//! `load` puts them into a model and lists the differences in a [`LoadReport`](crate::LoadReport). `pretrained` reads
//! and writes whole folders, `tokenizer_files` the tokenizer in them. `snapshot` holds parameters while a file is
//! written. `foreign_weights` recognizes pickles and TensorFlow checkpoints and says how to convert them.

pub(crate) mod foreign_weights;
pub(crate) mod load;
pub(crate) mod parameter_names;
pub(crate) mod pretrained;
pub(crate) mod safetensors;
pub(crate) mod snapshot;
pub(crate) mod tokenizer_files;
