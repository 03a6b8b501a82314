//! Connects the ranks of a group with each other.
//!
//! Rank 0 listens at the address of the group. Every other rank opens a port of its own, connects to rank 0 and sends
//! its rank and port. When all ranks have connected, rank 0 sends all addresses to all ranks, and each rank connects to
//! the lower ranks.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::connection::has_hung_up;
use super::handshake::{HandshakeError, TimedStream, Token};
use crate::deadline::{Deadline, Timer};
use crate::error::{Class, Error, not_joined};
use crate::topology::{Member, Topology};

/// Maximum duration of a handshake. After this time, a client that sends nothing is disconnected.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of handshakes at one time.
const MAX_HANDSHAKES: usize = 256;
/// Time between two polls for connections.
const TURN: Duration = Duration::from_millis(20);

/// The address of a group and the place of this process in it.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub world_size: usize,
    /// Host name or address of rank 0.
    pub master: String,
    /// Port of rank 0.
    pub port: u16,
    /// Secret of the job.
    pub token: Token,
    /// Name of this host in messages.
    pub host: String,
}

/// First message of a rank to rank 0, and to the lower ranks (without a port).
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    rank: usize,
    world_size: usize,
    host: String,
    port: u16,
}

/// Answer of rank 0.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// Host names and addresses of all ranks; the address of rank 0 is not used.
    Members(Vec<(String, Option<SocketAddr>)>),
    Refused(String),
}

/// Streams by rank; `None` for this rank.
type Streams = Vec<Option<TcpStream>>;

/// Returns the host names of all ranks and the connections to the others.
pub(super) fn connect(
    config: &TcpConfig,
    deadline: &mut Deadline,
    on_refused: &mut dyn FnMut(&str),
) -> Result<(Vec<String>, Streams), Error> {
    let end = Instant::now() + deadline.timeout;
    if config.rank == 0 {
        return lead(config, deadline, on_refused);
    }
    let master = reach_master(config, end)?;
    let own_address = SocketAddr::new(master.local_addr().map_err(not_joined)?.ip(), 0);
    let mut acceptor = Acceptor::bind(own_address, config)?;
    let hello = Hello {
        rank: config.rank,
        world_size: config.world_size,
        host: config.host.clone(),
        port: acceptor.port().map_err(not_joined)?,
    };
    let mut timed = TimedStream::new(&master, end.saturating_duration_since(Instant::now()));
    timed.send(&hello).map_err(not_joined)?;
    let lost = |error: io::Error| {
        let reason = format!("rank 0 has left before all ranks had joined: {error}");
        Error::new(Class::Later, format!("cannot reach {}: {reason}", address(config)))
    };
    let members = match timed.receive().map_err(lost)? {
        Answer::Members(members) if members.len() == config.world_size => members,
        Answer::Members(_) => return Err(lost(ErrorKind::InvalidData.into())),
        Answer::Refused(reason) => return Err(Error::usage(format!("cannot join the group: {reason}"))),
    };
    let mut streams: Streams = (0..config.world_size).map(|_| None).collect();
    streams[0] = Some(master);
    for rank in 1..config.rank {
        streams[rank] = Some(reach_peer(config, &members[rank], rank, end)?);
    }
    acceptor.accept_ranks(config, config.rank + 1, &mut streams, deadline, on_refused)?;
    Ok((members.into_iter().map(|(host, _)| host).collect(), streams))
}

/// Accepts all ranks as rank 0, and sends each of them the addresses of the others.
fn lead(
    config: &TcpConfig,
    deadline: &mut Deadline,
    on_refused: &mut dyn FnMut(&str),
) -> Result<(Vec<String>, Streams), Error> {
    let is_local = |ip: &IpAddr| ip.is_loopback();
    let ip = match resolve(config).ok().and_then(|addresses| addresses.first().map(SocketAddr::ip)) {
        Some(ip) if is_local(&ip) => ip,
        // Listen on all interfaces: other hosts may reach rank 0 at an address that is not an address of this
        // host.
        Some(IpAddr::V6(_)) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let mut acceptor = Acceptor::bind(SocketAddr::new(ip, config.port), config)?;
    let mut streams: Streams = (0..config.world_size).map(|_| None).collect();
    let mut members = acceptor.accept_ranks(config, 1, &mut streams, deadline, on_refused)?;
    members[0] = (config.host.clone(), None);
    let hosts = members.iter().map(|(host, _)| host.clone()).collect();
    let answer = Answer::Members(members);
    for stream in streams.iter().flatten() {
        TimedStream::new(stream, HANDSHAKE).send(&answer).map_err(not_joined)?;
    }
    Ok((hosts, streams))
}

fn address(config: &TcpConfig) -> String {
    format!("{}:{}", config.master, config.port)
}

fn resolve(config: &TcpConfig) -> io::Result<Vec<SocketAddr>> {
    Ok((config.master.as_str(), config.port).to_socket_addrs()?.collect())
}

/// Connects to rank 0. Retries until `end`, because rank 0 may not listen yet.
fn reach_master(config: &TcpConfig, end: Instant) -> Result<TcpStream, Error> {
    let mut pause = Duration::from_millis(50);
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        let attempt = || -> Result<TcpStream, HandshakeError> {
            let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
            for address in resolve(config)? {
                match TcpStream::connect_timeout(&address, rest.min(HANDSHAKE).max(TURN)) {
                    Ok(stream) => {
                        TimedStream::new(&stream, rest.min(HANDSHAKE)).prove(&config.token)?;
                        return Ok(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last.into())
        };
        match attempt() {
            Ok(stream) => return Ok(stream),
            Err(HandshakeError::OtherToken) => {
                let reason = "rank 0 has another BERT_GROUP_TOKEN".to_string();
                return Err(Error::usage(format!("cannot join the group: {reason}")));
            }
            Err(error) if Instant::now() + pause >= end => {
                return Err(Error::new(Class::Later, format!("cannot reach {}: {error}", address(config))));
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Connects to a lower rank.
fn reach_peer(
    config: &TcpConfig,
    (host, address): &(String, Option<SocketAddr>),
    rank: usize,
    end: Instant,
) -> Result<TcpStream, Error> {
    let rest = end.saturating_duration_since(Instant::now()).max(TURN);
    let unreachable = |reason: String| {
        let address = address.map_or_else(String::new, |address| address.to_string());
        let member = Member { rank, host: host.clone() };
        Error::new(Class::Later, format!("cannot reach {address} ({member}): {reason}"))
    };
    let address = address.ok_or_else(|| unreachable("it has no address".into()))?;
    let stream =
        TcpStream::connect_timeout(&address, rest).map_err(|error| unreachable(error.to_string()))?;
    let mut timed = TimedStream::new(&stream, rest);
    timed.prove(&config.token).map_err(|error| unreachable(error.to_string()))?;
    let hello =
        Hello { rank: config.rank, world_size: config.world_size, host: config.host.clone(), port: 0 };
    timed.send(&hello).map_err(|error| unreachable(error.to_string()))?;
    Ok(stream)
}

/// An acceptor of connections. Each handshake runs on its own thread, so that a foreign client does not delay
/// the ranks.
struct Acceptor {
    listener: TcpListener,
    token: Token,
    sender: Sender<Arrival>,
    arrivals: Receiver<Arrival>,
    handshakes: Arc<AtomicUsize>,
}

/// A finished handshake.
struct Arrival {
    from: SocketAddr,
    result: Result<(TcpStream, Hello), HandshakeError>,
}

impl Acceptor {
    fn bind(address: SocketAddr, config: &TcpConfig) -> Result<Self, Error> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        // The port may be in use for a short time only, for example by an earlier start of the same ranks.
        let class = |cause: &io::Error| match cause.kind() {
            ErrorKind::AddrInUse => Class::Later,
            _ => Class::Failed,
        };
        let listener = listen().map_err(|cause| {
            Error::new(class(&cause), format!("cannot listen on {address}")).because(cause)
        })?;
        let (sender, arrivals) = channel();
        Ok(Self { listener, token: config.token.clone(), sender, arrivals, handshakes: Arc::default() })
    }

    fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Accepts the ranks from `first` on and puts their connections into `streams`. Returns the host name and the
    /// address of each of these ranks; the entries of lower ranks are empty.
    fn accept_ranks(
        &mut self,
        config: &TcpConfig,
        first: usize,
        streams: &mut Streams,
        deadline: &mut Deadline,
        on_refused: &mut dyn FnMut(&str),
    ) -> Result<Vec<(String, Option<SocketAddr>)>, Error> {
        let mut members = vec![(String::new(), None); config.world_size];
        let unknown = Topology::new(config.rank, vec![String::new(); config.world_size]);
        let mut timer = Timer::start(deadline);
        loop {
            let left = streams.iter().position(|stream| stream.as_ref().is_some_and(has_hung_up));
            match left {
                // The rank may be restarted and join a second time.
                Some(rank) if config.rank == 0 => streams[rank] = None,
                Some(rank) => {
                    let text = format!("cannot reach rank {rank}: it has left before all ranks had joined");
                    return Err(Error::new(Class::Later, text));
                }
                None => {}
            }
            let missing: Vec<usize> =
                (first..config.world_size).filter(|&rank| streams[rank].is_none()).collect();
            if missing.is_empty() {
                return Ok(members);
            }
            let sleep = timer.check(&unknown, || missing)?;
            let Some(Arrival { from, result }) = self.next(sleep.min(TURN)) else { continue };
            match result.map_err(|error| error.to_string()).and_then(|(stream, hello)| {
                refusal(config, first, streams, &hello).map_or(Ok(()), |reason| {
                    // The result is ignored: the rank may have disconnected, and it is rejected in either
                    // case.
                    let _ = TimedStream::new(&stream, HANDSHAKE).send(&Answer::Refused(reason.clone()));
                    Err(reason)
                })?;
                Ok((stream, hello))
            }) {
                Ok((stream, hello)) => {
                    members[hello.rank] = (hello.host, Some(SocketAddr::new(from.ip(), hello.port)));
                    streams[hello.rank] = Some(stream);
                    timer.progress();
                }
                Err(reason) => on_refused(&format!("refused a connection from {from}: {reason}")),
            }
        }
    }

    /// Starts handshakes with new connections. Returns a finished handshake, or `None` if there is none
    /// within `wait`.
    fn next(&mut self, wait: Duration) -> Option<Arrival> {
        while let Ok((stream, from)) = self.listener.accept() {
            if self.handshakes.fetch_add(1, Ordering::Relaxed) >= MAX_HANDSHAKES {
                self.handshakes.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let token = self.token.clone();
            let sender = self.sender.clone();
            let handshakes = Arc::clone(&self.handshakes);
            std::thread::spawn(move || {
                let result = greet(stream, &token);
                handshakes.fetch_sub(1, Ordering::Relaxed);
                // Sending fails only if the acceptor was dropped. The error is ignored, because no rank is
                // expected then.
                let _ = sender.send(Arrival { from, result });
            });
        }
        self.arrivals.recv_timeout(wait).ok()
    }
}

/// Checks the token of a new connection and reads its first message.
fn greet(stream: TcpStream, token: &Token) -> Result<(TcpStream, Hello), HandshakeError> {
    stream.set_nonblocking(false)?;
    let mut timed = TimedStream::new(&stream, HANDSHAKE);
    timed.demand(token)?;
    let hello = timed.receive()?;
    Ok((stream, hello))
}

/// Returns the reason why a rank cannot join; `None` if it can.
fn refusal(config: &TcpConfig, first: usize, streams: &mut Streams, hello: &Hello) -> Option<String> {
    let Hello { rank, world_size, host, .. } = hello;
    if *world_size != config.world_size {
        return Some(format!(
            "it belongs to a group of {world_size} ranks, this one has {}",
            config.world_size
        ));
    }
    if !(first..config.world_size).contains(rank) {
        return Some(format!("there is no place for rank {rank}"));
    }
    let taken = streams[*rank].as_ref().is_some_and(|stream| !has_hung_up(stream));
    taken.then(|| format!("rank {rank} has joined before; the second one is on {host}"))
}
