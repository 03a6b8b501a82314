//! Tests groups over TCP on the loopback interface. tests/distributed kills processes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bert_collectives::{Deadline, Error, Lost, TcpConfig, TcpTransport, Token, Transport};

use crate::common::{self, all_gather, barrier, on_each, patient};

/// Returns the configuration of a rank in a group at a free port.
fn config(rank: usize, world_size: usize, port: u16) -> TcpConfig {
    let master = "127.0.0.1".into();
    let host = format!("host-{rank}");
    TcpConfig { rank, world_size, master, port, token: Token::new("a secret of the test"), host }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn join(config: &TcpConfig) -> Result<Box<dyn Transport>, Error> {
    patient(|deadline| TcpTransport::join(config, deadline, &mut |_| {})).map(|rank| Box::new(rank) as _)
}

/// Joins ranks by threads and runs a function on each.
fn on_tcp<T: Send>(world_size: usize, run: impl Fn(Box<dyn Transport>) -> T + Sync) -> Vec<T> {
    let port = free_port();
    std::thread::scope(|scope| {
        let run = &run;
        let start = |rank| scope.spawn(move || run(join(&config(rank, world_size, port)).unwrap()));
        let threads: Vec<_> = (0..world_size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn operations_move_the_right_bytes() {
    for world_size in [2, 3, 4] {
        on_tcp(world_size, |mut rank| {
            common::check_all_to_all(&mut *rank);
            common::check_all_gather(&mut *rank);
            common::check_broadcast(&mut *rank);
            common::check_traffic(&mut *rank);
        });
    }
}

#[test]
fn hosts_of_all_ranks_are_known() {
    let topologies = on_tcp(3, |rank| rank.topology().clone());
    for (rank, topology) in topologies.iter().enumerate() {
        assert_eq!((topology.rank, topology.world_size, topology.local_world_size), (rank, 3, 1));
        assert_eq!(topology.hosts, ["host-0", "host-1", "host-2"]);
    }
}

#[test]
fn rank_0_may_start_last() {
    let port = free_port();
    std::thread::scope(|scope| {
        let second = scope.spawn(move || join(&config(1, 2, port)).map(|mut rank| barrier(&mut *rank)));
        std::thread::sleep(Duration::from_millis(300));
        barrier(&mut *join(&config(0, 2, port)).unwrap()).unwrap();
        second.join().unwrap().unwrap().unwrap();
    });
}

#[test]
fn a_closed_rank_is_named_by_all() {
    let results = on_tcp(4, |mut rank| {
        barrier(&mut *rank).unwrap();
        if rank.topology().rank == 2 {
            return Ok(());
        }
        let started = Instant::now();
        let result = (0..5).try_for_each(|_| all_gather(&mut *rank, &[1; 3_000_000]).map(drop));
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!(barrier(&mut *rank), result);
        result
    });
    for rank in [0, 1, 3] {
        let Err(Lost::Peer { member, reason }) = &results[rank] else { panic!("{:?}", results[rank]) };
        assert!(member.rank == 2 && member.host == "host-2", "rank {rank}: {member} {reason}");
        assert!(reason.contains("closed the connection") || reason.contains("reset"), "{reason}");
    }
}

#[test]
fn check_finds_a_closed_rank() {
    let results = on_tcp(2, |mut rank| {
        if rank.topology().rank == 1 {
            return Ok(());
        }
        let end = Instant::now() + Duration::from_secs(2);
        while rank.check().is_ok() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        rank.check()
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert_eq!(text, "lost rank 1 on host-1: it has closed the connection");
}

#[test]
fn a_silent_rank_is_named_by_all() {
    let done = std::sync::Barrier::new(3);
    let results = on_tcp(3, |mut rank| {
        if rank.topology().rank == 1 {
            done.wait();
            return Ok(());
        }
        let mut on_wait = |_: &_| {};
        let timeout = Duration::from_millis(400);
        let mut deadline = Deadline { timeout, interval: timeout, on_wait: &mut on_wait };
        let result = rank.barrier(&mut deadline);
        done.wait();
        result
    });
    for rank in [0, 2] {
        let text = results[rank].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 1 on host-1") && text.contains("`.group_timeout`"), "{text}");
    }
}

#[test]
fn ranks_that_do_not_join_are_named() {
    let mut on_wait = |_: &_| {};
    let timeout = Duration::from_millis(200);
    let mut deadline = Deadline { timeout, interval: timeout, on_wait: &mut on_wait };
    let error = TcpTransport::join(&config(0, 3, free_port()), &mut deadline, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("no answer from rank 1, rank 2 for"), "{error}");
    assert_eq!(error.exit_code(), 75);
    let error = TcpTransport::join(&config(1, 3, free_port()), &mut deadline, &mut |_| {}).unwrap_err();
    assert!(error.text().starts_with("cannot reach "), "{error}");
}

#[test]
fn strangers_do_not_disturb_the_start() {
    let port = free_port();
    let refusals = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut refused = |text: &str| refusals.lock().unwrap().push(text.to_string());
            patient(|deadline| TcpTransport::join(&config(0, 2, port), deadline, &mut refused)).map(drop)
        });
        let connect = || loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                break stream;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let _silent: Vec<TcpStream> = (0..5).map(|_| connect()).collect();
        connect().write_all(&[0xff; 5000]).unwrap();
        connect()
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: curl/8\r\n\r\n")
            .unwrap();
        let mut reader = connect();
        reader.write_all(&[0; 64]).unwrap();
        let mut answer = Vec::new();
        // The refusal, and nothing that depends on the token.
        let _ = reader.read_to_end(&mut answer);
        assert!(answer.len() == 50 && answer[49] == 0, "{} bytes", answer.len());
        join(&config(1, 2, port)).unwrap();
        first.join().unwrap().unwrap();
    });
    let refusals = refusals.into_inner().unwrap();
    assert!(refusals.iter().any(|text| text.contains("BERT_GROUP_TOKEN")), "{refusals:?}");
}

#[test]
fn a_wrong_token_is_refused() {
    let port = free_port();
    std::thread::scope(|scope| {
        let first = scope.spawn(move || join(&config(0, 2, port)).map(drop));
        let other = TcpConfig { token: Token::new("another secret"), ..config(1, 2, port) };
        let error = join(&other).err().unwrap();
        assert_eq!(error.to_string(), "cannot join the group: rank 0 has another BERT_GROUP_TOKEN");
        assert_eq!(error.exit_code(), 2);
        join(&config(1, 2, port)).unwrap();
        first.join().unwrap().unwrap();
    });
}

#[test]
fn a_group_of_another_size_is_refused() {
    let port = free_port();
    std::thread::scope(|scope| {
        let first = scope.spawn(move || join(&config(0, 2, port)).map(drop));
        let error = join(&config(1, 3, port)).err().unwrap().to_string();
        assert_eq!(error, "cannot join the group: it belongs to a group of 3 ranks, this one has 2");
        join(&config(1, 2, port)).unwrap();
        first.join().unwrap().unwrap();
    });
}

#[test]
fn a_second_process_of_a_rank_is_refused() {
    let port = free_port();
    std::thread::scope(|scope| {
        let ranks = [0, 1, 1].map(|rank| scope.spawn(move || join(&config(rank, 3, port)).map(drop)));
        std::thread::sleep(Duration::from_millis(500));
        join(&config(2, 3, port)).unwrap();
        let errors: Vec<String> = ranks
            .into_iter()
            .filter_map(|rank| rank.join().unwrap().err())
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, ["cannot join the group: rank 1 has joined before; the second one is on host-1"]);
    });
}

#[test]
fn another_operation_is_an_error() {
    let results = on_tcp(2, |mut rank| match rank.topology().rank {
        0 => all_gather(&mut *rank, &[1; 4]).map(drop),
        _ => barrier(&mut *rank),
    });
    let text = results.iter().find_map(|result| result.as_ref().err()).unwrap().to_string();
    assert!(text.contains("of barrier (operation 1)") && text.contains("of all-gather"), "{text}");
    assert!(on_each(Vec::new(), |_| ()).is_empty());
}
