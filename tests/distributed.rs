//! Pre-training with several processes over TCP: `bert launch`, refused groups and connections.
//! `reliability/rank_kills.rs` kills ranks.

#![cfg(unix)]

use std::fs::Permissions;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Ended, Folder, ended, program};
use crate::pretraining::resume::send;

/// Six micro-batches: one, two, three or six ranks.
const RUN: &str = "pretrain --data data --model config.json --initialization reference --steps 60 --save-every 10 \
                   --keep-checkpoints 9 --batch-size 6 --gradient-accumulation-steps 6 --seed 7 --group-timeout 20s";
/// Files that must be equal at the end.
const COMPARED: [&str; 3] = [
    "metrics.jsonl",
    "checkpoints/step-00000060/model.safetensors",
    "checkpoints/step-00000060/optimizer.safetensors",
];
/// Time after which a test fails because a process hangs.
const HANGS: Duration = Duration::from_secs(60);

/// The processes of a group, by rank.
struct Ranks {
    children: Vec<Child>,
}

impl Ranks {
    /// Starts the ranks of a group; `line` returns the command line of a rank.
    fn start(folder: &Folder, world_size: usize, line: impl Fn(usize) -> String) -> Self {
        let port = free_port();
        let children =
            (0..world_size).map(|rank| start(folder, &line(rank), rank, world_size, port, TOKEN)).collect();
        Self { children }
    }

    /// Waits for all ranks. Fails if one of them hangs.
    fn wait(mut self) -> Vec<Ended> {
        let started = Instant::now();
        while self.children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            if started.elapsed() > HANGS {
                self.children.iter_mut().for_each(|child| drop(child.kill()));
                panic!("a rank hangs");
            }
            sleep(Duration::from_millis(5));
        }
        self.children.into_iter().map(|child| ended(RUN, child.wait_with_output().unwrap())).collect()
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

const TOKEN: &str = "a token for the tests";

fn start(folder: &Folder, line: &str, rank: usize, world_size: usize, port: u16, token: &str) -> Child {
    let mut command = folder.command(line);
    command.env("BERT_RANK", rank.to_string()).env("BERT_WORLD_SIZE", world_size.to_string());
    command.env("BERT_MASTER_ADDR", "127.0.0.1").env("BERT_MASTER_PORT", port.to_string());
    command.env("BERT_GROUP_TOKEN", token).env("RAYON_NUM_THREADS", "1").spawn().unwrap()
}

/// Returns a folder with data and the run `whole/` of one process.
fn with_whole_run() -> Folder {
    let folder = Folder::with_data();
    folder.ok(&format!("{RUN} --output whole"));
    folder
}

fn assert_ends_like_the_whole(folder: &Folder, run: &str) {
    for file in COMPARED {
        let whole = folder.read(&format!("whole/{file}"));
        let other = folder.read(&format!("{run}/{file}"));
        assert!(whole == other, "{run}/{file} differs from that of one process");
    }
}

/// Waits until a run has a checkpoint.
fn wait_for_checkpoint(folder: &Folder, run: &str) {
    let started = Instant::now();
    while !folder.at(&format!("{run}/checkpoints/step-00000010/COMMITTED.json")).exists() {
        assert!(started.elapsed() < HANGS, "{run} has no checkpoint");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn launched_ranks_write_the_bytes_of_one_process() {
    let folder = with_whole_run();
    for processes in [2, 3] {
        let run = format!("launched-{processes}");
        let launched = folder.ok(&format!("bert launch --processes {processes} -- {RUN} --output {run}"));
        assert!(launched.stdout.contains("60 steps done"), "{}", launched.stdout);
        assert_eq!(launched.stdout.matches("steps done").count(), 1, "only rank 0 prints the result");
        assert_ends_like_the_whole(&folder, &run);
    }
}

#[test]
fn a_stopped_rank_is_named_after_the_timeout() {
    let folder = Folder::with_data();
    let line =
        RUN.replace("--group-timeout 20s", "--group-timeout 3s").replace("--steps 60", "--steps 100000");
    let ranks = Ranks::start(&folder, 3, |_| format!("{line} --output run"));
    wait_for_checkpoint(&folder, "run");
    send(&ranks.children[2], "STOP");
    // Longer than the timeout.
    sleep(Duration::from_secs(5));
    send(&ranks.children[2], "CONT");
    for (rank, ended) in ranks.wait().iter().enumerate() {
        assert_eq!(ended.code, Some(75), "rank {rank}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("rank 2 on ") && ended.stderr.contains("after step"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn ranks_with_other_data_are_refused() {
    let folder = Folder::with_data();
    folder.copy("held", "other");
    let ranks = Ranks::start(&folder, 2, |rank| {
        let data = ["data", "other"][rank];
        format!("{} --output run", RUN.replace("data data", &format!("data {data}")))
    });
    for ended in ranks.wait() {
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(ended.stderr.contains("the ranks differ"), "{}", ended.stderr);
    }
    assert!(!folder.at("run").exists());
}

/// The second program is the first with another number in the place of its commit.
#[test]
fn ranks_of_two_commits_are_refused() {
    let folder = Folder::with_data();
    let version = folder.ok("pretrain --version").stdout;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit:")).expect("a commit").trim();
    // The sources of a release have no repository, so both commits are unknown.
    if commit == "unknown" {
        return;
    }
    let other = "0".repeat(commit.len());
    let mut bytes = std::fs::read(program("pretrain")).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - commit.len()).filter(|&at| bytes[at..].starts_with(commit.as_bytes())).collect();
    places.iter().for_each(|&at| bytes[at..at + commit.len()].copy_from_slice(other.as_bytes()));
    folder.write("patched", &bytes);
    // A process that another test starts at this moment may hold the file open for writing; the copy is never open here.
    let copied =
        Command::new("cp").arg(folder.at("patched")).arg(folder.at("pretrain-other")).status().unwrap();
    assert!(copied.success());
    std::fs::set_permissions(folder.at("pretrain-other"), Permissions::from_mode(0o755)).unwrap();
    let second = folder.at("pretrain-other").display().to_string();
    let ranks = Ranks::start(&folder, 2, |rank| {
        let program = if rank == 0 { "pretrain" } else { &second };
        format!("{} --output run", RUN.replacen("pretrain", program, 1))
    });
    for ended in ranks.wait() {
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("the ranks differ") && ended.stderr.contains("commit"),
            "{}",
            ended.stderr
        );
    }
    assert!(!folder.at("run").exists());
}

#[test]
fn strangers_are_refused_while_ranks_join() {
    let folder = with_whole_run();
    let line = format!("{RUN} --output run");
    let port = free_port();
    let first = start(&folder, &line, 0, 2, port, TOKEN);
    let connect = || loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            break stream;
        }
        sleep(Duration::from_millis(5));
    };
    let _silent = connect();
    connect().write_all(&[7; 100_000]).ok();
    let stranger = start(&folder, &line, 1, 2, port, "another token of the tests");
    let stranger = ended(&line, stranger.wait_with_output().unwrap());
    assert_eq!(stranger.code, Some(2), "{}", stranger.stderr);
    assert!(stranger.stderr.contains("BERT_GROUP_TOKEN"), "{}", stranger.stderr);
    let second = start(&folder, &line, 1, 2, port, TOKEN);
    let joined = Ranks { children: vec![first, second] }.wait();
    assert!(joined.iter().all(|rank| rank.code == Some(0)), "{}", joined[0].stderr);
    assert!(joined[0].stderr.contains("refused a connection from 127.0.0.1"), "{}", joined[0].stderr);
    assert_ends_like_the_whole(&folder, "run");
}

#[test]
fn impossible_groups_are_refused() {
    let folder = Folder::with_data();
    let line = format!("bert launch --processes 4 -- {RUN} --output run");
    folder.refused(&line, 2, "6 allows 1, 2, 3, 6 ranks");
    folder.refused("bert launch --processes 2 -- finetune --task rte", 2, "runs pretrain");
    folder.refused(&format!("{RUN} --output run --group tcp"), 2, "BERT_RANK");
    for (variables, part) in [
        (vec![("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")], "BERT_MASTER_ADDR"),
        (vec![("BERT_RANK", "2"), ("BERT_WORLD_SIZE", "2")], "less than BERT_WORLD_SIZE"),
        (
            vec![("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "1")],
            "BERT_GROUP_TOKEN",
        ),
    ] {
        let line = format!("{RUN} --output run");
        let mut command = folder.command(&line);
        let refused = ended(&line, command.envs(variables).output().unwrap());
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert!(!folder.at("run").exists());
}

#[test]
fn a_killed_launcher_leaves_no_rank() {
    let folder = Folder::with_data();
    let line =
        format!("bert launch --processes 2 -- {} --output run", RUN.replace("--steps 60", "--steps 100000"));
    let mut launcher = folder.start(&line);
    wait_for_checkpoint(&folder, "run");
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    let line = format!("{} --output run --resume", RUN.replace("--steps 60", "--steps 100000"));
    // The lock of the run is free as soon as its rank 0 has ended.
    let started = Instant::now();
    loop {
        let mut next = folder.start(&line);
        sleep(Duration::from_millis(300));
        if next.try_wait().unwrap().is_none() {
            next.kill().unwrap();
            return drop(next.wait());
        }
        assert!(started.elapsed() < HANGS, "rank 0 is still alive");
    }
}
