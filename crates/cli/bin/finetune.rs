//! The program `finetune`.

use std::process::ExitCode;

use bert_cli::{commands, exit, threads};

#[global_allocator]
static ALLOCATOR: bert_cli::MiMalloc = bert_cli::MiMalloc;

fn main() -> ExitCode {
    threads::compute_on_this_thread();
    exit::finish(commands::finetune::Args::read().and_then(commands::finetune::run))
}
