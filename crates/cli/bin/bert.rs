//! The program `bert`.

use std::process::ExitCode;

use bert::commands;
use bert::process::exit::run_program;
use bert::process::threads::allow_huge_pages;

#[global_allocator]
static ALLOCATOR: bert::TrainingAllocator = bert::training_allocator();

fn main() -> ExitCode {
    allow_huge_pages(false);
    run_program(commands::bert::run)
}
