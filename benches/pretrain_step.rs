//! The pre-training step: sequences a second, share of the machine's own matrix-product rate, and the
//! ratio to PyTorch in turn.
//!
//! ```sh
//! cargo bench --bench pretrain_step -- --model mini --batch-size 32 --steps 20
//! BERT_PYTHON=python cargo bench --bench pretrain_step -- --model mini   # with the peer, A B A B
//! ```
//!
//! The work is that of `benches/peers/torch_pretrain.py`: one synthetic batch, dropout 0.1, masked-LM head
//! on the masked positions, forward + backward + clip + AdamW. Work per sequence is counted by the formula
//! of `BertConfig::flops_per_sequence` (matrix products only, never 6 N tokens).

use std::process::Command;
use std::time::Instant;

use bert_model::{BertConfig, Preset};
use bert_trainer::DeviceName;
use bert_trainer::device::KernelChoice;
use bert_trainer::precision::PrecisionChoice;
use bert_trainer::synthetic::{SyntheticRun, matrix_product_rate};
use clap::Parser;

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
    #[arg(long, value_enum, default_value_t = PrecisionChoice::F32)]
    precision: PrecisionChoice,
    /// What cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    let preset: Preset = args.model.parse().expect("a model size");
    let config = BertConfig::preset(preset, 30_522);
    let flops = config.flops_per_sequence(args.seq_length, args.predictions);
    args.kernels.select();
    args.precision.check(args.device, args.kernels).expect("the device has this precision");
    args.precision.select();
    let device = args.device.open().expect("the device opens");
    let mut run = SyntheticRun::new(&config, args.batch_size, args.seq_length, args.predictions, &device);
    for _ in 0..3 {
        run.step();
    }
    let python = std::env::var("BERT_PYTHON").ok();
    let mut ratios = Vec::new();
    let mut ours = Vec::new();
    for turn in 1..=args.turns {
        let seconds = median((0..args.steps).map(|_| time(|| _ = run.step())).collect());
        ours.push(args.batch_size as f64 / seconds);
        let rate = matrix_product_rate(&device);
        let share = 100.0 * flops * args.batch_size as f64 / seconds / rate;
        println!(
            "turn {turn}: {:.1} sequences/s, {:.0} GFLOP/s, {share:.0} % of this process's matrix products ({:.0} GFLOP/s)",
            args.batch_size as f64 / seconds,
            flops * args.batch_size as f64 / seconds / 1e9,
            rate / 1e9
        );
        if let Some(python) = &python {
            let theirs = peer(python, &args);
            ratios.push(args.batch_size as f64 / seconds / theirs);
            println!("turn {turn}: PyTorch {theirs:.1} sequences/s, ratio {:.2}", ratios[turn - 1]);
        }
    }
    println!("{} batch {}: median {:.1} sequences/s", args.model, args.batch_size, median(ours));
    match ratios.is_empty() {
        true => println!("no peer: set BERT_PYTHON to a Python with torch and transformers"),
        false => println!("ratio to PyTorch f32: median {:.2}", median(ratios)),
    }
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sequences a second of the peer.
fn peer(python: &str, args: &Args) -> f64 {
    let numbers = [
        ("--batch-size", args.batch_size),
        ("--seq-length", args.seq_length),
        ("--predictions", args.predictions),
        ("--steps", args.steps),
    ];
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/torch_pretrain.py"));
    command.args(["--model", &args.model]);
    for (flag, number) in numbers {
        command.args([flag, &number.to_string()]);
    }
    let output = command.output().expect("the peer runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the peer prints JSON");
    json["sequences_per_second"].as_f64().expect("a number")
}
