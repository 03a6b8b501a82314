//! The program `pretrain`.

use std::process::ExitCode;

use bert_cli::{commands, exit, threads};

#[global_allocator]
static ALLOCATOR: bert_cli::MiMalloc = bert_cli::MiMalloc;

fn main() -> ExitCode {
    threads::compute_on_this_thread();
    exit::finish(commands::pretrain::Args::read().and_then(commands::pretrain::run))
}
