//! The program `finetune`.

use std::process::ExitCode;

use bert::{commands, exit, saved_config};
use bert_allocator::ExitOnOom;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ExitOnOom<MiMalloc> = bert::training_allocator();

fn main() -> ExitCode {
    exit::finish(saved_config::parse().and_then(commands::finetune::run))
}
