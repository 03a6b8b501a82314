//! See `rank_checks::messages`.
#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "the other targets' checks")]
mod checks;
#[path = "../rank_checks.rs"]
#[expect(dead_code, reason = "the other target's check")]
mod rank_checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rank_checks::messages(bytes));
