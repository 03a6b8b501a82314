//! The program `make-pretrain-data`.

use std::alloc::System;
use std::process::ExitCode;

use bert::commands::data::make_pretrain_data::run;
use bert::options::saved_config;
use bert::options::version::COMMIT;
use bert::process::exit;
use bert::storage::set_commit;
use bert_allocator::ExitOnOom;

#[global_allocator]
static ALLOCATOR: ExitOnOom<System> = bert::building_allocator();

fn main() -> ExitCode {
    set_commit(COMMIT);
    exit::finish(saved_config::parse().and_then(run))
}
