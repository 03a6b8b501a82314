//! Properties of command lines: see `checks.rs`. A separate module, because the programs are slow to build for a fuzzer.

use std::ffi::OsString;

use bert::commands::bert::programs;
use bert::options::numbers;
use bert::training::PretrainConfig;
use clap::FromArgMatches;

use super::checks::Check;

/// All targets of the programs.
pub(crate) const PROGRAM_CHECKS: [Check; 1] = [("command_line", command_line)];

/// Checks the flags of a program, one argument a line: the first byte selects the program. A program can compute with
/// each accepted command line.
pub(crate) fn command_line(bytes: &[u8]) {
    let Some((&program, arguments)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(arguments);
    let mut programs = programs();
    let command = programs.swap_remove(usize::from(program) % programs.len());
    let is_pretrain = command.get_name() == "pretrain";
    let line = std::iter::once("program").chain(text.lines()).map(OsString::from);
    let Ok(matches) = numbers::parse(command, line) else { return };
    if is_pretrain
        && let Ok(config) = PretrainConfig::from_arg_matches(&matches)
        && config.validate().is_ok()
    {
        assert!(config.micro_batches() >= 1 && config.largest_micro_batch() <= config.batch_size);
        let _ = config.warmup();
    }
}
