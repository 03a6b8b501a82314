//! Checks that every transport must pass, and helpers.

use std::time::Duration;

use bert_collectives::{Deadline, Lost, Transport};
use bert_testing::transports::ThreadTransport;

/// Calls an operation with a timeout that a test does not reach.
pub(crate) fn patient<T>(operation: impl FnOnce(&mut Deadline) -> T) -> T {
    let mut on_wait = |_: &_| {};
    let second = Duration::from_secs(1);
    operation(&mut Deadline { timeout: 20 * second, interval: second, on_wait: &mut on_wait })
}

/// Returns a group of threads.
pub(crate) fn threads(world_size: usize) -> Vec<Box<dyn Transport>> {
    ThreadTransport::group(world_size).into_iter().map(|rank| Box::new(rank) as Box<dyn Transport>).collect()
}

/// Runs a function on each rank in its own thread and returns the results by rank.
pub(crate) fn on_each<T: Send>(
    group: Vec<Box<dyn Transport>>,
    run: impl Fn(Box<dyn Transport>) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = group.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Gathers parts of equal length.
pub(crate) fn all_gather(rank: &mut dyn Transport, own: &[u8]) -> Result<Vec<u8>, Lost> {
    let topology = rank.topology().clone();
    let mut parts = vec![vec![0; own.len()]; topology.world_size];
    parts[topology.rank].copy_from_slice(own);
    let mut slices: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    patient(|deadline| rank.all_gather(&mut slices, deadline))?;
    Ok(parts.concat())
}

/// Sends parts of equal length.
pub(crate) fn all_to_all(rank: &mut dyn Transport, send: &[&[u8]]) -> Result<Vec<Vec<u8>>, Lost> {
    let mut parts: Vec<Vec<u8>> = send.iter().map(|part| vec![0; part.len()]).collect();
    let mut slices: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    patient(|deadline| rank.all_to_all(send, &mut slices, deadline))?;
    Ok(parts)
}

pub(crate) fn barrier(rank: &mut dyn Transport) -> Result<(), Lost> {
    patient(|deadline| rank.barrier(deadline))
}

/// Length of the part from one rank to another: some are empty, some exceed the buffers of a socket.
fn length(from: usize, to: usize) -> usize {
    match (from + 2 * to) % 4 {
        0 => 0,
        1 => 1,
        2 => 300,
        _ => 5_000_000,
    }
}

fn part(from: usize, to: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + from * 31 + to * 101) as u8).collect()
}

pub(crate) fn check_all_to_all(rank: &mut dyn Transport) {
    let topology = rank.topology().clone();
    let own = topology.rank;
    let ranks = 0..topology.world_size;
    for _ in 0..3 {
        let send: Vec<Vec<u8>> = ranks.clone().map(|to| part(own, to, length(own, to))).collect();
        let mut parts: Vec<Vec<u8>> = ranks.clone().map(|from| vec![0; length(from, own)]).collect();
        let mut receive: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
        let send: Vec<&[u8]> = send.iter().map(Vec::as_slice).collect();
        patient(|deadline| rank.all_to_all(&send, &mut receive, deadline)).unwrap();
        for from in ranks.clone() {
            assert!(parts[from] == part(from, own, length(from, own)), "part of rank {from}");
        }
    }
}

pub(crate) fn check_all_gather(rank: &mut dyn Transport) {
    let topology = rank.topology().clone();
    let length = |from: usize| [3, 0, 2_000_000, 17][from % 4];
    let mut parts: Vec<Vec<u8>> = (0..topology.world_size).map(|from| vec![0; length(from)]).collect();
    parts[topology.rank] = part(topology.rank, 0, length(topology.rank));
    let mut slices: Vec<&mut [u8]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    patient(|deadline| rank.all_gather(&mut slices, deadline)).unwrap();
    assert_eq!(slices[topology.rank].len(), length(topology.rank));
    for (from, bytes) in parts.iter().enumerate() {
        assert!(*bytes == part(from, 0, length(from)), "part of rank {from}");
    }
}

pub(crate) fn check_broadcast(rank: &mut dyn Transport) {
    let topology = rank.topology().clone();
    for root in 0..topology.world_size {
        let mut bytes = if topology.rank == root { part(root, 0, 70_000) } else { vec![0; 70_000] };
        patient(|deadline| rank.broadcast(root, &mut bytes, deadline)).unwrap();
        assert!(bytes == part(root, 0, 70_000));
    }
}

pub(crate) fn check_traffic(rank: &mut dyn Transport) {
    let before = rank.traffic();
    let peers = rank.topology().world_size as u64 - 1;
    let send = vec![&[0; 10][..]; peers as usize + 1];
    all_to_all(rank, &send).unwrap();
    all_gather(rank, &[0; 5]).unwrap();
    barrier(rank).unwrap();
    let after = rank.traffic();
    assert_eq!(after.sent - before.sent, 15 * peers);
    assert_eq!(after.received - before.received, 15 * peers);
    assert_eq!(after.operations - before.operations, 3);
}
