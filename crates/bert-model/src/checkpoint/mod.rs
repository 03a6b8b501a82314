//! Checkpoints in Hugging Face's format, and readers of other published formats.
//!
//! `parameter_names` maps a module's parameters to published names. `weights_files` finds the weights of a folder and
//! reads them with `safetensors`, `pytorch` (and `pickle`) or `tensorflow` (and `sstable`). `load` puts tensors into a
//! model and lists the differences in a [`LoadReport`](crate::LoadReport). `pretrained` reads a folder's configuration
//! and weights and stores its files; `tokenizer_files` makes the tokenizer files. `snapshot` holds parameters while a
//! file is written. `foreign_weights` recognizes files that are not read.

pub(crate) mod foreign_weights;
pub(crate) mod load;
pub(crate) mod parameter_names;
pub(crate) mod pickle;
pub(crate) mod pretrained;
pub(crate) mod pytorch;
pub(crate) mod safetensors;
pub(crate) mod snapshot;
pub(crate) mod sstable;
pub(crate) mod tensorflow;
pub(crate) mod tokenizer_files;
pub(crate) mod weights_files;
