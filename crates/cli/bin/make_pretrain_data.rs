//! The program `make-pretrain-data`.

use std::process::ExitCode;

use bert_cli::{commands, exit};
use clap::Parser;

fn main() -> ExitCode {
    exit::finish(commands::make_pretrain_data::run(commands::make_pretrain_data::Args::parse()))
}
