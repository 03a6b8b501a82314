//! The pre-training step: sequences a second, share of the machine's own matrix-product rate, memory, and
//! the ratio to PyTorch in turn.
//!
//! ```sh
//! cargo bench --profile dev --bench pretrain_step -- --model mini --batch-size 32 --steps 10
//! BERT_PYTHON=python cargo bench --profile dev --bench pretrain_step -- --model mini --peers f32,bf16   # A B C A B C
//! ```
//!
//! The work is that of `benches/peers/torch_pretrain.py`: one synthetic batch, dropout 0.1, masked-LM head
//! on the masked positions, forward + backward + clip + AdamW. Work per sequence is counted by the formula
//! of `BertConfig::flops_per_sequence` (matrix products only, never 6 N tokens).

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use bert_trainer::precision::PrecisionChoice;
use bert_trainer::synthetic::{SyntheticRun, matrix_product_rate};
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
    #[arg(long, default_value_t = 20)]
    predictions: usize,
    /// Measured steps in each turn.
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// Turns of each program.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    #[arg(long, default_value_t = DeviceName::Flex)]
    device: DeviceName,
    #[arg(long, value_enum, default_value_t = KernelChoice::Fused)]
    kernels: KernelChoice,
    /// Precisions of the peer, each a program of its own: f32, bf16 (autocast).
    #[arg(long, value_delimiter = ',', default_value = "f32")]
    peers: Vec<String>,
    #[arg(long, value_enum, default_value_t = PrecisionChoice::F32)]
    precision: PrecisionChoice,
    /// What cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    bert_cli::threads::compute_on_this_thread();
    let preset: Preset = args.model.parse().expect("a model size");
    let config = BertConfig::preset(preset, 30_522);
    let flops = config.flops_per_sequence(args.seq_length, args.predictions);
    args.kernels.select();
    args.precision.check(args.device, args.kernels).expect("the device has this precision");
    args.precision.select();
    let device = args.device.open().expect("the device opens");
    let before = peer::resident_mib();
    let mut run = SyntheticRun::new(&config, args.batch_size, args.seq_length, args.predictions, &device);
    for _ in 0..3 {
        run.step();
    }
    let peers: Vec<Peer> = args.peers.iter().map(|precision| torch(&args, precision)).collect();
    println!("BERT-{}, batch {}, length {}", args.model, args.batch_size, args.seq_length);
    let ours = || {
        let figures = peer::measure(args.steps, args.batch_size, before, || _ = run.step());
        let rate = matrix_product_rate(&device);
        let done = flops * figures.sequences_per_second;
        println!(
            "        {:.0} GFLOP/s, {:.0} % of this process's matrix products ({:.0} GFLOP/s)",
            done / 1e9,
            100.0 * done / rate,
            rate / 1e9
        );
        figures
    };
    peer::in_turn(args.turns, ours, &peers);
}

fn torch(args: &Args, precision: &str) -> Peer {
    let mut arguments = peer::arguments(&args.model, args.batch_size, args.seq_length, args.steps);
    arguments.extend(["--predictions".to_string(), args.predictions.to_string()]);
    arguments.extend(["--precision".to_string(), precision.to_string()]);
    Peer { label: format!("PyTorch {precision}"), script: "torch_pretrain.py", arguments }
}
