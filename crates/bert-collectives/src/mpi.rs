//! Process groups over MPI (feature `mpi`), with the crate `mpi`.
//!
//! All sends and receives are immediate, and a loop tests them, so that an error can name a rank that does
//! not answer. On most errors, the MPI library ends the process itself. After a timeout, this module prints
//! the error and ends all ranks by `MPI_Abort` with exit code 75, because MPI cannot cancel a message.

use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::request::{LocalScope, Request, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};

use crate::deadline::{Deadline, Timer};
use crate::error::{Error, Lost};
use crate::topology::{Topology, host_name};
use crate::transport::{Operation, Traffic, Transport};

/// Maximum length of a message; MPI counts in 32 bits.
const MAX_MESSAGE: usize = 1 << 30;
/// Maximum length of a host name.
const MAX_HOST: usize = 256;
/// Time during which an operation polls without sleeping. MPI moves large messages only while a rank tests them.
const SPIN: Duration = Duration::from_secs(1);
const SLEEP: Duration = Duration::from_micros(100);
/// Exit code after a timeout or a panic. It means that the same command may succeed later.
const RETRY: i32 = 75;
/// Maximum time that a finished rank waits for the others.
const END: Duration = Duration::from_secs(600);

/// The transport of a rank that `mpirun` has started.
pub(crate) struct MpiTransport {
    topology: Topology,
    traffic: Traffic,
    /// The guard that finalizes MPI when it is dropped.
    _universe: Universe,
}

type Pending<'a, 'scope, D> = (usize, usize, Request<'a, D, &'scope LocalScope<'a>>);

impl MpiTransport {
    /// Joins the group of `mpirun`.
    pub(crate) fn join(deadline: &mut Deadline) -> Result<Self, Error> {
        let no_engine = |reason: &str| Error::usage(reason.to_string());
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)
            .ok_or_else(|| no_engine("MPI cannot be started twice in one process"))?;
        let world = SimpleCommunicator::world();
        let rank = world.rank() as usize;
        let world_size = world.size() as usize;
        let topology = Topology::new(rank, vec![String::new(); world_size]);
        let mut transport = Self { topology, traffic: Traffic::default(), _universe: universe };
        let mut names = vec![[0; MAX_HOST]; world_size];
        let own = host_name();
        let length = own.len().min(MAX_HOST);
        names[rank][..length].copy_from_slice(&own.as_bytes()[..length]);
        let mut parts: Vec<&mut [u8]> = names.iter_mut().map(|name| &mut name[..]).collect();
        transport.all_gather(&mut parts, deadline)?;
        let text = |name: &[u8; MAX_HOST]| String::from_utf8_lossy(name).trim_end_matches('\0').to_string();
        transport.topology = Topology::new(rank, names.iter().map(text).collect());
        transport.traffic = Traffic::default();
        Ok(transport)
    }

    /// Prints the error and ends all ranks.
    fn abort(lost: &Lost) -> ! {
        eprintln!("error: {lost}; the last checkpoint, if there is one, is intact; continue with --resume");
        SimpleCommunicator::world().abort(RETRY)
    }
}

/// Returns the number of messages that carry a part of `length` bytes: at least one, even if the part is empty.
fn messages(length: usize) -> usize {
    length.div_ceil(MAX_MESSAGE).max(1)
}

impl Transport for MpiTransport {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Always returns `Ok`, because `mpirun` ends all ranks when one of them dies.
    fn check(&mut self) -> Result<(), Lost> {
        Ok(())
    }

    fn transfer(
        &mut self,
        operation: Operation,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost> {
        let world = SimpleCommunicator::world();
        // The tag identifies the operation, so the messages of a rank that calls a different one do not match, and this
        // rank times out.
        let tag = (self.traffic.operations % 1000) as i32 * 8 + operation as i32;
        let mut sent = 0;
        let mut received = 0;
        let own = self.topology.rank;
        let wrong = scope(|scope| {
            let mut sends: Vec<Pending<[u8]>> = Vec::new();
            let mut receives: Vec<Pending<[u8]>> = Vec::new();
            for (rank, part) in receive.iter_mut().enumerate().filter(|(rank, _)| *rank != own) {
                received += part.len() as u64;
                let source = world.process_at_rank(rank as i32);
                let mut rest = &mut **part;
                for _ in 0..messages(rest.len()) {
                    let (message, after) = rest.split_at_mut(rest.len().min(MAX_MESSAGE));
                    rest = after;
                    let length = message.len();
                    receives.push((
                        rank,
                        length,
                        source.immediate_receive_into_with_tag(scope, message, tag),
                    ));
                }
            }
            for (rank, part) in send.iter().enumerate().filter(|(rank, _)| *rank != own) {
                sent += part.len() as u64;
                let target = world.process_at_rank(rank as i32);
                let mut rest = *part;
                for _ in 0..messages(rest.len()) {
                    let (message, after) = rest.split_at(rest.len().min(MAX_MESSAGE));
                    rest = after;
                    let length = message.len();
                    sends.push((rank, length, target.immediate_send_with_tag(scope, message, tag)));
                }
            }
            complete(&self.topology, sends, receives, deadline)
        });
        if let Some((rank, count, expected)) = wrong {
            let reason = format!("it sent {count} bytes of {operation}, this rank expects {expected}");
            return Err(Lost::Peer { member: self.topology.member(rank), reason });
        }
        self.traffic.sent += sent;
        self.traffic.received += received;
        self.traffic.operations += 1;
        Ok(())
    }
}

/// Tests the requests until all are complete. Returns the rank, the length and the expected length of a message that is
/// too short, or `None` if there is none.
fn complete<'a>(
    topology: &Topology,
    mut sends: Vec<Pending<'a, '_, [u8]>>,
    mut receives: Vec<Pending<'a, '_, [u8]>>,
    deadline: &mut Deadline,
) -> Option<(usize, usize, usize)> {
    let mut timer = Timer::start(deadline);
    let started = Instant::now();
    let mut wrong = None;
    loop {
        let before = sends.len() + receives.len();
        sends = test(sends, |_, _, _| ());
        receives = test(receives, |rank, length, count| {
            if count != length {
                wrong = Some((rank, count, length));
            }
        });
        if sends.is_empty() && receives.is_empty() {
            return wrong;
        }
        if sends.len() + receives.len() < before {
            timer.progress();
        }
        let waiting = || {
            let mut ranks: Vec<usize> = sends.iter().chain(&receives).map(|(rank, _, _)| *rank).collect();
            ranks.sort_unstable();
            ranks.dedup();
            ranks
        };
        if let Err(lost) = timer.check(topology, waiting) {
            MpiTransport::abort(&lost);
        }
        if started.elapsed() < SPIN { std::thread::yield_now() } else { std::thread::sleep(SLEEP) }
    }
}

/// Tests each request once, and returns the incomplete requests. Calls `done` for each complete request, with the rank
/// and with the expected and the actual length.
fn test<'a, 'scope>(
    requests: Vec<Pending<'a, 'scope, [u8]>>,
    mut done: impl FnMut(usize, usize, usize),
) -> Vec<Pending<'a, 'scope, [u8]>> {
    let mut rest = Vec::new();
    for (rank, length, request) in requests {
        match request.test() {
            Ok(status) => done(rank, length, status.count(u8::equivalent_datatype()) as usize),
            Err(request) => rest.push((rank, length, request)),
        }
    }
    rest
}

impl Drop for MpiTransport {
    /// Waits for the other ranks with a time limit, because `MPI_Finalize` would wait without one. If this
    /// thread is panicking, ends all ranks instead.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("error: {} has panicked", self.topology.member(self.topology.rank));
            SimpleCommunicator::world().abort(RETRY);
        }
        let mut deadline = Deadline { timeout: END, interval: END, on_wait: &mut |_| {} };
        if let Err(lost) = self.barrier(&mut deadline) {
            Self::abort(&lost);
        }
    }
}
