//! The data builder as a whole process: CPU seconds over all threads, wall time, peak memory, bytes on disk.
//!
//! ```sh
//! cargo bench --bench make_pretrain_data
//! cargo bench --bench make_pretrain_data -- --corpus text.zst --vocab vocab.txt --turns 5
//! ```
//!
//! The figures are those of GNU time (`/usr/bin/time`), which sees the whole process; of several turns the
//! smallest counts, because other work on the machine only adds. The corpus is the bench corpus of 8.43 MB, for
//! which the goals stand.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "../shared/data/corpora/bench_sentences.txt.zst")]
    corpus: PathBuf,
    #[arg(long, default_value = "../shared/data/vocab/bert-base-uncased-vocab.txt")]
    vocab: PathBuf,
    /// Turns of each measurement.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// What cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The smallest of each figure over the turns.
#[derive(Clone, Copy)]
struct Figures {
    cpu: f64,
    wall: f64,
    /// MiB.
    memory: f64,
    /// Bytes of the shards.
    bytes: u64,
}

fn main() {
    let args = Args::parse();
    if !args.corpus.exists() || !args.vocab.exists() {
        println!("skipped: {} and {} are needed", args.corpus.display(), args.vocab.display());
        return;
    }
    let measure = |flags: &str| measure(&args, flags);
    let one = measure("--dupe-factor 10 --threads 1");
    let two = measure("--dupe-factor 10 --threads 2");
    line("dupe 10, keyed, 1 thread: CPU", one.cpu, "s", "<= 1.5");
    line("dupe 10, keyed, 2 threads: CPU", two.cpu, "s", "<= 1.5");
    line("wall time, 1 thread over 2", one.wall / two.wall, "x", ">= 1.8");
    let few = measure("--dupe-factor 1 --threads 2");
    let many = measure("--dupe-factor 40 --threads 2");
    line("peak memory, dupe 1", few.memory, "MiB", "as at dupe 10, within 10 %");
    line("peak memory, dupe 10", two.memory, "MiB", "<= 150");
    line("peak memory, dupe 40", many.memory, "MiB", "as at dupe 10, within 10 %");
    let five = measure("--dupe-factor 5");
    line("shards of dupe 5", five.bytes as f64 / 1e6, "MB", "<= 24");
    let dynamic = measure("--dupe-factor 5 --masking dynamic");
    line("shards of dupe 5, dynamic masking", dynamic.bytes as f64 / 1e6, "MB", "");
    let reference = measure("--dupe-factor 10 --random reference");
    line("dupe 10, reference: CPU", reference.cpu, "s", "<= 6");
    let dry = measure("--dupe-factor 10 --dry-run");
    line("dry run: CPU", dry.cpu, "s", "");
}

fn line(what: &str, value: f64, unit: &str, goal: &str) {
    let goal = if goal.is_empty() { String::new() } else { format!("   goal {goal}") };
    println!("{what:<40}{value:>9.2} {unit}{goal}");
}

fn measure(args: &Args, flags: &str) -> Figures {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let turns = (0..args.turns.max(1)).map(|_| turn(args, flags, &data));
    turns
        .reduce(|a, b| Figures {
            cpu: a.cpu.min(b.cpu),
            wall: a.wall.min(b.wall),
            memory: a.memory.min(b.memory),
            bytes: b.bytes,
        })
        .expect("one turn at least")
}

fn turn(args: &Args, flags: &str, data: &Path) -> Figures {
    let output = Command::new("/usr/bin/time")
        .args(["-f", "%U %S %e %M", env!("CARGO_BIN_EXE_make-pretrain-data")])
        .arg("--input")
        .arg(&args.corpus)
        .arg("--vocab")
        .arg(&args.vocab)
        .arg("--output")
        .arg(data)
        .args(["--overwrite", "--quiet"])
        .args(flags.split(' '))
        .output()
        .expect("/usr/bin/time (GNU time) is needed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags}: {stderr}");
    let last: Vec<f64> = stderr
        .lines()
        .last()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    let [user, system, wall, kilobytes] = last[..] else { panic!("not the output of GNU time: {stderr}") };
    let shards = std::fs::read_dir(data).into_iter().flatten().flatten();
    let bytes = shards
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "parquet"))
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    Figures { cpu: user + system, wall, memory: kilobytes / 1024.0, bytes }
}
