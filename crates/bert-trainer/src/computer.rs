//! Records what decides a run's bits besides its configuration: the program, its kernels and the processor.
//!
//! The order in which a matrix product adds up depends on the processor's vector instructions and first-level
//! cache, never on the number of threads. A run that continues with another program or on another processor is as
//! good as before, but its bits may differ from those of a run that stayed where it was.

use serde_json::{Value, json};

/// The program and the processor, as `run.json` records them.
pub fn computed_by() -> Value {
    let [bytes, ways, line] = bert_kernels::processor::first_cache();
    json!({
        "program": concat!("bert-trainer ", env!("CARGO_PKG_VERSION")),
        "kernels": bert_kernels::VERSION,
        "system": std::env::consts::OS,
        "instruction_set": bert_kernels::processor::instruction_set(),
        "first_cache": { "bytes": bytes, "ways": ways, "line": line },
    })
}
