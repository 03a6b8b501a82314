//! Evaluation: forward passes of the classifier or of both pre-training heads, and the ratio to PyTorch in turn.
//!
//! ```sh
//! BERT_PYTHON=python cargo bench --profile dev --bench evaluate -- --task classifier --model mini
//! BERT_PYTHON=python cargo bench --profile dev --bench evaluate -- --task pretraining --model mini
//! ```
//!
//! The work is that of `benches/peers/torch_evaluate.py` in inference mode: the predicted classes, or losses
//! and right answers of both heads. Random weights and words; the rows hold 24 to 116 tokens (mean 70) and
//! both sides compute all of the padded places.

use std::hint::black_box;

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use bert_trainer::synthetic::{synthetic_classification, synthetic_evaluation};
use clap::{Parser, ValueEnum};
use peer::Peer;

#[path = "peers/peer.rs"]
mod peer;

#[global_allocator]
static ALLOCATOR: bert_cli::MiMalloc = bert_cli::MiMalloc;

#[derive(Clone, Copy, ValueEnum)]
enum Task {
    Classifier,
    Pretraining,
}

#[derive(Parser)]
struct Args {
    #[arg(long, value_enum, default_value_t = Task::Classifier)]
    task: Task,
    /// tiny, mini, small, medium, base or large.
    #[arg(long, default_value = "mini")]
    model: String,
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    #[arg(long, default_value_t = 128)]
    seq_length: usize,
    /// Masked places of each row, for the pre-training heads.
    #[arg(long, default_value_t = 20)]
    predictions: usize,
    /// Measured passes in each turn.
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// Turns of each program.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    #[arg(long, value_enum, default_value_t = KernelChoice::Fused)]
    kernels: KernelChoice,
    /// What cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    bert_cli::threads::compute_on_this_thread();
    let preset: Preset = args.model.parse().expect("a model size");
    let config = BertConfig { num_labels: 2, ..BertConfig::preset(preset, 30_522) };
    args.kernels.select();
    let device = DeviceName::Flex.open().expect("the device opens");
    let before = peer::resident_mib();
    let (batch, seq) = (args.batch_size, args.seq_length);
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
    println!("BERT-{}, {name}, batch {batch}, length {seq}, forward only", args.model);
    let mut arguments = peer::arguments(&args.model, batch, seq, args.steps);
    arguments.extend(["--predictions".to_string(), args.predictions.to_string()]);
    arguments.extend(["--task".to_string(), name.to_string()]);
    let peers = [Peer { label: "PyTorch f32".to_string(), script: "torch_evaluate.py", arguments }];
    peer::in_turn(args.turns, || peer::measure(args.steps, batch, before, &mut pass), &peers);
}
