//! Tests of the programs as a user runs them: one binary, one folder per stage.
//!
//! Each test makes its data from a few shortened articles of `corpora/`, with a model of about ten thousand parameters.
//! Tests need no network, GPU or external program; the exceptions are ignored, with the reason (`scripts/check --all`
//! runs them).

mod browser; // pages in Chromium
mod command_line; // flags that the programs share
#[cfg(unix)]
mod commands; // every command with only its required arguments
mod common; // a test folder, the programs, small data and a small model
mod data; // the data builder
#[cfg(feature = "wgpu")]
mod device; // runs on a GPU
mod distributed; // several processes over TCP: bert launch, refused groups
mod finetuning; // fine-tunings of every kind, their resume, and what their reports say
mod help; // --help of every command
mod inference; // models in use: predictions, folders of other projects, the Python libraries
mod pretraining; // pre-training runs: initialization, recipes, limits, resume
mod programs; // the environment, the examples, and the whole path
mod reliability; // wrong, damaged and hostile input, kills, full disks
