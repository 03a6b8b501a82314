//! See `model_checks::flax`.
#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "the other targets' checks")]
mod checks;
#[path = "../model_checks.rs"]
#[expect(dead_code, reason = "the other targets' checks")]
mod model_checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model_checks::flax(bytes));
