//! The program `make-pretrain-data`.

use std::process::ExitCode;

use bert_cli::commands::make_pretrain_data::{Args, run};
use bert_cli::exit;

fn main() -> ExitCode {
    exit::finish(Args::read().and_then(run))
}
