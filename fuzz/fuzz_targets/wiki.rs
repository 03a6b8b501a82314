//! See `checks::wiki`.
#![no_main]

#[path = "../checks.rs"]
#[expect(dead_code, reason = "the other targets' checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::wiki(bytes));
