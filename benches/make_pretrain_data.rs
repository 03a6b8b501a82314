//! Measures the data builder as a whole process: CPU seconds over all threads, wall time, peak memory and bytes on
//! disk, each as a ratio to its goal.
//!
//! ```sh
//! cargo bench --bench make_pretrain_data
//! cargo bench --bench make_pretrain_data -- --corpus text.zst --vocab vocab.txt --turns 5
//! cargo bench --bench make_pretrain_data -- --large        # also 1 GB of text, some minutes and 3 GB of disk
//! cargo bench --bench make_pretrain_data -- --divided      # also 250 MB in eight parts, and 1 GB in ten passes: 12 GB of disk
//! cargo bench --bench make_pretrain_data -- --odd          # also 100,000 files, a line of 1 GB, and 2 GB without a blank line
//! ```
//!
//! GNU time (`/usr/bin/time`) measures the times and the memory of the whole process. The minimum over the turns
//! counts, because other work on the machine only adds time. The corpus is the bench corpus of 8.43 MB, for which the
//! goals are defined; the large text repeats all corpora of its folder, with the documents in a new order each time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use bert_random::{Domain, Random, Stream};
use bert_text::{BlockReader, Format};
use clap::Parser;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "../shared/data/corpora/bench_sentences.txt.zst")]
    corpus: PathBuf,
    #[arg(long, default_value = "../shared/data/vocab/bert-base-uncased-vocab.txt")]
    vocab: PathBuf,
    /// Turns per measurement.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Also measure 100 MB and 1 GB of text.
    #[arg(long)]
    large: bool,
    /// Also measure the cost of parts, and the disk space and open files of a build while it runs.
    #[arg(long)]
    divided: bool,
    /// Also measure malformed text.
    #[arg(long)]
    odd: bool,
    /// Size of the text without a blank line, in GB.
    #[arg(long, default_value_t = 2)]
    gigabytes: usize,
    /// Flag that cargo adds to a benchmark's arguments.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Minimum of each measured value over the turns.
#[derive(Clone, Copy)]
struct Figures {
    cpu: f64,
    wall: f64,
    /// Peak memory in MiB.
    memory: f64,
    /// Size of the shards in bytes.
    bytes: u64,
}

/// Goal for a measured value.
enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// Equal to another value, within this relative tolerance.
    Near(f64, f64),
    None,
}

fn main() {
    let args = Args::parse();
    if !args.corpus.exists() || !args.vocab.exists() {
        println!("skipped: {} and {} are needed", args.corpus.display(), args.vocab.display());
        return;
    }
    let measure = |flags: &str| measure(&args, &args.corpus, args.turns, flags);
    let one = measure("--dupe-factor 10 --threads 1");
    let two = measure("--dupe-factor 10 --threads 2");
    line("dupe 10, keyed, 1 thread: CPU", one.cpu, "s", &Goal::AtMost(1.5));
    line("dupe 10, keyed, 2 threads: CPU", two.cpu, "s", &Goal::AtMost(1.5));
    line("wall time, 1 thread over 2", one.wall / two.wall, "x", &Goal::AtLeast(1.8));
    let few = measure("--dupe-factor 1 --threads 2");
    let many = measure("--dupe-factor 40 --threads 2");
    line("peak memory, dupe 10", two.memory, "MiB", &Goal::AtMost(150.0));
    line("peak memory, dupe 1, no more than at dupe 10", few.memory, "MiB", &Goal::AtMost(two.memory));
    line("peak memory, dupe 40, as at dupe 10", many.memory, "MiB", &Goal::Near(two.memory, 0.1));
    let five = measure("--dupe-factor 5");
    line("shards of dupe 5", five.bytes as f64 / 1e6, "MB", &Goal::AtMost(24.0));
    let dynamic = measure("--dupe-factor 5 --masking dynamic");
    line("shards of dupe 5, dynamic masking", dynamic.bytes as f64 / 1e6, "MB", &Goal::None);
    let reference = measure("--dupe-factor 10 --random reference");
    line("dupe 10, reference: CPU", reference.cpu, "s", &Goal::AtMost(6.0));
    for (dupe, built) in [(1, few), (10, two), (40, many)] {
        estimate(&args, &args.corpus, dupe, built);
    }
    if args.large {
        large(&args);
    }
    if args.divided {
        divided(&args);
        on_the_way(&args);
    }
    if args.odd {
        odd(&args);
    }
}

/// Measures a very large number of files, a document that is one line, and a text that is one document.
fn odd(args: &Args) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let many = folder.path().join("many");
    let data = folder.path().join("data");
    for file in 0..100_000 {
        let inside = many.join(format!("{:03}", file / 1000));
        std::fs::create_dir_all(&inside).expect("a folder");
        let text = format!("The river number {file} is long.\nIt flows to the sea.\n");
        std::fs::write(inside.join(format!("{:03}.txt", file % 1000)), text).expect("room on the disk");
    }
    let figures = measure(args, &many, 1, "--dupe-factor 1");
    line("100,000 input files: wall time", figures.wall, "s", &Goal::None);
    line("100,000 input files: peak memory", figures.memory, "MiB", &Goal::AtMost(400.0));
    std::fs::remove_dir_all(&many).expect("removed");

    let path = folder.path().join("odd.txt");
    let mut out = BufWriter::new(File::create(&path).expect("a file"));
    (0..10_000_000).for_each(|_| out.write_all(b"A line that has no end, of which there are gigabytes, here and there. More of it follows here. ").expect("room"));
    out.flush().expect("room on the disk");
    let start = std::time::Instant::now();
    let refused = command(args, &path, &data, "--dupe-factor 1").output().expect("the program");
    assert_eq!(refused.status.code(), Some(3), "{}", String::from_utf8_lossy(&refused.stderr));
    line("a line of 1 GB: refused after", start.elapsed().as_secs_f64(), "s", &Goal::AtMost(5.0));

    let all = folder.path().join("all.txt");
    write_text(args.corpus.parent().expect("a folder of corpora"), 100_000_000, &all);
    let text = std::fs::read_to_string(&all).expect("the text").replace("\n\n", "\n");
    let mut out = BufWriter::new(File::create(&path).expect("a file"));
    (0..10 * args.gigabytes).for_each(|_| out.write_all(text.as_bytes()).expect("room on the disk"));
    out.flush().expect("room on the disk");
    let figures = measure(args, &path, 1, "--layout documents");
    let name = format!("{} GB without a blank line", args.gigabytes);
    line(&format!("{name}: CPU"), figures.cpu, "s", &Goal::None);
    line(&format!("{name}: peak memory"), figures.memory, "MiB", &Goal::AtMost(400.0));
}

/// Measures the CPU time of eight parts and their merge relative to the whole build.
fn divided(args: &Args) {
    const PARTS: usize = 8;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = folder.path().join("text");
    std::fs::create_dir(&text).expect("a folder");
    let all = folder.path().join("all.txt");
    write_text(args.corpus.parent().expect("a folder of corpora"), 250_000_000, &all);
    cut(&all, 8_000_000, &text);
    for (layout, passes) in [("instances", "--dupe-factor 5"), ("documents", "--num-shards 8")] {
        let flags = format!("--split-sentences --layout {layout} {passes}");
        let whole = measure(args, &text, 1, &flags);
        let parts = folder.path().join(layout);
        let mut cpu = 0.0;
        for step in [" --tokenize-only", ""] {
            for part in 1..=PARTS {
                let flags = format!("{flags} --part {part} --parts {PARTS}{step}");
                cpu += run(command(args, &text, &parts, &flags)).cpu;
            }
        }
        let mut merge = Command::new("/usr/bin/time");
        merge.args(["-f", FORMAT, env!("CARGO_BIN_EXE_bert"), "merge"]).arg(&parts);
        cpu += run(merge).cpu;
        line(&format!("eight parts over the whole, {layout}: CPU"), cpu / whole.cpu, "x", &Goal::AtMost(1.1));
    }
}

/// Cuts a text at document boundaries into files of `bytes` bytes.
fn cut(text: &Path, bytes: usize, folder: &Path) {
    let text = std::fs::read_to_string(text).expect("the text");
    let mut rest = text.as_str();
    let mut number = 0;
    while !rest.is_empty() {
        let end = rest.as_bytes()[bytes.min(rest.len())..].windows(2).position(|pair| pair == b"\n\n");
        let (file, after) = rest.split_at(end.map_or(rest.len(), |end| bytes + end + 2));
        std::fs::write(folder.join(format!("{number:03}.txt")), file).expect("room on the disk");
        (rest, number) = (after, number + 1);
    }
}

/// Measures the open files and the scratch space of large builds, sampled every 0.2 seconds, and the CPU time per
/// byte.
fn on_the_way(args: &Args) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let corpora = args.corpus.parent().expect("a folder of corpora");
    let per_byte = [("100 MB", 100_000_000), ("1 GB", 1_000_000_000)].map(|(name, bytes)| {
        let path = folder.path().join(name);
        let data = folder.path().join("data");
        write_text(corpora, bytes, &path);
        let before = children_seconds();
        let mut child = Command::new(env!("CARGO_BIN_EXE_make-pretrain-data"))
            .args(["--quiet", "--split-sentences", "--dupe-factor", "10", "--threads", "2", "--vocab"])
            .arg(&args.vocab)
            .arg("--input")
            .arg(&path)
            .arg("--output")
            .arg(&data)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the program");
        let mut files = 0;
        let mut scratch = 0;
        while child.try_wait().expect("its end").is_none() {
            let open = std::fs::read_dir(format!("/proc/{}/fd", child.id()));
            files = files.max(open.into_iter().flatten().count());
            let store = std::fs::read_dir(data.join(".build")).into_iter().flatten().flatten();
            let store = store.filter(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("documents-") || name.starts_with("index-")
            });
            scratch =
                scratch.max(store.filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum());
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        let cpu = children_seconds() - before;
        let manifest = std::fs::read(data.join("manifest.json")).expect("a data set");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        let tokens = manifest["report"]["tokens"].as_f64().expect("a number");
        line(&format!("{name}, dupe 10: CPU"), cpu, "s", &Goal::None);
        line(&format!("{name}, dupe 10: open files"), files as f64, "", &Goal::AtMost(64.0));
        line(
            &format!("{name}, dupe 10: scratch"),
            scratch as f64 / tokens,
            "bytes a token",
            &Goal::AtMost(2.2),
        );
        std::fs::remove_dir_all(&data).expect("removed");
        cpu / bytes as f64
    });
    let ratio = per_byte[1] / per_byte[0];
    line("CPU per byte, 1 GB over 100 MB, dupe 10", ratio, "x", &Goal::AtMost(1.1));
}

/// Returns the CPU seconds of all ended child processes.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    // `fields` has the numbers after the name and the state. Its indices 12 and 13 are fields 16 and 17 of proc(5), in
    // hundredths of a second.
    (fields[12] + fields[13]) / 100.0
}

/// Compares memory and time of a large text with a text of a tenth of its size.
fn large(args: &Args) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let corpora = args.corpus.parent().expect("a folder of corpora");
    let texts = [("100 MB", 100_000_000), ("1 GB", 1_000_000_000)].map(|(name, bytes)| {
        let path = folder.path().join(format!("{bytes}.txt"));
        write_text(corpora, bytes, &path);
        (name, path)
    });
    let [small, large] = texts.map(|(name, path)| {
        let figures = measure(args, &path, 1, "--dupe-factor 1 --threads 2");
        line(&format!("{name}, dupe 1: peak memory"), figures.memory, "MiB", &Goal::AtMost(400.0));
        line(&format!("{name}, dupe 1: CPU"), figures.cpu, "s", &Goal::None);
        estimate(args, &path, 1, figures);
        figures
    });
    line("CPU of 1 GB over 10 times 100 MB", large.cpu / (10.0 * small.cpu), "x", &Goal::Near(1.0, 0.1));
}

/// Repeats all corpora of a folder, each time with the documents in a new order, until the size is reached.
fn write_text(corpora: &Path, bytes: usize, path: &Path) {
    let mut names: Vec<PathBuf> = std::fs::read_dir(corpora)
        .expect("the corpora")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .collect();
    names.sort();
    let mut text = Vec::new();
    for name in names {
        let mut reader = BlockReader::open(&name, 0, Format::Text).expect("a corpus");
        while let Some(block) = reader.next_block().expect("a readable corpus") {
            text.extend_from_slice(&block.bytes);
        }
        text.extend_from_slice(b"\n\n");
    }
    let text = String::from_utf8(text).expect("corpora are UTF-8");
    let mut documents: Vec<&str> = text
        .split("\n\n")
        .map(|document| document.trim_matches('\n'))
        .filter(|text| !text.is_empty())
        .collect();
    let mut out = BufWriter::new(File::create(path).expect("a file"));
    let mut written = 0;
    let mut turn = 0;
    while written < bytes {
        Stream::new(1, Domain::Test, &[turn]).shuffle(&mut documents);
        turn += 1;
        for document in &documents {
            write!(out, "{document}\n\n").expect("room on the disk");
            written += document.len() + 2;
            if written >= bytes {
                break;
            }
        }
    }
    out.flush().expect("room on the disk");
}

fn line(what: &str, value: f64, unit: &str, goal: &Goal) {
    let (goal, met) = match *goal {
        Goal::AtMost(most) => (format!("<= {most:.2}, {:.2} of it", value / most), value <= most),
        Goal::AtLeast(least) => (format!(">= {least:.2}, {:.2} of it", value / least), value >= least),
        Goal::Near(other, share) => {
            let ratio = value / other;
            (format!("{other:.2} +- {:.0} %, {ratio:.2} of it", 100.0 * share), (ratio - 1.0).abs() <= share)
        }
        Goal::None => (String::new(), true),
    };
    let goal = if goal.is_empty() {
        goal
    } else {
        format!("   goal {goal}: {}", if met { "met" } else { "MISSED" })
    };
    println!("{what:<40}{value:>9.2} {unit}{goal}");
}

/// Compares an estimate of `--dry-run` with the measured values.
fn estimate(args: &Args, corpus: &Path, dupe: usize, built: Figures) {
    let flags = format!("--dupe-factor {dupe} --threads 2 --dry-run --json");
    let output = command(args, corpus, Path::new("nowhere"), &flags).output().expect("the program");
    let estimate: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an estimate");
    let number = |key: &str| estimate[key].as_f64().expect("a number");
    let near = |value| Goal::Near(value, 0.2);
    let memory = number("memory") / (1 << 20) as f64;
    line(&format!("  estimate at dupe {dupe}: memory"), memory, "MiB", &near(built.memory));
    line(&format!("  estimate at dupe {dupe}: time"), number("seconds"), "s", &near(built.wall));
    line(
        &format!("  estimate at dupe {dupe}: bytes"),
        number("bytes") / 1e6,
        "MB",
        &near(built.bytes as f64 / 1e6),
    );
}

fn measure(args: &Args, corpus: &Path, turns: usize, flags: &str) -> Figures {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let turns = (0..turns.max(1)).map(|_| turn(args, corpus, flags, &data));
    turns
        .reduce(|a, b| Figures {
            cpu: a.cpu.min(b.cpu),
            wall: a.wall.min(b.wall),
            memory: a.memory.min(b.memory),
            bytes: b.bytes,
        })
        .expect("one turn at least")
}

/// Format of GNU time: user seconds, system seconds, wall seconds, peak memory in kilobytes.
const FORMAT: &str = "%U %S %e %M";

fn command(args: &Args, corpus: &Path, data: &Path, flags: &str) -> Command {
    let mut command = Command::new("/usr/bin/time");
    command
        .args(["-f", FORMAT, env!("CARGO_BIN_EXE_make-pretrain-data")])
        .arg("--input")
        .arg(corpus)
        .arg("--vocab")
        .arg(&args.vocab)
        .arg("--output")
        .arg(data)
        .arg("--quiet")
        .args(flags.split(' '));
    command
}

fn turn(args: &Args, corpus: &Path, flags: &str, data: &Path) -> Figures {
    // Use a new folder each time: removing an old data set is not part of the build.
    drop(std::fs::remove_dir_all(data));
    let figures = run(command(args, corpus, data, flags));
    let shards = std::fs::read_dir(data).into_iter().flatten().flatten();
    let bytes = shards
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "parquet"))
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    Figures { bytes, ..figures }
}

fn run(mut command: Command) -> Figures {
    let output = command.output().expect("/usr/bin/time (GNU time) is needed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    let last: Vec<f64> = stderr
        .lines()
        .last()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    let [user, system, wall, kilobytes] = last[..] else { panic!("not the output of GNU time: {stderr}") };
    Figures { cpu: user + system, wall, memory: kilobytes / 1024.0, bytes: 0 }
}
