//! Malicious and corrupt files: each has its exit code and message, without a panic, without output, and within the
//! stated memory limit.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use wait4::Wait4;

use crate::common::{Folder, Refusal, refusals};

mod configurations; // config.json of a model
mod forged; // manifests and receipts with valid checksums and forged contents
mod manifests; // manifest.json of a data set
mod pages; // reports of all these files
mod published_weights; // PyTorch files, TensorFlow checkpoints, weights in several files
mod receipts; // receipts of the parts of a build
#[cfg(unix)]
mod special_files; // pipes, devices, links
mod tables; // JSON Lines and Parquet
mod task_files; // TSV files of a task
mod text; // plain and compressed text
mod vocabularies; // vocab.txt
mod weights; // safetensors, and other files in their place

const BUILD: &str = "make-pretrain-data --max-seq-length 32 --max-predictions-per-seq 5 --threads 2";

/// Maximum memory in MiB that any of these files may make a program hold.
const MAX_MEMORY_MIB: u64 = 512;

/// Runs the rows of a table (see [`refusals`]) and compares the whole message without `error: `. `...` matches any
/// text.
fn check(folder: &Folder, common: &str, table: &str) {
    for Refusal { code, line, message } in refusals(common, table) {
        let before = folder.names(".");
        let ended = limited(folder, &line);
        assert_eq!(ended.code, Some(code), "{line}\n{}", ended.stderr);
        assert!(ended.memory <= MAX_MEMORY_MIB, "{line} held {} MiB", ended.memory);
        let printed = ended.stderr.lines().find_map(|line| line.strip_prefix("error: "));
        let printed = printed.unwrap_or("nothing").trim_end();
        assert!(matches(printed, message), "{line}\n   actual: {printed}\n expected: {message}");
        assert_eq!(before, folder.names("."), "{line} left something");
    }
}

/// Returns whether a text equals a pattern in which `...` matches any text.
fn matches(text: &str, pattern: &str) -> bool {
    let (first, parts) =
        pattern.split_once("...").map_or((pattern, None), |(first, rest)| (first, Some(rest)));
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(parts) = parts else { return rest.is_empty() };
    for part in parts.split("...") {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || pattern.ends_with("...")
}

/// Result of a program that ran with a memory limit.
pub(crate) struct Limited {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    /// Peak memory in MiB.
    pub(crate) memory: u64,
}

/// Environment variable with a file that contains a command line for the measuring process: see [`peak_memory_is_measured`].
const METER: &str = "BERT_METER";

/// Runs a program with a limit of 3 GB of address space, if a shell can set one, and measures its peak memory. The
/// operating system's figure includes the memory of the parent process, so the parent is a small process: this test
/// binary.
pub(crate) fn limited(folder: &Folder, line: &str) -> Limited {
    let command = folder.command(line);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().expect("Unicode")).collect();
    let files = tempfile::tempdir().expect("a temporary folder");
    let task = files.path().join("task");
    std::fs::write(&task, words.join("\n")).expect("a file written");
    let output = Command::new(std::env::current_exe().expect("the test"))
        .args(["--exact", "reliability::hostile::peak_memory_is_measured", "--nocapture"])
        .env(METER, &task)
        .current_dir(folder.at("."))
        .output()
        .expect("the test starts");
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    let read = |name| std::fs::read(files.path().join(name)).expect("what the meter wrote");
    let (code, memory): (Option<i32>, u64) = serde_json::from_slice(&read("count")).expect("JSON");
    let stderr = String::from_utf8_lossy(&read("stderr")).into_owned();
    assert!(!stderr.contains("panicked"), "{line}\n{stderr}");
    assert!(memory > 0, "{line}: the system does not say how much memory it held");
    Limited { code, stderr, memory }
}

/// Runs a file's contents as a command; writes its output, exit code and peak memory in MiB next to the file.
fn meter(task: &Path) {
    let words = std::fs::read_to_string(task).expect("a task");
    let stderr = std::fs::File::create(task.with_file_name("stderr")).expect("a file");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 3000000; exec \"$@\"", "sh"]).args(words.split('\n'));
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().expect("a shell");
    let used = child.wait4().expect("its end");
    let count = json!([used.status.code(), used.rusage.maxrss >> 20]);
    std::fs::write(task.with_file_name("count"), count.to_string()).expect("a file written");
}

/// Also acts as the measuring process if [`METER`] is set.
#[test]
fn peak_memory_is_measured() {
    if let Some(task) = std::env::var_os(METER) {
        return meter(Path::new(&task));
    }
    let folder = Folder::with_data();
    let text = "So it goes on and on, and on. ".repeat(100);
    let line = |text: &str| json!({ "text": text }).to_string() + "\n";
    folder.write("little.jsonl", line(&text));
    // A line is held in memory completely.
    folder.write("much.jsonl", line(&text.repeat((48 << 20) / text.len())));
    let [little, much] = ["little", "much"].map(|name| {
        let flags = format!("--vocab vocab.txt --input {name}.jsonl --output {name}");
        limited(&folder, &format!("{BUILD} {flags}"))
    });
    assert_eq!((little.code, much.code), (Some(0), Some(0)), "{}{}", little.stderr, much.stderr);
    assert!(much.memory > little.memory + 40, "{} MiB, {} MiB", little.memory, much.memory);
}
