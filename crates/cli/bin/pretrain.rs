//! The program `pretrain`.

use std::process::ExitCode;

use bert_cli::{commands, exit};
use clap::Parser;

fn main() -> ExitCode {
    exit::finish(commands::pretrain::run(commands::pretrain::Args::parse()))
}
