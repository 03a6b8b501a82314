//! Measures a fine-tuning step of a classifier: sequences per second, memory, and the ratio to PyTorch, in
//! alternating turns.
//!
//! ```sh
//! BERT_PYTHON=python cargo bench --profile dev --bench finetune_step -- --model mini
//! ```
//!
//! The work is the same as in `benches/peers/torch_finetune.py`: two labels, dropout 0.1, forward and backward pass,
//! gradient clipping and AdamW. Weights and words are random; the rows have 24 to 116 tokens (mean 70, like RTE's
//! pairs) and both sides compute all padded positions.

use clap::Parser;

use peer::Work;
use synthetic::SyntheticClassifier;

#[path = "peers/peer.rs"]
mod peer;
#[path = "../crates/bert-training/tests/synthetic/mod.rs"]
mod synthetic;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    work: Work,
}

fn main() {
    let Args { work } = Args::parse();
    let config = work.begin();
    let device = work.device.open().expect("the device opens");
    let before = peer::resident_mib();
    let mut run = SyntheticClassifier::new(&config, work.batch_size, work.seq_length, &device);
    for _ in 0..3 {
        run.step();
    }
    println!("BERT-{}, batch {}, length {}", work.model.name(), work.batch_size, work.seq_length);
    let peers = work.peers("torch_finetune.py", &[]);
    peer::in_turn(work.turns, || work.measure(before, || run.step()), &peers);
}
