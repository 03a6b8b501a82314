//! Shared code of the benchmarks against a peer: flags, alternating turns (A B A B), medians, memory and CPU time of a
//! process.
//!
//! Our measurement and the scripts of this folder run in alternating turns; the output is one line per turn, then
//! medians and ratios. A peer is a separate process that prints one JSON object. It runs under the Python named by
//! `BERT_PYTHON` (with torch and transformers); without it, peers are skipped.

use std::process::Command;
use std::time::Instant;

use bert::process::threads::allow_huge_pages;
use bert_inference::{DeviceName, KernelChoice, PrecisionChoice};
use bert_model::{BertConfig, Preset};

/// Common flags of the benchmarks.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// tiny, mini, small, medium, base or large.
    #[arg(long, default_value = "mini")]
    pub(crate) model: Preset,
    #[arg(long, default_value_t = 32)]
    pub(crate) batch_size: usize,
    #[arg(long, default_value_t = 128)]
    pub(crate) seq_length: usize,
    /// Measured steps per turn.
    #[arg(long, default_value_t = 10)]
    pub(crate) steps: usize,
    /// Turns per program.
    #[arg(long, default_value_t = 3)]
    pub(crate) turns: usize,
    #[arg(long, value_enum, default_value_t = KernelChoice::Fused)]
    pub(crate) kernels: KernelChoice,
    /// Precision of our program.
    #[arg(long, value_enum, default_value_t = PrecisionChoice::F32)]
    precision: PrecisionChoice,
    #[arg(long, default_value_t = DeviceName::Flex)]
    pub(crate) device: DeviceName,
    /// Device of the peer, as PyTorch names it: cpu, cuda or mps.
    #[arg(long, default_value = "cpu")]
    torch_device: String,
    /// Precisions of the peer, each a separate program: f32, bf16 (autocast), either with `+compile`.
    #[arg(long, value_delimiter = ',', default_value = "f32")]
    peers: Vec<String>,
    /// Flag that cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Work {
    /// Sets up the process as the programs do, and returns the model configuration: a vocabulary of 30,522 and two
    /// labels.
    pub(crate) fn begin(&self) -> BertConfig {
        allow_huge_pages(false);
        bert::process::threads::ThreadArgs::default().start_pool();
        self.precision.check(self.device, self.kernels).expect("the device has this precision");
        let compute = self.precision.with(self.kernels);
        BertConfig { num_labels: 2, compute, ..BertConfig::preset(self.model, 30_522) }
    }

    /// Measures one turn of our program: `steps` runs of `work`. `before_mib` is [`resident_mib`] at the start.
    pub(crate) fn measure(&self, before_mib: f64, mut work: impl FnMut()) -> Figures {
        let cpu = cpu_seconds();
        let seconds = (0..self.steps).map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        });
        let seconds = median(seconds.collect());
        Figures {
            sequences_per_second: self.batch_size as f64 / seconds,
            cpu_seconds: (cpu_seconds() - cpu) / self.steps as f64,
            peak_mib: status_mib("VmHWM:"),
            before_mib,
        }
    }

    /// Returns the peers that do the same work on the same number of threads as this process, with additional flags.
    pub(crate) fn peers(&self, script: &'static str, own: &[(&str, &str)]) -> Vec<Peer> {
        let named = self.peers.iter().filter(|name| !name.is_empty());
        named.map(|name| self.peer(name, script, own)).collect()
    }

    fn peer(&self, name: &str, script: &'static str, own: &[(&str, &str)]) -> Peer {
        let (precision, compile) = match name.strip_suffix("+compile") {
            Some(precision) => (precision, true),
            None => (name, false),
        };
        let shared = [
            ("--model", self.model.name().to_string()),
            ("--batch-size", self.batch_size.to_string()),
            ("--seq-length", self.seq_length.to_string()),
            ("--steps", self.steps.to_string()),
            ("--threads", rayon::current_num_threads().to_string()),
            ("--precision", precision.to_string()),
            ("--device", self.torch_device.clone()),
        ];
        let own = own.iter().map(|&(flag, value)| (flag, value.to_string()));
        let arguments = shared.into_iter().chain(own).flat_map(|(flag, value)| [flag.to_string(), value]);
        let arguments = arguments.chain(compile.then(|| "--compile".to_string())).collect();
        Peer { label: format!("PyTorch {name}"), script, arguments }
    }
}

/// Measurements of one program in one turn.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Median over the steps of the turn.
    pub(crate) sequences_per_second: f64,
    /// CPU time of all threads, in seconds per step; the measurement least affected by other load.
    pub(crate) cpu_seconds: f64,
    /// Peak memory of the process (`VmHWM`), in MiB.
    pub(crate) peak_mib: f64,
    /// Memory before the model was created, in MiB: the program and its libraries.
    pub(crate) before_mib: f64,
}

/// A peer: the label of its column, its script and the script's arguments.
pub(crate) struct Peer {
    /// The label as printed.
    pub(crate) label: String,
    /// File name in this folder.
    pub(crate) script: &'static str,
    /// Arguments of the script.
    pub(crate) arguments: Vec<String>,
}

/// Runs our program and the peers alternately, `turns` times each; prints all measurements and the ratios of the
/// medians.
pub(crate) fn in_turn(turns: usize, mut ours: impl FnMut() -> Figures, peers: &[Peer]) {
    let python = std::env::var("BERT_PYTHON").ok();
    let peers = if python.is_some() { peers } else { &[] };
    let mut own = Vec::new();
    let mut others = vec![Vec::new(); peers.len()];
    for turn in 1..=turns {
        let figures = ours();
        print(turn, "ours", &figures);
        own.push(figures);
        for (peer, all) in peers.iter().zip(&mut others) {
            let figures = run(python.as_deref().expect("there are peers"), peer);
            print(turn, &peer.label, &figures);
            all.push(figures);
        }
    }
    let speed = |all: &[Figures]| median(all.iter().map(|f| f.sequences_per_second).collect());
    // The memory of our process grows from turn to turn, while a peer starts a new process for each turn. Therefore,
    // only the first turns are compared.
    let peak = |all: &[Figures]| all[0].peak_mib;
    let above = |all: &[Figures]| all[0].peak_mib - all[0].before_mib;
    println!("median: ours {:.1} sequences/s", speed(&own));
    for (peer, all) in peers.iter().zip(&others) {
        let ratios = own.iter().zip(all).map(|(a, b)| a.sequences_per_second / b.sequences_per_second);
        let cpu = own.iter().zip(all).map(|(a, b)| b.cpu_seconds / a.cpu_seconds);
        println!(
            "median: {} {:.1} sequences/s; ours is {:.2} times as fast in wall time, {:.2} in CPU time; \
             our peak is {:.2} of its peak, {:.2} above what was held before the model",
            peer.label,
            speed(all),
            median(ratios.collect()),
            median(cpu.collect()),
            peak(&own) / peak(all),
            above(&own) / above(all),
        );
    }
    if python.is_none() {
        println!("no peer: set BERT_PYTHON to a Python with torch and transformers");
    }
}

fn print(turn: usize, label: &str, figures: &Figures) {
    println!(
        "turn {turn}: {label:20} {:8.1} sequences/s, {:.3} CPU seconds a step, peak {:.0} MiB ({:.0} before the model)",
        figures.sequences_per_second, figures.cpu_seconds, figures.peak_mib, figures.before_mib
    );
}

/// Returns the resident memory of this process in MiB.
pub(crate) fn resident_mib() -> f64 {
    status_mib("VmRSS:")
}

/// Returns the median; for an even number of values, the upper one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns a value of Linux's status of this process, in MiB; NaN on other systems.
fn status_mib(key: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(f64::NAN, |kib| kib / 1024.0)
}

/// Returns the user and system time of this process, from Linux's statistics (hundredths of a second); NaN on other
/// systems.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name in parentheses. The first is field 3 of proc(5); utime and stime are fields 14 and
    // 15.
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|f| f.parse().unwrap_or(0.0))
        .collect();
    fields.get(11..13).map_or(f64::NAN, |times| times.iter().sum::<f64>() / 100.0)
}

fn run(python: &str, peer: &Peer) -> Figures {
    let script = format!("{}/benches/peers/{}", env!("CARGO_MANIFEST_DIR"), peer.script);
    // Allow huge pages for the peer, which inherits the setting of this process.
    allow_huge_pages(true);
    let output = Command::new(python).arg(script).args(&peer.arguments).output().expect("the peer runs");
    allow_huge_pages(false);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the peer prints JSON");
    let number = |key: &str| json[key].as_f64().expect("a number");
    Figures {
        sequences_per_second: number("sequences_per_second"),
        cpu_seconds: number("cpu_seconds"),
        peak_mib: number("peak_mib"),
        before_mib: number("before_mib"),
    }
}
