//! Tests the operations on groups of threads.

use std::time::Duration;

use bert_collectives::{Deadline, Lost, TcpTransport, Transport};
use bert_testing::transports::{Fault, FaultyTransport, ThreadTransport};

use crate::common::{self, all_gather, all_to_all, barrier, on_each, patient, threads};

#[test]
fn all_to_all_delivers_each_part() {
    for world_size in [1, 2, 3, 5] {
        on_each(threads(world_size), |mut rank| common::check_all_to_all(&mut *rank));
    }
}

#[test]
fn all_gather_delivers_all_parts() {
    for world_size in [1, 2, 4] {
        on_each(threads(world_size), |mut rank| common::check_all_gather(&mut *rank));
    }
}

#[test]
fn broadcast_copies_from_any_root() {
    on_each(threads(3), |mut rank| common::check_broadcast(&mut *rank));
}

#[test]
fn traffic_counts_bytes_of_other_ranks() {
    on_each(threads(3), |mut rank| common::check_traffic(&mut *rank));
}

#[test]
fn a_single_process_copies_its_own_part() {
    let mut alone = TcpTransport::alone();
    common::check_all_to_all(&mut alone);
    common::check_all_gather(&mut alone);
    common::check_broadcast(&mut alone);
    assert!(alone.topology().is_alone());
    assert_eq!(alone.traffic().sent, 0);
}

#[test]
fn messages_of_the_next_operation_are_kept() {
    on_each(threads(3), |mut rank| {
        if rank.topology().rank == 2 {
            std::thread::sleep(Duration::from_millis(50));
        }
        for round in 0..20 {
            assert_eq!(all_gather(&mut *rank, &[round; 3]).unwrap(), [[round; 3]; 3].concat());
        }
    });
}

#[test]
fn a_rank_that_leaves_is_named() {
    let results = on_each(threads(3), |mut rank| {
        if rank.topology().rank == 1 {
            return Ok(());
        }
        barrier(&mut *rank)
    });
    for rank in [0, 2] {
        let Err(Lost::Peer { member, .. }) = &results[rank] else { panic!("{:?}", results[rank]) };
        assert!(member.rank == 1 && member.host == "thread-1", "{member:?}");
    }
}

#[test]
fn check_finds_a_rank_that_left() {
    let mut group = ThreadTransport::group(2);
    assert_eq!(group[0].check(), Ok(()));
    group.pop();
    let lost = group[0].check().unwrap_err();
    assert_eq!(lost.to_string(), "lost rank 1 on thread-1: its thread has ended");
    assert_eq!(barrier(&mut group[0]), Err(lost));
}

#[test]
fn silent_ranks_are_reported_then_lost() {
    let mut group = ThreadTransport::group(3);
    let mut reports = Vec::new();
    let mut on_wait = |waiting: &bert_collectives::Waiting| reports.push(waiting.to_string());
    let mut deadline = Deadline {
        timeout: Duration::from_millis(100),
        interval: Duration::from_millis(30),
        on_wait: &mut on_wait,
    };
    let lost = group[0].barrier(&mut deadline).unwrap_err();
    let Lost::Silent { members, after } = &lost else { panic!("{lost}") };
    assert_eq!(members.iter().map(|member| member.rank).collect::<Vec<_>>(), [1, 2]);
    assert!(*after >= Duration::from_millis(100), "{after:?}");
    assert!((1..=3).contains(&reports.len()), "{reports:?}");
    assert_eq!(reports[0], "waiting for rank 1 on thread-1, rank 2 on thread-2 for 0 s");
}

#[test]
fn another_operation_or_length_is_an_error() {
    let results = on_each(threads(2), |mut rank| match rank.topology().rank {
        0 => all_gather(&mut *rank, &[1; 4]).map(drop),
        _ => all_to_all(&mut *rank, &[&[1; 4], &[1; 4]]).map(drop),
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert_eq!(
        text,
        "lost rank 1 on thread-1: it sent 4 bytes of all-to-all, this rank expects 4 of all-gather"
    );
    let results = on_each(threads(2), |mut rank| {
        let length = 1 + rank.topology().rank;
        all_gather(&mut *rank, &vec![0; length]).map(drop)
    });
    assert!(results[0].as_ref().unwrap_err().to_string().contains("2 bytes of all-gather"), "{results:?}");
}

#[test]
fn a_failed_operation_is_lost_to_all() {
    for at in 0..3 {
        let results = on_each(with_fault(at, Fault::Fail), |mut rank| {
            (0..3).try_for_each(|_| barrier(&mut *rank)).map_err(|lost| lost.to_string())
        });
        assert_eq!(results[1], Err(format!("lost rank 1 on thread-1: injected fault in operation {at}")));
        assert_eq!(results[0], Err("lost rank 1 on thread-1: its thread has ended".into()));
    }
}

#[test]
fn a_delay_within_the_limit_changes_nothing() {
    let fault = Fault::Delay(Duration::from_millis(50));
    on_each(with_fault(1, fault), |mut rank| {
        for byte in 0..3 {
            assert_eq!(all_gather(&mut *rank, &[byte]).unwrap(), [byte; 3]);
        }
    });
}

#[test]
fn a_flip_changes_one_bit_of_each_part() {
    let results = on_each(with_fault(1, Fault::Flip), |mut rank| {
        (0..3).map(|_| all_gather(&mut *rank, &[0; 3]).unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(results[1][1], [0, 1, 0, 0, 0, 0, 0, 1, 0]);
    assert!([0, 2].iter().all(|&n| results[1][n] == [0; 9] && results[0][n] == [0; 9]));
}

/// Returns a group of three threads; rank 1 has a fault in operation `at`.
fn with_fault(at: u64, fault: Fault) -> Vec<Box<dyn Transport>> {
    let mut group = threads(3);
    let inner = group.remove(1);
    group.insert(1, Box::new(FaultyTransport::new(inner, at, fault)));
    group
}

#[test]
fn a_panic_does_not_block_the_others() {
    let mut group = threads(2);
    let panics = group.pop().unwrap();
    let thread = std::thread::spawn(move || {
        let _rank = panics;
        panic!("expected in this test");
    });
    assert!(patient(|deadline| group[0].barrier(deadline)).is_err());
    assert!(thread.join().is_err());
}
