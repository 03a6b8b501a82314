//! The program `finetune`.

use std::process::ExitCode;

use bert_cli::{commands, exit};
use clap::Parser;

fn main() -> ExitCode {
    exit::finish(commands::finetune::run(commands::finetune::Args::parse()))
}
