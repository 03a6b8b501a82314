//! The programs as a whole: the environment they run in, the examples, and the whole path.

mod environment; // closed pipes, no terminal, odd paths, --quiet and --json
mod examples; // the programs of examples/
mod packages; // the crates as a registry receives them
mod pipeline; // text to vocabulary, shards, model, evaluation, pages, export
mod quickstart;
mod run_log; // --tensorboard and --log-command
pub(crate) mod watch; // bert watch over HTTP and in the terminal
mod wheel; // the Python wheel with the four programs
