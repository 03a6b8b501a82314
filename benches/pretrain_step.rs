//! Measures a pre-training step: sequences per second, the share of the rate of a large matrix product, memory, and
//! the ratio to PyTorch, in alternating turns.
//!
//! ```sh
//! cargo bench --profile dev --bench pretrain_step -- --model mini --batch-size 32 --steps 10
//! BERT_PYTHON=python cargo bench --profile dev --bench pretrain_step -- --model mini --precision bf16 --peers f32,bf16,bf16+compile
//! ```
//!
//! The work is the same as in `benches/peers/torch_pretrain.py`: one synthetic batch, dropout 0.1, masked-LM head on
//! the masked positions, forward and backward pass, gradient clipping and AdamW. The operations per sequence come
//! from `BertConfig::flops_per_sequence`, which counts only matrix products; the estimate of 6 operations per
//! parameter and token is not used.

use clap::Parser;

use peer::Work;
use synthetic::SyntheticRun;
use yardstick::Yardstick;

#[path = "peers/peer.rs"]
mod peer;
#[path = "../crates/bert-training/tests/synthetic/mod.rs"]
mod synthetic;
#[path = "peers/yardstick.rs"]
mod yardstick;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    work: Work,
    #[arg(long, default_value_t = 20)]
    predictions: usize,
}

fn main() {
    let args = Args::parse();
    let work = &args.work;
    let config = work.begin();
    let flops = config.flops_per_sequence(work.seq_length, args.predictions);
    let device = work.device.open().expect("the device opens");
    let before = peer::resident_mib();
    let mut run = SyntheticRun::new(&config, work.batch_size, work.seq_length, args.predictions, &device);
    for _ in 0..3 {
        run.step();
    }
    println!("BERT-{}, batch {}, length {}", work.model.name(), work.batch_size, work.seq_length);
    let mut yardstick = Yardstick::default();
    let ours = || {
        let figures = work.measure(before, || _ = run.step());
        yardstick.measure(config.compute.precision, &device);
        yardstick.print(flops * figures.sequences_per_second);
        figures
    };
    let predictions = args.predictions.to_string();
    let peers = work.peers("torch_pretrain.py", &[("--predictions", predictions.as_str())]);
    peer::in_turn(work.turns, ours, &peers);
}
