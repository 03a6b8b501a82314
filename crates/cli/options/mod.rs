//! Options: the command line, files of options and recipes, help texts, and values that several commands share.

pub mod command_line;
pub mod help;
pub mod hub_data;
pub mod numbers;
pub mod options_file;
pub mod recipe;
pub mod run_args;
pub mod saved_config;
pub mod standard_input;
pub mod version;
