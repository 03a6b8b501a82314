//! The program `finetune`.

use std::process::ExitCode;

use bert::commands::training::finetune::run;
use bert::options::saved_config;
use bert::process::exit::run_program;
use bert::process::threads::allow_huge_pages;

#[global_allocator]
static ALLOCATOR: bert::TrainingAllocator = bert::training_allocator();

fn main() -> ExitCode {
    allow_huge_pages(false);
    run_program(|| saved_config::parse().and_then(run))
}
