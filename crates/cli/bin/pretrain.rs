//! The program `pretrain`.

use std::process::ExitCode;

use bert_allocator::ExitOnOom;
use bert_cli::{commands, exit, saved_config};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ExitOnOom<MiMalloc> = bert_cli::training_allocator();

fn main() -> ExitCode {
    exit::finish(saved_config::parse().and_then(commands::pretrain::run))
}
