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

use bert_trainer::DeviceName;
use bert_trainer::precision::PrecisionChoice;
use clap::Parser;
use peer::Work;
use synthetic::{SyntheticRun, matrix_product_rate};

#[path = "peers/peer.rs"]
mod peer;
#[path = "../crates/bert-trainer/tests/synthetic/mod.rs"]
mod synthetic;

#[global_allocator]
static ALLOCATOR: bert_cli::MiMalloc = bert_cli::MiMalloc;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    work: Work,
    #[arg(long, default_value_t = 20)]
    predictions: usize,
    #[arg(long, default_value_t = DeviceName::Flex)]
    device: DeviceName,
    #[arg(long, value_enum, default_value_t = PrecisionChoice::F32)]
    precision: PrecisionChoice,
    /// Precisions of the peer, each a program of its own: f32, bf16 (autocast).
    #[arg(long, value_delimiter = ',', default_value = "f32")]
    peers: Vec<String>,
}

fn main() {
    let args = Args::parse();
    let work = &args.work;
    let mut config = work.begin();
    config.compute = args.precision.with(work.kernels);
    let flops = config.flops_per_sequence(work.seq_length, args.predictions);
    args.precision.check(args.device, work.kernels).expect("the device has this precision");
    let device = args.device.open().expect("the device opens");
    let before = peer::resident_mib();
    let mut run = SyntheticRun::new(&config, work.batch_size, work.seq_length, args.predictions, &device);
    for _ in 0..3 {
        run.step();
    }
    println!("BERT-{}, batch {}, length {}", work.model.name(), work.batch_size, work.seq_length);
    let ours = || {
        let figures = work.measure(before, || _ = run.step());
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
    let predictions = args.predictions.to_string();
    let peer = |precision: &String| {
        let own = [("--predictions", predictions.as_str()), ("--precision", precision)];
        work.peer(&format!("PyTorch {precision}"), "torch_pretrain.py", &own)
    };
    let peers: Vec<_> = args.peers.iter().map(peer).collect();
    peer::in_turn(work.turns, ours, &peers);
}
