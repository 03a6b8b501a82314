//! One module per command; each has an `Args` struct and a `run`.

pub mod attention;
pub mod evaluate;
pub mod export;
pub mod fill_mask;
pub mod finetune;
pub mod inspect;
pub mod make_pretrain_data;
pub mod make_vocab;
pub mod merge;
pub mod pretrain;
pub mod quickstart;
pub mod report;
pub mod verify;

use clap::builder::RangedU64ValueParser;

/// Takes numbers from `least` on.
fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// The documented exit codes, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 error, 2 usage, 3 bad or corrupt data, 4 checkpoint invalid or of \
    another shape, 5 numerical failure, 6 output in use by another process, 130/143 stopped by SIGINT/SIGTERM";
