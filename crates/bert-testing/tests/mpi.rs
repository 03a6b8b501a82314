//! Tests groups over MPI: starts itself by `mpirun`, which must be installed.

#[path = "collectives/common.rs"]
#[expect(dead_code, reason = "some helpers are for other transports")]
mod common;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bert_collectives::{Deadline, Plan, Transport, host_name};

/// Environment variable with the name of the test that a rank runs.
const CASE: &str = "BERT_MPI_TEST";

fn main() {
    match std::env::var(CASE) {
        Ok(case) => rank(&case),
        Err(_) => {
            for (name, test) in TESTS {
                test();
                println!("test {name} ... ok");
            }
        }
    }
}

const TESTS: [(&str, fn()); 3] = [
    ("operations_move_the_right_bytes", operations_move_the_right_bytes),
    ("a_killed_rank_ends_the_others", a_killed_rank_ends_the_others),
    ("a_silent_rank_is_named", a_silent_rank_is_named),
];

/// Runs a test as a rank.
fn rank(case: &str) {
    let plan = Plan::choose(None, &|name| std::env::var(name).ok(), &host_name()).unwrap();
    let mut rank = common::patient(|deadline| plan.join(deadline, &mut |_| {})).unwrap();
    let number = rank.topology().rank;
    assert_eq!(rank.topology().hosts, vec![host_name(); 3]);
    match case {
        "operations" => {
            common::check_all_to_all(&mut *rank);
            common::check_all_gather(&mut *rank);
            common::check_broadcast(&mut *rank);
            common::check_traffic(&mut *rank);
            println!("rank {number} is done");
        }
        "killed" if number == 1 => std::process::abort(),
        "silent" if number == 1 => std::thread::sleep(Duration::from_secs(60)),
        _ => barrier_within(&mut *rank, Duration::from_millis(700)),
    }
}

fn barrier_within(rank: &mut dyn Transport, timeout: Duration) {
    let mut deadline = Deadline { timeout, interval: timeout, on_wait: &mut |_| {} };
    rank.barrier(&mut deadline).unwrap();
}

/// Runs three ranks and returns their output and the time.
fn mpirun(case: &str) -> (Output, Duration) {
    let started = Instant::now();
    let mut command = Command::new("mpirun");
    command.args(["-np", "3", "--oversubscribe", "--bind-to", "none"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = command.arg(std::env::current_exe().unwrap()).env(CASE, case).output();
    (output.expect("mpirun is installed"), started.elapsed())
}

fn operations_move_the_right_bytes() {
    let (output, _) = mpirun("operations");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!((0..3).all(|rank| stdout.contains(&format!("rank {rank} is done"))), "{stdout}");
}

fn a_killed_rank_ends_the_others() {
    let (output, time) = mpirun("killed");
    assert!(!output.status.success() && time < Duration::from_secs(20), "{time:?} {output:?}");
}

fn a_silent_rank_is_named() {
    let (output, time) = mpirun("silent");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    assert!(
        stderr.contains("no answer from rank 1 on ") && time < Duration::from_secs(20),
        "{time:?} {stderr}"
    );
}
