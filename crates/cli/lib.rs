//! The command-line programs: `make-pretrain-data`, `pretrain`, `finetune` and the tool `bert`.
//!
//! Each program parses its flags, calls one library function, draws its progress on stderr and prints its result on
//! stdout (with `--json` as one object). The libraries do the computing; [`exit`] says how the programs end.

/// The allocator of the programs that train: a step allocates and frees the same large tensors over and
/// over; glibc's allocator gives them back to the system each time, and the page faults cost a sixth of the
/// step. The data builder keeps glibc's, with which it needs less than half the memory.
pub use mimalloc::MiMalloc;

pub mod commands;
pub mod exit;
pub mod progress;
pub mod recipe;
pub mod results;
pub mod saved_config;
pub mod signals;
pub mod terminal;
pub mod threads;
