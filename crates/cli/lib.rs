//! The command-line programs: `make-pretrain-data`, `pretrain`, `finetune` and the tool `bert`.
//!
//! Each program parses its flags, calls one library function, draws its progress on stderr and prints its result to
//! stdout (with `--json` as one object). [`exit`] has the exit codes.

use std::alloc::System;

use bert_allocator::ExitOnOom;
use mimalloc::MiMalloc;

/// Returns the allocator of the programs that train. A step repeatedly allocates and frees the same large tensors. The
/// allocator of glibc returns them to the system each time, and the page faults cost a sixth of the step.
pub const fn training_allocator() -> ExitOnOom<MiMalloc> {
    let remedy = "use a smaller batch, --gradient-accumulation-steps or --recompute (pretrain), a smaller model or shorter \
                  sequences; the limit may come from the machine, the container or `ulimit -v`";
    ExitOnOom::new(MiMalloc, remedy)
}

/// Returns the allocator of the data builder: glibc's, which needs less than half the memory.
pub const fn building_allocator() -> ExitOnOom<System> {
    let remedy = "use a smaller --memory-budget or fewer --threads; the limit may come from the machine, the container or \
                  `ulimit -v`";
    ExitOnOom::new(System, remedy)
}

pub mod command_line;
pub mod commands;
pub mod exit;
pub mod help;
pub mod options_file;
pub mod process_group;
pub mod progress;
pub mod recipe;
pub mod results;
pub mod run_args;
pub mod saved_config;
pub mod signals;
mod similar_file;
pub mod status_line;
pub mod table;
pub mod terminal;
pub mod threads;
pub mod version;
