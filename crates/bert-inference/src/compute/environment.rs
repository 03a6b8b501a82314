//! Records the environment that affects a run's exact bits: the program, its kernels and the processor.
//!
//! The summation order of a matrix product depends on the processor's vector instructions and L1 cache, never on the
//! number of threads. A run that continues with another program or on another processor is equally valid, but its bits
//! may differ from an uninterrupted run.

use serde_json::{Value, json};

/// Returns the program and the processor, as `run.json` records them.
pub fn environment() -> Value {
    let [bytes, ways, line] = bert_kernels::processor::l1_cache();
    json!({
        "program": concat!("bert ", env!("CARGO_PKG_VERSION")),
        "kernels": bert_kernels::VERSION,
        "system": std::env::consts::OS,
        "instruction_set": bert_kernels::processor::instruction_set(),
        "l1_cache": { "bytes": bytes, "ways": ways, "line": line },
    })
}
