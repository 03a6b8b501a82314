//! Files from people who mean harm, or who had bad luck: each has its exit code and its message, and nothing else
//! happens: no panic, nothing written, no more memory than is stated.

use std::io::Read;
use std::process::{Command, Stdio};

use wait4::Wait4;

use crate::common::Folder;

mod configurations; // config.json of a model
mod manifests; // manifest.json of a data set
#[cfg(unix)]
mod no_files; // pipes, devices, links
mod pages; // what is shown of them all
mod receipts; // what parts of a build leave for the merge
mod tables; // JSON Lines and Parquet
mod task_files; // TSV files of a task
mod text; // plain and compressed text
mod vocabularies; // vocab.txt
mod weights; // safetensors, and what is none

/// A file or option, the exit code, and the message without `error: `. `...` stands for what varies.
type Row<'a> = (&'a str, i32, &'a str);

const BUILD: &str = "make-pretrain-data --max-seq-length 32 --max-predictions-per-seq 5 --threads 2";

/// The most memory that any of these files may make a program hold, in MiB.
const MOST_MEMORY: u64 = 512;

/// Runs each row's command line; every message is compared whole, up to `...`.
fn check(folder: &Folder, common: &str, rows: &[Row<'_>]) -> usize {
    let mut most = 0;
    for (argument, code, expected) in rows {
        let before = folder.names(".");
        let line = format!("{common} {argument}");
        let ended = limited(folder, &line);
        assert_eq!(ended.code, Some(*code), "{line}\n{}", ended.stderr);
        assert!(ended.memory <= MOST_MEMORY, "{line} held {} MiB", ended.memory);
        most = most.max(ended.memory);
        let said = ended
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("error: "))
            .unwrap_or("nothing")
            .trim_end();
        let mut rest = said;
        for (at, part) in expected.split("...").enumerate() {
            let found = if at == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
            let found = found.unwrap_or_else(|| panic!("{line}\n     said: {said}\n expected: {expected}"));
            rest = &rest[found + part.len()..];
        }
        assert!(
            rest.is_empty() || expected.ends_with("..."),
            "{line}\n     said: {said}\n expected: {expected}"
        );
        assert_eq!(before, folder.names("."), "{line} left something");
    }
    println!("{} files, {most} MiB at most: {common}", rows.len());
    rows.len()
}

/// How a program ended that had a limit.
struct Limited {
    code: Option<i32>,
    stderr: String,
    /// The most memory it held, in MiB, or that this process had held when it started it, where that is more.
    memory: u64,
}

/// Runs a program that ends at once when it asks for more than 3 GB of addresses, where a shell can set that; the
/// operating system says how much memory it held.
fn limited(folder: &Folder, line: &str) -> Limited {
    let command = folder.command(line);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v 3000000; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    shell.current_dir(folder.at(".")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = shell.spawn().expect("a shell");
    let mut stderr = Vec::new();
    child.stderr.take().expect("a pipe").read_to_end(&mut stderr).expect("what it says");
    let used = child.wait4().expect("its end");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{line}\n{stderr}");
    let memory = used.rusage.maxrss >> 20;
    assert!(memory > 0, "{line}: the system does not say how much memory it held");
    Limited { code: used.status.code(), stderr, memory }
}
