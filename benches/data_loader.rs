//! Measures the data loader alone, on one core: sequences per second from shards on disk to batches on the host.
//!
//! ```sh
//! cargo bench --bench data_loader
//! cargo bench --bench data_loader -- --corpus text.zst --vocab vocab.txt --batch-size 256
//! cargo bench --bench data_loader -- --documents --corpus 1GB.txt      # more of them than are held in memory
//! ```
//!
//! The time includes reading, checking digests and rows, shuffling, making pairs and masks where the data has none, and
//! padding, but not creating tensors. Each rate is the best of several epochs. The first line measures only the order
//! of samples: finding the shard and row of each of 1e9 samples in 20,000 shards.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bert_data::{BuildConfig, ByteSize, Layout, Masking, build};
use bert_training::{DataLoader, ShardOrder};
use clap::Parser;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "../shared/data/corpora/bench_sentences.txt.zst")]
    corpus: PathBuf,
    #[arg(long, default_value = "../shared/data/vocab/bert-base-uncased-vocab.txt")]
    vocab: PathBuf,
    #[arg(long, default_value_t = 128)]
    max_seq_length: usize,
    #[arg(long, default_value_t = 5)]
    dupe_factor: usize,
    #[arg(long, default_value_t = 256)]
    batch_size: usize,
    #[arg(long, default_value_t = 3)]
    epochs: u64,
    /// Number of length buckets in the last measurement.
    #[arg(long, default_value_t = 8)]
    length_buckets: usize,
    /// Measure only the documents layout, one epoch, and the peak memory of the process.
    #[arg(long)]
    documents: bool,
    /// Flag that cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Measures how many samples per second can be located in a very large data set, in sequence and at random.
fn order_of_many_shards() {
    let shards = 20_000;
    let rows = 50_000u64;
    let asked = 5_000_000u64;
    let start = Instant::now();
    let order = ShardOrder::new((0..shards).map(|_| rows), 7, 3);
    let made = start.elapsed().as_secs_f64();
    for (what, step) in [("one after another", 1), ("here and there", 123_456_791)] {
        let start = Instant::now();
        let sum = (0..asked).map(|at| order.find(at * step % (shards * rows)).1).fold(0, u64::wrapping_add);
        let rate = asked as f64 / start.elapsed().as_secs_f64();
        println!(
            "order of 1e9 rows in 20,000 shards, {what}: {rate:.2e} samples/s ({sum:x}); made in {:.1} ms",
            1e3 * made
        );
    }
}

/// Returns the configuration of a data folder, without masking.
fn data_config(args: &Args, data: &Path, layout: Layout) -> BuildConfig {
    BuildConfig {
        input: vec![args.corpus.clone()],
        vocab: Some(args.vocab.clone()),
        output: Some(data.to_path_buf()),
        max_seq_length: args.max_seq_length,
        // The layout documents has no passes, so its `dupe_factor` keeps the default.
        dupe_factor: match layout {
            Layout::Instances => args.dupe_factor,
            Layout::Documents => BuildConfig::default().dupe_factor,
        },
        // The build gets less memory than the loader uses for documents, so that the loader determines the peak.
        memory_budget: args.documents.then_some(ByteSize(96 << 20)),
        threads: usize::from(args.documents),
        ..BuildConfig::default()
    }
}

fn main() {
    let mut args = Args::parse();
    order_of_many_shards();
    if args.documents {
        args.epochs = 1;
    }
    if !args.corpus.exists() || !args.vocab.exists() {
        println!("skipped: {} and {} are needed", args.corpus.display(), args.vocab.display());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let instances = Layout::Instances;
    let documents = Layout::Documents;
    for (what, layout, masking, max_ngram, do_whole_word_mask) in [
        ("masks stored", instances, Masking::Static, 1, false),
        ("masks made in the loader", instances, Masking::Dynamic, 1, false),
        ("whole words, in the loader", instances, Masking::Dynamic, 1, true),
        ("spans of 3 words, in the loader", instances, Masking::Dynamic, 3, true),
        ("documents", documents, Masking::Static, 1, false),
        ("documents, whole words", documents, Masking::Static, 1, true),
        ("documents, spans of 3 words", documents, Masking::Static, 3, true),
    ] {
        if args.documents && (layout, max_ngram, do_whole_word_mask) != (documents, 1, false) {
            continue;
        }
        let data = folder.path().join(what.replace([' ', ','], "-"));
        let config = BuildConfig {
            layout,
            masking,
            max_ngram,
            do_whole_word_mask,
            ..data_config(&args, &data, layout)
        };
        build(&config, &mut |_| {}).expect("the data is made");
        let built = peak_memory();
        let goal = if args.max_seq_length == 128 { "   goal >= 60000" } else { "" };
        println!("{what:<34}{:>10.0} sequences/s{goal}", rate(&data, &args, 1).0);
        let start = Instant::now();
        let mut loader = DataLoader::open(&data, 1).expect("the data opens");
        loader.batch(0, args.batch_size).expect("a batch");
        println!(
            "{:<34}{:>10.2} s   goal <= 5",
            "  from start to first batch",
            start.elapsed().as_secs_f64()
        );
        if args.documents {
            println!("peak memory after building {built} MiB, after an epoch {} MiB", peak_memory());
        }
        if max_ngram > 1 {
            for buckets in [1, args.length_buckets] {
                let (rate, padding) = rate(&data, &args, buckets);
                let padding = 100.0 * padding;
                println!(
                    "{:<34}{rate:>10.0} sequences/s, {padding:.1} % padding",
                    format!("{buckets} length bucket(s)")
                );
            }
        }
    }
}

/// Returns the peak memory of this process in MiB; 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or_default()
        / 1024
}

/// Returns the best rate of an epoch, and the fraction of padding. The last batch continues into the next epoch, as in
/// a run.
fn rate(data: &Path, args: &Args, buckets: usize) -> (f64, f64) {
    let mut padding = 0.0;
    let mut best: f64 = 0.0;
    for epoch in 0..args.epochs.max(1) {
        // Open a new loader each time: the last shard of an epoch would still be in memory.
        let start = Instant::now();
        let loader = DataLoader::open(data, epoch).expect("the data opens");
        let mut loader = loader.with_length_buckets(buckets, args.batch_size);
        let batches = loader.rows().div_ceil(args.batch_size as u64);
        let mut cells = 0usize;
        let mut real = 0i64;
        for batch in 0..batches {
            let first = batch * args.batch_size as u64;
            let batch = loader.batch(first, args.batch_size).expect("a batch");
            cells += batch.padded.input_mask.len();
            real += batch.padded.input_mask.iter().map(|&real| i64::from(real)).sum::<i64>();
        }
        padding = 1.0 - real as f64 / cells as f64;
        best = best.max((batches * args.batch_size as u64) as f64 / start.elapsed().as_secs_f64());
    }
    (best, padding)
}
