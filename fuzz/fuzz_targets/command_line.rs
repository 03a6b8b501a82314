//! See `program_checks::command_line`.
#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "the other targets' checks")]
mod checks;
#[path = "../program_checks.rs"]
#[expect(dead_code, reason = "the list for the test of the corpus")]
mod program_checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| program_checks::command_line(bytes));
