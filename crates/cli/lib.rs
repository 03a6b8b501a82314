//! The command-line programs: `make-pretrain-data`, `pretrain`, `finetune` and the tool `bert`.
//!
//! Each program parses its flags, calls one library function, draws its progress on stderr and prints its result to
//! stdout (with `--json` as one object). [`exit`] has the exit codes.

use std::alloc::System;

use bert_allocator::EndsProgram;
use mimalloc::MiMalloc;

/// Returns the allocator of the programs that train. A step repeatedly allocates and frees the same large tensors. The
/// allocator of glibc returns them to the system each time, and the page faults cost a sixth of the step.
pub const fn training_allocator() -> EndsProgram<MiMalloc> {
    let remedy = "a smaller batch, --gradient-accumulation-steps and --recompute of pretrain, a smaller model or shorter \
                  sequences take less; the limit may be the machine's, the container's or that of `ulimit -v`";
    EndsProgram::new(MiMalloc, remedy)
}

/// Returns the allocator of the data builder: glibc's, which needs less than half the memory.
pub const fn building_allocator() -> EndsProgram<System> {
    let remedy = "a smaller --memory-budget and fewer --threads take less; the limit may be the machine's, the container's \
                  or that of `ulimit -v`";
    EndsProgram::new(System, remedy)
}

pub mod command_line;
pub mod commands;
pub mod exit;
pub mod progress;
pub mod recipe;
pub mod results;
pub mod saved_config;
pub mod signals;
pub mod terminal;
pub mod threads;
