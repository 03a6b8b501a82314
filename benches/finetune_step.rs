//! The fine-tuning step of a classifier: sequences a second, memory, and the ratio to PyTorch in turn.
//!
//! ```sh
//! BERT_PYTHON=python cargo bench --profile dev --bench finetune_step -- --model mini
//! ```
//!
//! The work is that of `benches/peers/torch_finetune.py`: two labels, dropout 0.1, forward, backward, clip and
//! AdamW. Random weights and words; the rows hold 24 to 116 tokens (mean 70, like RTE's pairs) and both
//! sides compute all of the padded places.

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use bert_trainer::synthetic::SyntheticClassifier;
use clap::Parser;
use peer::Peer;

#[path = "peers/peer.rs"]
mod peer;

#[global_allocator]
static ALLOCATOR: bert_cli::MiMalloc = bert_cli::MiMalloc;

#[derive(Parser)]
struct Args {
    /// tiny, mini, small, medium, base or large.
    #[arg(long, default_value = "mini")]
    model: String,
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    #[arg(long, default_value_t = 128)]
    seq_length: usize,
    /// Measured steps in each turn.
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
    let mut run = SyntheticClassifier::new(&config, args.batch_size, args.seq_length, &device);
    for _ in 0..3 {
        run.step();
    }
    println!("BERT-{}, batch {}, length {}", args.model, args.batch_size, args.seq_length);
    let arguments = peer::arguments(&args.model, args.batch_size, args.seq_length, args.steps);
    let peers = [Peer { label: "PyTorch f32".to_string(), script: "torch_finetune.py", arguments }];
    peer::in_turn(args.turns, || peer::measure(args.steps, args.batch_size, before, || run.step()), &peers);
}
