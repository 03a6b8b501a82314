//! Runs programs on a disk that is really full: a small tmpfs in its own mount namespace, which not every machine
//! allows.
//!
//! The program ends with a message and exit code 1, committed files stay valid, and with free space the same command
//! ends normally.

#![cfg(target_os = "linux")]

use std::process::Command;

use crate::common::{Ended, Folder, ended};
use crate::pretraining::resume::{RUN, assert_ends_like_the_whole, with_whole_run};

/// Runs a shell script in a namespace in which `small/` is a tmpfs of `size`.
fn on_a_small_disk(folder: &Folder, size: &str, script: &str) -> Ended {
    std::fs::create_dir_all(folder.at("small")).expect("a folder");
    let mount = format!("mount -t tmpfs -o size={size} tmpfs small");
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).current_dir(folder.at("."));
        command.output().expect("this test needs unshare")
    };
    let mounted = shell(&mount);
    let reason = String::from_utf8_lossy(&mounted.stderr);
    assert!(mounted.status.success(), "this test needs a tmpfs in a mount namespace of its own: {reason}");
    ended(script, shell(&format!("set -eu; {mount}; {script}")))
}

/// Returns the words of a command line with the program's path.
fn full(folder: &Folder, line: &str) -> String {
    let command = folder.command(line);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_str().expect("Unicode"))).collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "needs a tmpfs in a mount namespace"]
fn build_resumes_after_a_full_disk() {
    let folder = Folder::with_data();
    let flags =
        "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --dupe-factor 20 --num-shards 3";
    let line = |output: &str| format!("make-pretrain-data --input train.txt {flags} --output {output}");
    folder.ok(&line("whole"));
    let build = full(&folder, &line("small/out"));
    let script = format!(
        "code=0; {build} || code=$?; test $code = 1; test ! -e small/out/manifest.json
         mount -o remount,size=64m small; {build}; cp -r small/out out"
    );
    let ended = on_a_small_disk(&folder, "40k", &script);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in ["error: the disk is full: ", " needs at least ", "No space left"] {
        assert!(ended.stderr.contains(part), "{part:?} is not in {}", ended.stderr);
    }
    assert!(folder.snapshot("whole") == folder.snapshot("out"), "the second attempt differs");
}

#[test]
#[ignore = "needs a tmpfs in a mount namespace"]
fn run_resumes_after_a_full_disk() {
    let folder = with_whole_run();
    let line = format!("{RUN} --save-every 10 --keep-checkpoints 1 --output small/run");
    let run = full(&folder, &line);
    let resume = full(&folder, &format!("{line} --resume"));
    let verify = full(&folder, "bert verify small/run");
    let script = format!(
        "code=0; {run} || code=$?; test $code = 1; {verify}; ls small/run/checkpoints
         mount -o remount,size=64m small; {resume}; cp -r small/run run"
    );
    // Space for one checkpoint, not for two.
    let one: usize = folder
        .snapshot("whole/checkpoints")
        .values()
        .map(|bytes| bytes.as_ref().map_or(0, |bytes| bytes.len().next_multiple_of(4096)))
        .sum();
    let ended = on_a_small_disk(&folder, &(one * 3 / 2).to_string(), &script);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    for part in [
        "the disk is full: the checkpoint needs about ",
        "all committed checkpoints are intact",
        "No space left",
    ] {
        assert!(ended.stderr.contains(part), "{part:?} is not in {}", ended.stderr);
    }
    ended.stdout_has("good  small/run/checkpoints/step-00000010");
    ended.stderr_has("continued after step 10");
    assert_ends_like_the_whole(&folder, "run");
}

#[test]
#[ignore = "needs a tmpfs in a mount namespace"]
fn read_only_disk_is_an_error() {
    let folder = Folder::with_run();
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
    let lines = [
        format!("make-pretrain-data --input train.txt {flags} --output small/out"),
        "pretrain --data data --model config.json --steps 1 --output small/out".to_string(),
        "bert export run small/out".to_string(),
        "bert make-vocab --input train.txt --output small/out".to_string(),
    ];
    let script = lines.iter().map(|line| {
        let line = full(&folder, line);
        format!("code=0; {line} || code=$?; test $code = 1; ")
    });
    let script = format!("mount -o remount,ro small; {}", script.collect::<String>());
    let ended = on_a_small_disk(&folder, "1m", &script);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("Read-only file system").count(), lines.len(), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("error: ").count(), lines.len(), "{}", ended.stderr);
}
