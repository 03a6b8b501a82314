//! Kills a rank of a run of several processes at random moments: the others end soon, with exit code 75, and the run
//! continues with another number of ranks to the bytes of an uninterrupted process.
//!
//! The regular test does twenty kills; `scripts/chaos ranks` asks for more through `BERT_KILLS`.

#![cfg(unix)]

use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bert_random::Random;

use super::kills::{moments, wanted};
use crate::common::Folder;
use crate::pretraining::resume::send;

const RUN: &str = "pretrain --data data --eval-data held --eval-every 4 --model config.json --steps 40 --batch-size 12 \
                   --gradient-accumulation-steps 12 --learning-rate 3e-3 --seed 7 --save-every 5 --group-timeout 10s";
const COMPARED: [&str; 5] = [
    "metrics.jsonl",
    "evaluations.jsonl",
    "checkpoints/step-00000040/model.safetensors",
    "checkpoints/step-00000040/optimizer.safetensors",
    "checkpoints/step-00000040/trainer_state.json",
];
/// The secret of the ranks of these tests.
const TOKEN: &str = "0123456789abcdef";
/// Time after which a rank that has not ended counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// Processes of one run, by rank, with their stderr in `stderr-<rank>`.
struct Ranks<'a> {
    folder: &'a Folder,
    children: Vec<Child>,
}

impl Drop for Ranks<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            // An error means that it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl<'a> Ranks<'a> {
    fn start(folder: &'a Folder, ranks: usize, output: &str) -> Self {
        // The port is free again when the listener is dropped.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let resume = if folder.at(output).exists() { "--resume" } else { "" };
        let child = |rank: usize| {
            let stderr = File::create(folder.at(&format!("stderr-{rank}"))).unwrap();
            let variables = [("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)];
            let variables = variables.map(|(name, value)| (format!("BERT_{name}"), value.to_string()));
            folder
                .command(&format!("{RUN} --output {output} {resume}"))
                .envs(variables)
                .env("BERT_MASTER_ADDR", "127.0.0.1")
                .env("BERT_MASTER_PORT", port.to_string())
                .env("BERT_GROUP_TOKEN", TOKEN)
                .stderr(stderr)
                .spawn()
                .expect("a process")
        };
        Self { folder, children: (0..ranks).map(child).collect() }
    }

    /// Waits until all ranks have ended.
    ///
    /// # Panics
    /// If a rank hangs or has panicked.
    fn wait(&mut self) -> Vec<ExitStatus> {
        let started = Instant::now();
        loop {
            let ended: Vec<_> = self.children.iter_mut().map(|child| child.try_wait().unwrap()).collect();
            let texts = || {
                (0..ended.len()).map(|rank| self.folder.text(&format!("stderr-{rank}"))).collect::<String>()
            };
            if let Some(ended) = ended.iter().copied().collect::<Option<Vec<_>>>() {
                assert!(!texts().contains("panicked"), "{}", texts());
                return ended;
            }
            assert!(started.elapsed() < HANGS, "a rank hangs: {ended:?}\n{}", texts());
            sleep(Duration::from_millis(5));
        }
    }
}

fn folder_with_whole_run() -> (Folder, Duration) {
    let folder = Folder::with_data();
    let started = Instant::now();
    let line = RUN.replace("--group-timeout 10s", "--group alone");
    folder.ok(&format!("{line} --output whole"));
    (folder, started.elapsed())
}

fn assert_same(folder: &Folder, run: &str) {
    for file in COMPARED {
        let whole = folder.read(&format!("whole/{file}"));
        let other = folder.read(&format!("{run}/{file}"));
        assert!(whole == other, "{run}/{file} differs from the run of one process");
    }
}

#[test]
fn killed_rank_ends_the_others() {
    let (folder, long) = folder_with_whole_run();
    let mut random = moments(7);
    let started = Instant::now();
    let mut kills = 0;
    let mut finished = 0;
    let mut slowest = Duration::ZERO;
    while kills < wanted() {
        let ranks = [2, 3, 4][random.below(3)];
        let mut run = Ranks::start(&folder, ranks, "out");
        sleep(long.mul_f64(2.0 * random.unit()));
        let victim = random.below(ranks);
        let _ = run.children[victim].kill();
        let killed = Instant::now();
        let ended = run.wait();
        if ended[victim].code().is_none() {
            kills += 1;
            slowest = slowest.max(killed.elapsed());
        }
        for (rank, status) in ended.iter().enumerate().filter(|(rank, _)| *rank != victim) {
            let text = folder.text(&format!("stderr-{rank}"));
            assert!(matches!(status.code(), Some(0 | 75)), "rank {rank} of {ranks}: {status:?}\n{text}");
        }
        if ended.iter().all(ExitStatus::success) {
            assert_same(&folder, "out");
            std::fs::remove_dir_all(folder.at("out")).expect("removed");
            finished += 1;
        }
    }
    let mut last = Ranks::start(&folder, 2, "out");
    assert!(last.wait().iter().all(ExitStatus::success), "{}", folder.text("stderr-0"));
    assert_same(&folder, "out");
    println!(
        "ranks: {kills} kills ({} runs finished, all identical to one process, the others ended within {:.1} s); {:.0} s",
        finished + 1,
        slowest.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
}

/// A stopped process is named after the timeout; the run then continues to the same bytes.
#[test]
fn stopped_rank_is_named() {
    let (folder, _) = folder_with_whole_run();
    let mut run = Ranks::start(&folder, 3, "out");
    while !folder.at("out/checkpoints/step-00000005").exists() {
        sleep(Duration::from_millis(5));
    }
    send(&run.children[1], "STOP");
    let started = Instant::now();
    let ended = loop {
        let ended: Vec<_> = [0, 2].map(|rank| run.children[rank].try_wait().unwrap()).into();
        if let Some(ended) = ended.into_iter().collect::<Option<Vec<_>>>() {
            break ended;
        }
        assert!(started.elapsed() < HANGS, "a rank hangs");
        sleep(Duration::from_millis(5));
    };
    for (status, rank) in ended.iter().zip([0, 2]) {
        let text = folder.text(&format!("stderr-{rank}"));
        assert_eq!(status.code(), Some(75), "{text}");
        assert!(text.contains("rank 1 on") || text.contains("rank 0 on"), "{text}");
    }
    drop(run);
    let mut again = Ranks::start(&folder, 4, "out");
    assert!(again.wait().iter().all(ExitStatus::success), "{}", folder.text("stderr-0"));
    assert_same(&folder, "out");
}

/// SIGTERM at one rank stops all after the same step, with one checkpoint.
#[test]
fn signal_at_one_rank_stops_all() {
    let (folder, _) = folder_with_whole_run();
    let mut run = Ranks::start(&folder, 2, "out");
    while !folder.at("out/checkpoints/step-00000005").exists() {
        sleep(Duration::from_millis(5));
    }
    send(&run.children[1], "TERM");
    let codes: Vec<_> = run.wait().iter().map(ExitStatus::code).collect();
    // The run may have ended before the signal arrived.
    assert!(codes == [Some(143), Some(143)] || codes == [Some(0), Some(0)], "{codes:?}");
    let mut again = Ranks::start(&folder, 3, "out");
    assert!(again.wait().iter().all(ExitStatus::success), "{}", folder.text("stderr-0"));
    assert_same(&folder, "out");
}

#[test]
fn different_settings_are_rejected() {
    let folder = Folder::with_data();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rank = |rank: usize, seed: &str| {
        folder
            .command(&format!("{} --output out", RUN.replace("--seed 7", seed)))
            .env("BERT_RANK", rank.to_string())
            .env("BERT_WORLD_SIZE", "2")
            .env("BERT_MASTER_ADDR", "127.0.0.1")
            .env("BERT_MASTER_PORT", port.to_string())
            .env("BERT_GROUP_TOKEN", TOKEN)
            .spawn()
            .expect("a process")
    };
    let children = [rank(0, "--seed 7"), rank(1, "--seed 8")];
    for child in children {
        let ended = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(4), "{text}");
        assert!(text.contains("--seed was 7, now 8"), "{text}");
    }
    assert!(!folder.at("out").exists(), "a run began");
}
