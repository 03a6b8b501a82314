//! Folders of models: resolves and opens them, and reads and writes their checkpoints and records.

pub mod builtin_model;
pub mod checkpoint;
pub mod description;
pub mod encoder_record;
pub mod hub_model;
pub mod json_file;
pub mod loaded_model;
pub mod memory_model;
pub mod model_files;
pub mod model_folder;
pub mod model_options;
pub mod resolved;
pub mod retention;
pub mod seed_models;
