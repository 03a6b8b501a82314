//! Process groups over TCP.
//!
//! Each pair of ranks has one connection. The ranks find each other through rank 0, which listens at a known address
//! ([`rendezvous`]). Both ends prove that they know the token of the job ([`handshake`]); the bytes are not encrypted.
//! The calling thread moves all bytes, straight between the sockets and the slices of the caller ([`connection`]).

mod connection;
mod handshake;
mod rendezvous;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

use self::connection::{Connection, Fault, FrameHeader};
pub use self::handshake::Token;
pub use self::rendezvous::TcpConfig;
use crate::deadline::{Deadline, Timer};
use crate::error::{Error, Lost, not_joined};
use crate::topology::Topology;
use crate::transport::{Operation, Traffic, Transport};

/// The transport of a rank that has joined a group over TCP.
#[derive(Debug)]
pub struct TcpTransport {
    topology: Topology,
    traffic: Traffic,
    /// Number of the next operation.
    sequence: u64,
    /// Connections by rank; `None` for this rank, and for all ranks after a failure.
    connections: Vec<Option<Connection>>,
    failure: Option<Lost>,
}

impl TcpTransport {
    /// Returns the transport of a group of one process, which has no connections.
    pub fn alone() -> Self {
        Self::new(0, vec!["localhost".into()], vec![None])
    }

    /// Joins a group: returns when all ranks are connected to each other.
    ///
    /// `on_refused` is called with a text for each connection that this rank rejects.
    ///
    /// # Errors
    /// Fails if rank 0 cannot listen or cannot be reached, if it rejects this rank, or if a rank does not join within
    /// the timeout.
    pub fn join(
        config: &TcpConfig,
        deadline: &mut Deadline,
        on_refused: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let (hosts, streams) = rendezvous::connect(config, deadline, on_refused)?;
        let connections = streams.into_iter().map(|stream| stream.map(Connection::new).transpose());
        let connections = connections.collect::<Result<_, _>>().map_err(not_joined)?;
        let mut transport = Self::new(config.rank, hosts, connections);
        transport.barrier(deadline)?;
        transport.traffic = Traffic::default();
        Ok(transport)
    }

    fn new(rank: usize, hosts: Vec<String>, connections: Vec<Option<Connection>>) -> Self {
        let topology = Topology::new(rank, hosts);
        Self { topology, traffic: Traffic::default(), sequence: 0, connections, failure: None }
    }

    /// Moves bytes until all frames of the operation are sent and received. An error names the rank at fault.
    fn run(
        &mut self,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), (usize, Fault)> {
        let mut timer = Timer::start(deadline);
        let peers: Vec<usize> = self.topology.peers().collect();
        loop {
            let mut has_moved = false;
            for &rank in &peers {
                let connection = self.connections[rank].as_mut().expect("a peer has a connection");
                let moved = connection.advance(send[rank], receive[rank]).map_err(|fault| (rank, fault))?;
                self.traffic.sent += moved.sent;
                self.traffic.received += moved.received;
                has_moved |= moved.any;
            }
            if has_moved {
                timer.progress();
                continue;
            }
            let open = |rank: &usize| self.connections[*rank].as_ref().is_some_and(|c| !c.is_done());
            let waiting: Vec<usize> = peers.iter().copied().filter(open).collect();
            let Some(&first) = waiting.first() else { return Ok(()) };
            let sleep = timer
                .check(&self.topology, || waiting.clone())
                .map_err(|lost| (first, Fault::Silent(lost)))?;
            self.wait(&waiting, sleep).map_err(|error| (first, Fault::Io(error)))?;
        }
    }

    /// Waits until one of the connections is ready, or until `sleep` has passed.
    fn wait(&self, ranks: &[usize], sleep: Duration) -> std::io::Result<()> {
        let mut ready: Vec<PollFd> = ranks
            .iter()
            .filter_map(|&rank| self.connections[rank].as_ref())
            .map(|connection| PollFd::from_borrowed_fd(connection.stream().as_fd(), connection.events()))
            .collect();
        let timeout = Timespec::try_from(sleep.max(Duration::from_millis(1))).ok();
        match poll(&mut ready, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Records the failure, tells the other ranks which rank is lost, so that they do not report this one, and closes
    /// all connections.
    fn fail(&mut self, rank: usize, fault: Fault, send: &[&[u8]]) -> Lost {
        const LIMIT: Duration = Duration::from_secs(1);
        let lost = self.lost(rank, fault);
        let (culprit, reason) = match &lost {
            Lost::Peer { member, reason } => (member.rank, reason.clone()),
            Lost::Silent { members, .. } => {
                (members.first().map_or(rank, |member| member.rank), lost.to_string())
            }
        };
        let end = Instant::now() + LIMIT;
        for (peer, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection {
                // The result is ignored: this peer may be the lost rank, and any other peer detects the
                // failure when the connection is closed below.
                let _ =
                    connection.send_abort(send.get(peer).copied().unwrap_or_default(), culprit, &reason, end);
            }
        }
        for connection in self.connections.iter_mut().filter_map(Option::take) {
            connection::close(connection.stream(), end);
        }
        self.failure = Some(lost.clone());
        lost
    }

    fn lost(&self, rank: usize, fault: Fault) -> Lost {
        match fault {
            Fault::Silent(lost) => lost,
            Fault::Io(error) => self.peer(rank, error.to_string()),
            Fault::Closed => self.peer(rank, "it has closed the connection".to_string()),
            Fault::Unexpected(text) => self.peer(rank, text),
            Fault::Abort { culprit, reason } if culprit < self.topology.world_size => {
                self.peer(culprit, format!("{reason} (reported by {})", self.topology.member(rank)))
            }
            Fault::Abort { reason, .. } => self.peer(rank, reason),
        }
    }

    fn peer(&self, rank: usize, reason: String) -> Lost {
        Lost::Peer { member: self.topology.member(rank), reason }
    }
}

impl Transport for TcpTransport {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn check(&mut self) -> Result<(), Lost> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let closed = |connection: &Option<Connection>| connection.as_ref().and_then(Connection::closed);
        let faults: Vec<(usize, Fault)> =
            self.connections.iter().enumerate().filter_map(|(rank, c)| Some((rank, closed(c)?))).collect();
        // Prefer a report to a closed connection, because a report names the rank that is the cause.
        let is_report = |(_, fault): &(usize, Fault)| matches!(fault, Fault::Abort { .. });
        let position = faults.iter().position(is_report).unwrap_or(0);
        match faults.into_iter().nth(position) {
            Some((rank, fault)) => Err(self.fail(rank, fault, &[])),
            None => Ok(()),
        }
    }

    fn transfer(
        &mut self,
        operation: Operation,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        for rank in self.topology.peers() {
            let header = |length: usize| FrameHeader::new(operation, self.sequence, length);
            if let Some(connection) = &mut self.connections[rank] {
                connection.begin(header(send[rank].len()), header(receive[rank].len()));
            }
        }
        self.sequence += 1;
        match self.run(send, receive, deadline) {
            Ok(()) => {
                self.traffic.operations += 1;
                Ok(())
            }
            Err((rank, fault)) => Err(self.fail(rank, fault, send)),
        }
    }
}
