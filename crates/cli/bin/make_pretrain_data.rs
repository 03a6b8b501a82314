//! The program `make-pretrain-data`.

use std::process::ExitCode;

use bert::commands::data::make_pretrain_data::run;
use bert::options::saved_config;
use bert::process::exit::run_program;

#[global_allocator]
static ALLOCATOR: bert::BuildingAllocator = bert::building_allocator();

fn main() -> ExitCode {
    run_program(|| saved_config::parse().and_then(run))
}
