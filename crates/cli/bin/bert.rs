//! The program `bert`.

use std::process::ExitCode;

use bert_allocator::ExitOnOom;
use bert_cli::{commands, exit};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ExitOnOom<MiMalloc> = bert_cli::training_allocator();

fn main() -> ExitCode {
    exit::finish(commands::bert::run())
}
