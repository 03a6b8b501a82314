//! The program `make-pretrain-data`.

use std::alloc::System;
use std::process::ExitCode;

use bert_allocator::ExitOnOom;
use bert_cli::commands::make_pretrain_data::run;
use bert_cli::{exit, saved_config};

#[global_allocator]
static ALLOCATOR: ExitOnOom<System> = bert_cli::building_allocator();

fn main() -> ExitCode {
    exit::finish(saved_config::parse().and_then(run))
}
