//! The command-line programs: `make-pretrain-data`, `pretrain`, `finetune` and the tool `bert`.
//!
//! Each program parses its flags, calls one library function, draws its progress on stderr and
//! prints its result on stdout (`--json`: as one object). What the programs compute is in the
//! libraries; how they end is in [`exit`].

pub mod commands;
pub mod exit;
pub mod progress;
pub mod signals;
