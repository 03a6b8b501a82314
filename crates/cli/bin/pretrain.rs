//! The program `pretrain`.

use std::process::ExitCode;

use bert::commands;
use bert::options::saved_config;
use bert::process::exit;
use bert_allocator::ExitOnOom;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ExitOnOom<MiMalloc> = bert::training_allocator();

fn main() -> ExitCode {
    exit::finish(saved_config::parse().and_then(commands::training::pretrain::run))
}
