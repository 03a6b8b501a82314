//! Measures evaluation: forward passes of the classifier or of both pre-training heads, and the ratio to PyTorch, in
//! alternating turns.
//!
//! ```sh
//! BERT_PYTHON=python cargo bench --profile dev --bench evaluate -- --task classifier --model mini
//! BERT_PYTHON=python cargo bench --profile dev --bench evaluate -- --task pretraining --model mini
//! ```
//!
//! The work is the same as in `benches/peers/torch_evaluate.py` in inference mode: the predicted classes, or losses and
//! correct predictions of both heads. Weights and words are random; the rows have 24 to 116 tokens (mean 70) and both
//! sides compute all padded positions.

use std::hint::black_box;

use clap::{Parser, ValueEnum};

use peer::Work;
use synthetic::{synthetic_classification, synthetic_evaluation};

#[path = "peers/peer.rs"]
mod peer;
#[path = "../crates/bert-training/tests/synthetic/mod.rs"]
mod synthetic;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone, Copy, ValueEnum)]
enum Task {
    Classifier,
    Pretraining,
}

#[derive(Parser)]
struct Args {
    #[arg(long, value_enum, default_value_t = Task::Classifier)]
    task: Task,
    /// Masked positions per row, for the pre-training heads.
    #[arg(long, default_value_t = 20)]
    predictions: usize,
    #[command(flatten)]
    work: Work,
}

fn main() {
    let args = Args::parse();
    let work = &args.work;
    let config = work.begin();
    let device = work.device.open().expect("the device opens");
    let before = peer::resident_mib();
    let batch = work.batch_size;
    let seq = work.seq_length;
    let (name, mut pass): (_, Box<dyn FnMut()>) = match args.task {
        Task::Classifier => {
            let mut classes = synthetic_classification(&config, batch, seq, &device);
            ("classifier", Box::new(move || _ = black_box(classes())))
        }
        Task::Pretraining => {
            let mut sums = synthetic_evaluation(&config, batch, seq, args.predictions, &device);
            ("pretraining", Box::new(move || _ = black_box(sums())))
        }
    };
    for _ in 0..3 {
        pass();
    }
    println!("BERT-{}, {name}, batch {batch}, length {seq}, forward only", work.model.name());
    let own = [("--predictions", args.predictions.to_string()), ("--task", name.to_string())];
    let own = own.each_ref().map(|(flag, value)| (*flag, value.as_str()));
    let peers = work.peers("torch_evaluate.py", &own);
    peer::in_turn(work.turns, || work.measure(before, &mut pass), &peers);
}
