//! The program `pretrain`.

use std::process::ExitCode;

use bert::commands;
use bert::options::saved_config;
use bert::options::version::COMMIT;
use bert::process::exit;
use bert::process::threads::allow_huge_pages;
use bert::storage::set_commit;
use bert_allocator::ExitOnOom;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ExitOnOom<MiMalloc> = bert::training_allocator();

fn main() -> ExitCode {
    allow_huge_pages(false);
    set_commit(COMMIT);
    exit::finish(saved_config::parse().and_then(commands::training::pretrain::run))
}
