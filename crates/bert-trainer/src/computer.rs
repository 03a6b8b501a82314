//! What decides the bits of a run besides its configuration: the program, its kernels and the processor.
//!
//! Matrix products add up in an order that depends on the processor's vectors and first cache, never on its threads.
//! So a run that goes on with another program or processor is as good as before, but its bits may differ from those
//! of a run that did not move.

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
