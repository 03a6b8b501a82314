//! Folders of models: resolves and opens them, and reads and writes their checkpoints and records.

pub mod builtin_model;
pub mod checkpoint;
pub(crate) mod description;
pub mod encoder_record;
pub mod hub_model;
pub mod json_file;
pub mod loaded_model;
pub(crate) mod model_folder;
pub(crate) mod model_options;
pub(crate) mod resolved;
pub(crate) mod seed_models;
