//! Properties of a process group that must hold for any launcher and any bytes between the ranks: see `checks.rs`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bert_collectives::{Deadline, Environment, MAX_RANKS, Plan, TcpConfig, TcpTransport, Token, Transport};

use super::checks::Check;

/// All targets of the process groups.
pub(crate) const RANK_CHECKS: [Check; 2] = [("environment", environment), ("messages", messages)];

/// Time after which a rank gives up.
const TIMEOUT: Duration = Duration::from_millis(30);

/// Checks the variables of a launcher, one `NAME=VALUE` a line: an accepted rank is below the number of ranks, which is
/// bounded.
pub(crate) fn environment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let variable =
        |name: &str| lines.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
    if let Ok(Some(found)) = Environment::detect(&variable) {
        assert!(found.rank < found.world_size && found.world_size <= MAX_RANKS);
        assert!(found.local_world_size != Some(0));
    }
    let _ = Plan::choose(None, &variable, "host");
}

/// Changes the bytes between two ranks that join and move bytes: positions and differences from the input, in both
/// directions. The ranks end within their time limits, and neither panics.
pub(crate) fn messages(bytes: &[u8]) {
    let Some((&first, changes)) = bytes.split_first() else { return };
    let host = unused_host();
    let free = || TcpListener::bind((host.as_str(), 0)).expect("a free port");
    let proxy = free();
    let port = proxy.local_addr().expect("an address").port();
    let leader_port = free().local_addr().expect("an address").port();
    let config = |rank, port| TcpConfig {
        rank,
        world_size: 2,
        master: host.clone(),
        port,
        token: Token::new("a token of the fuzzer"),
        host: "here".into(),
    };
    let [leader, other] =
        [config(0, leader_port), config(1, port)].map(|config| std::thread::spawn(move || work(&config)));
    proxy.set_nonblocking(true).expect("a socket");
    let end = std::time::Instant::now() + 2 * TIMEOUT;
    while std::time::Instant::now() < end {
        let Ok((near, _)) = proxy.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        near.set_nonblocking(false).expect("a socket");
        let Ok(far) = TcpStream::connect((host.as_str(), leader_port)) else { continue };
        let half = changes.len() / 2;
        forward(&near, &far, if first & 1 == 0 { &changes[..half] } else { &[] });
        forward(&far, &near, if first & 2 == 0 { &changes[half..] } else { &[] });
        break;
    }
    drop(proxy);
    for rank in [leader, other] {
        rank.join().expect("no panic");
    }
}

/// Returns an address of this computer. Each call returns another one, because the system keeps the ports of closed
/// connections for minutes.
fn unused_host() -> String {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = CALLS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    format!("127.{}.{high}.{}", 1 + std::process::id() % 250, 1 + low % 250)
}

/// Joins and moves some bytes, until an operation fails.
fn work(config: &TcpConfig) {
    let mut on_wait = |_: &_| {};
    let mut deadline = Deadline { timeout: TIMEOUT, interval: TIMEOUT, on_wait: &mut on_wait };
    let Ok(mut transport) = TcpTransport::join(config, &mut deadline, &mut |_| {}) else { return };
    for length in [0, 1, 100, 5000] {
        let own = vec![7; length];
        let mut parts = [own.clone(), own];
        let [first, second] = &mut parts;
        if transport.all_gather(&mut [first, second], &mut deadline).is_err() {
            return;
        }
    }
}

/// Copies one direction of a connection in a thread of its own. Each three bytes of `changes` are a position, counted from the
/// last change, and a difference.
fn forward(from: &TcpStream, to: &TcpStream, changes: &[u8]) {
    let mut from = from.try_clone().expect("a socket");
    let mut to = to.try_clone().expect("a socket");
    let mut changes: std::collections::VecDeque<(usize, u8)> = changes
        .chunks_exact(3)
        .scan(0, |at, change| {
            *at += usize::from(change[0]) + 256 * usize::from(change[1]);
            Some((*at, change[2]))
        })
        .collect();
    std::thread::spawn(move || {
        let mut position = 0;
        let mut buffer = [0; 4096];
        from.set_read_timeout(Some(4 * TIMEOUT)).expect("a socket");
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            while let Some((at, difference)) =
                changes.front().copied().filter(|(at, _)| *at < position + count)
            {
                buffer[at - position] ^= difference;
                changes.pop_front();
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            position += count;
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
