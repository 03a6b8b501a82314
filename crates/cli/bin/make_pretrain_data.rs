//! The program `make-pretrain-data`.

use std::alloc::System;
use std::process::ExitCode;

use bert::commands::make_pretrain_data::run;
use bert::{exit, saved_config};
use bert_allocator::ExitOnOom;

#[global_allocator]
static ALLOCATOR: ExitOnOom<System> = bert::building_allocator();

fn main() -> ExitCode {
    exit::finish(saved_config::parse().and_then(run))
}
