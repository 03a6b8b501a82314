//! Executors that are killed, paused or cannot write; killed schedulers.

use std::thread;
use std::time::{Duration, Instant};

use crate::processes::{Cluster, Job, local};
use crate::text::{Text, digests};

/// Kills executors at random moments (BERT_KILLS is the number) and starts replacements.
#[test]
fn killed_executors_do_not_change_the_output() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (wanted, seed) = (number("BERT_KILLS", 4), number("BERT_SEED", 42));
    let mut draws = 0u64;
    let mut draw = |most: u64| {
        draws += 1;
        mixed(seed, draws) % most
    };
    let text = Text::new(12, 900);
    local(&text.config("local"));
    let expected = digests(&text.path("local"));
    let mut cluster = Cluster::start(2);
    let (mut kills, mut builds) = (0, 0);
    while kills < wanted {
        let mut job = Job::send(&cluster.engine(), &text.config("out"), 12);
        // At most four kills per build, so that many builds begin and end between kills.
        for _ in 0..4.min(wanted - kills) {
            thread::sleep(Duration::from_millis(100 + draw(1200)));
            if !job.is_running() {
                break;
            }
            let victim = draw(2) as usize;
            cluster.executors[victim].kill();
            cluster.executors[victim] = cluster.executor();
            kills += 1;
        }
        let (code, message) = job.end();
        assert_eq!(code, 0, "after {kills} kills: {message}");
        assert_eq!(digests(&text.path("out")), expected, "after {kills} kills");
        std::fs::remove_dir_all(text.path("out")).unwrap();
        builds += 1;
    }
    println!("executors: {kills} kills (seed {seed}) in {builds} builds, all with the bytes of one machine");
}

/// Returns a pseudo-random number for a seed and a counter.
fn mixed(seed: u64, number: u64) -> u64 {
    let bits = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits ^ (bits >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
}

#[test]
fn job_continues_after_the_cluster_stopped() {
    let text = Text::new(12, 900);
    local(&text.config("local"));
    let mut cluster = Cluster::start(1);
    let mut job = Job::send(&cluster.engine(), &text.config("out"), 12);
    job.wait_for_files(&text.path("out"));
    cluster.executors.clear();
    let (code, message) = job.end();
    assert_eq!(code, 75, "{message}");
    assert!(message.contains("the same command continues"), "{message}");

    let mut job = Job::send(&cluster.engine(), &text.config("out"), 12);
    assert!(job.is_running());
    cluster.restart_scheduler();
    let (code, message) = job.end();
    assert_eq!(code, 75, "{message}");

    cluster.executors = vec![cluster.executor(), cluster.executor()];
    crate::processes::build(&cluster.engine(), &text.config("out"), 12);
    assert_eq!(digests(&text.path("out")), digests(&text.path("local")));
}

#[test]
fn suspended_executor_duplicates_nothing() {
    let text = Text::new(12, 900);
    local(&text.config("local"));
    let cluster = Cluster::start(2);
    let mut job = Job::send(&cluster.engine(), &text.config("out"), 12);
    job.wait_for_files(&text.path("out"));
    // The pause is longer than the heartbeat timeout: the parts are given to the other executor, and then this one
    // continues with them, whether or not the build has ended by then.
    cluster.executors[0].signal("STOP");
    thread::sleep(Duration::from_secs(7));
    cluster.executors[0].signal("CONT");
    let (code, message) = job.end();
    assert_eq!(code, 0, "{message}");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(digests(&text.path("out")), digests(&text.path("local")));
}

#[test]
fn executor_write_failures_are_reported() {
    let text = Text::new(12, 900);
    local(&text.config("local"));
    let mut cluster = Cluster::start(1);
    cluster.executors.push(cluster.executor_with_full_disk());
    let start = Instant::now();
    let (code, message) = Job::send(&cluster.engine(), &text.config("out"), 12).end();
    assert!(start.elapsed() < Duration::from_secs(60), "{message}");
    if code != 0 {
        assert_eq!(code, 75, "{message}");
        assert!(message.contains("too large"), "{message}");
        assert!(!text.path("out").join("manifest.json").exists());
        // The build continues with the other executor alone.
        cluster.executors.pop();
        crate::processes::build(&cluster.engine(), &text.config("out"), 12);
    }
    assert_eq!(digests(&text.path("out")), digests(&text.path("local")));
}
