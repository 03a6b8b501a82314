//! Files from people who mean harm, or who had bad luck: each has its exit code and its message, and nothing else
//! happens: no panic, nothing written, no more memory than is stated.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

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
    /// The most memory it held, in MiB; zero where the system does not say.
    memory: u64,
}

/// Runs a program that ends at once when it asks for more than 3 GB of addresses, where a shell can set that, and watches
/// how much memory it holds.
fn limited(folder: &Folder, line: &str) -> Limited {
    let command = folder.command(line);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v 3000000; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    shell.current_dir(folder.at(".")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = shell.spawn().expect("a shell");
    let status = format!("/proc/{}/status", child.id());
    let watch = thread::spawn(move || {
        let mut most = 0;
        // A process that has ended holds nothing, and says nothing of it.
        while let Some(held) = peak_memory(&status) {
            most = most.max(held);
            thread::sleep(Duration::from_millis(1));
        }
        most
    });
    let output = child.wait_with_output().expect("its end");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{line}\n{stderr}");
    Limited { code: output.status.code(), stderr, memory: watch.join().expect("a number") >> 10 }
}

/// The most memory that a living process has held so far, in KiB, where the system says it.
pub(crate) fn peak_memory(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix("kB")?.trim().parse().ok()
}
