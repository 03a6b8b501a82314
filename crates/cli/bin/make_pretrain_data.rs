//! The program `make-pretrain-data`.

use std::alloc::System;
use std::process::ExitCode;

use bert_allocator::ExitOnOom;
use bert_cli::commands::make_pretrain_data::{Args, run};
use bert_cli::exit;

#[global_allocator]
static ALLOCATOR: ExitOnOom<System> = bert_cli::building_allocator();

fn main() -> ExitCode {
    exit::finish(Args::read().and_then(run))
}
