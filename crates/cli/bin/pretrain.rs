//! The program `pretrain`.

use std::process::ExitCode;

use bert_cli::{commands, exit};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: bert_cli::MiMalloc = bert_cli::MiMalloc;

fn main() -> ExitCode {
    exit::finish(commands::pretrain::run(commands::pretrain::Args::parse()))
}
