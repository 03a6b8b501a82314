//! Process groups over NCCL (feature `nccl`), with the crate `cudarc`. **Untested: it compiles, but has not run on a
//! GPU.**
//!
//! The ranks join over TCP. Before each operation, they exchange the lengths of its parts over TCP, so that a
//! lost rank, or a rank that calls a different operation, is detected before a GPU waits for it. NCCL then
//! moves the bytes from GPU to GPU. The bytes are copied from and to host memory, because the callers add on
//! the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use cudarc::nccl::{Comm, Id, group_end, group_start};

use crate::deadline::{Deadline, Timer};
use crate::error::{Error, Lost};
use crate::tcp::{TcpConfig, TcpTransport};
use crate::topology::Topology;
use crate::transport::{Operation, Traffic, Transport};

/// Length of an NCCL identifier in bytes.
const ID_BYTES: usize = 128;
/// Time between two polls of an operation on the GPU.
const POLL: Duration = Duration::from_micros(50);
/// Time between two checks of the other ranks.
const CHECK: Duration = Duration::from_millis(20);

/// The transport of a rank that has its own GPU.
pub(crate) struct NcclTransport {
    tcp: TcpTransport,
    traffic: Traffic,
    worker: Worker,
    failure: Option<Lost>,
}

/// The messages that one rank sends to the others and receives from them.
struct Exchange {
    /// Bytes for each rank; empty parts are not sent.
    send: Vec<Vec<u8>>,
    /// Number of bytes from each rank.
    receive: Vec<usize>,
}

/// A handle to the thread that owns the communicator. The communicator must not move to another thread.
struct Worker {
    jobs: Sender<Exchange>,
    results: Receiver<Result<Vec<Vec<u8>>, String>>,
    is_cancelled: Arc<AtomicBool>,
}

impl NcclTransport {
    /// Joins the group over TCP, then over NCCL. [`Topology::card`] chooses the GPU.
    ///
    /// # Errors
    /// Fails as [`TcpTransport::join`] does, and if there is no NCCL library or no GPU for this rank.
    pub(crate) fn join(
        config: &TcpConfig,
        deadline: &mut Deadline,
        on_refused: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let mut tcp = TcpTransport::join(config, deadline, on_refused)?;
        let topology = tcp.topology().clone();
        let mut id = [0; ID_BYTES];
        if topology.rank == 0 {
            let new =
                thread::spawn(Id::new).join().map_err(|_| no_engine("the NCCL library cannot be loaded"))?;
            let new = new.map_err(|error| no_engine(&format!("ncclGetUniqueId: {:?}", error.0)))?;
            id = new.internal().map(|byte| byte as u8);
        }
        tcp.broadcast(0, &mut id, deadline)?;
        let worker = Worker::start(Id::uninit(id.map(|byte| byte as _)), topology);
        let mut transport = Self { tcp, traffic: Traffic::default(), worker, failure: None };
        // The first result means that the communicator exists on all ranks.
        transport.wait(deadline)?;
        Ok(transport)
    }

    /// Waits for a result of the worker and returns it; meanwhile, checks for lost ranks.
    fn wait(&mut self, deadline: &mut Deadline) -> Result<Vec<Vec<u8>>, Lost> {
        let topology = self.tcp.topology().clone();
        let own = |reason: String| Lost::Peer { member: topology.member(topology.rank), reason };
        let mut timer = Timer::start(deadline);
        let found = loop {
            match self.worker.results.recv_timeout(CHECK) {
                Ok(result) => break result.map_err(own),
                Err(RecvTimeoutError::Disconnected) => break Err(own("NCCL failed".to_string())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let checked =
                self.tcp.check().and_then(|()| timer.check(&topology, || topology.peers().collect()));
            if let Err(lost) = checked {
                break Err(lost);
            }
        };
        if let Err(lost) = &found {
            self.worker.is_cancelled.store(true, Ordering::Relaxed);
            self.failure = Some(lost.clone());
        }
        found
    }
}

fn no_engine(reason: &str) -> Error {
    Error::usage(format!("{reason}; use `.group tcp`"))
}

impl Transport for NcclTransport {
    fn topology(&self) -> &Topology {
        self.tcp.topology()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn check(&mut self) -> Result<(), Lost> {
        self.failure.clone().map_or_else(|| self.tcp.check(), Err)
    }

    fn transfer(
        &mut self,
        operation: Operation,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost> {
        self.check()?;
        let topology = self.tcp.topology().clone();
        let lengths: Vec<[u8; 8]> = send.iter().map(|part| (part.len() as u64).to_le_bytes()).collect();
        let lengths: Vec<&[u8]> = lengths.iter().map(|length| &length[..]).collect();
        let mut announced = vec![[0; 8]; topology.world_size];
        let mut parts: Vec<&mut [u8]> = announced.iter_mut().map(|length| &mut length[..]).collect();
        self.tcp.transfer(operation, &lengths, &mut parts, deadline)?;
        for rank in topology.peers() {
            let sent = u64::from_le_bytes(announced[rank]);
            let expected = receive[rank].len() as u64;
            if sent != expected {
                let reason = format!("it sends {sent} bytes of {operation}, this rank expects {expected}");
                let lost = Lost::Peer { member: topology.member(rank), reason };
                self.failure = Some(lost.clone());
                return Err(lost);
            }
        }
        let is_peer = |rank: usize| rank != topology.rank;
        let exchange = Exchange {
            send: (0..)
                .zip(send)
                .map(|(rank, part)| if is_peer(rank) { part.to_vec() } else { Vec::new() })
                .collect(),
            receive: (0..)
                .zip(&*receive)
                .map(|(rank, part)| if is_peer(rank) { part.len() } else { 0 })
                .collect(),
        };
        self.traffic.operations += 1;
        self.traffic.sent += exchange.send.iter().map(|part| part.len() as u64).sum::<u64>();
        self.traffic.received += exchange.receive.iter().sum::<usize>() as u64;
        if exchange.send.iter().all(Vec::is_empty) && exchange.receive.iter().all(|&length| length == 0) {
            return Ok(());
        }
        // Sending fails only if the worker has ended. The error is ignored, because `wait` below reports it.
        let _ = self.worker.jobs.send(exchange);
        for (rank, bytes) in self.wait(deadline)?.iter().enumerate().filter(|(rank, _)| is_peer(*rank)) {
            receive[rank].copy_from_slice(bytes);
        }
        Ok(())
    }
}

impl Worker {
    fn start(id: Id, topology: Topology) -> Self {
        let (jobs, inbox) = channel::<Exchange>();
        let (outbox, results) = channel();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = is_cancelled.clone();
        thread::spawn(move || {
            let opened = open(id, &topology);
            let comm = match opened {
                Ok(comm) => comm,
                Err(error) => return drop(outbox.send(Err(error))),
            };
            let _ = outbox.send(Ok(Vec::new()));
            for job in inbox {
                let result = exchange(&comm, &job, &cancelled);
                let has_failed = result.is_err();
                if outbox.send(result).is_err() || has_failed {
                    return; // returning drops the communicator, which ends its operations
                }
            }
        });
        Self { jobs, results, is_cancelled }
    }
}

/// Opens a GPU and its communicator; waits until all ranks have done so.
fn open(id: Id, topology: &Topology) -> Result<Comm, String> {
    let visible = CudaContext::device_count().map_err(|error| format!("GPU: {error}"))?.max(0) as usize;
    let gpu = topology.card(0, visible).ok_or_else(|| {
        format!(
            "{} ranks of this computer need a card each, and {visible} are visible",
            topology.local_world_size
        )
    })?;
    let context = CudaContext::new(gpu).map_err(|error| format!("GPU {gpu}: {error}"))?;
    let stream = context.new_stream().map_err(|error| format!("GPU {gpu}: {error}"))?;
    Comm::from_rank(stream, topology.rank, topology.world_size, id)
        .map_err(|error| format!("ncclCommInitRank: {:?}", error.0))
}

/// Sends and receives all parts concurrently. Returns the received bytes of each rank.
fn exchange(comm: &Comm, job: &Exchange, is_cancelled: &AtomicBool) -> Result<Vec<Vec<u8>>, String> {
    let cuda = |error: DriverError| format!("GPU: {error}");
    let stream: Arc<CudaStream> = comm.stream();
    let upload = |part: &Vec<u8>| (!part.is_empty()).then(|| stream.clone_htod(part)).transpose();
    let sent: Vec<Option<CudaSlice<u8>>> =
        job.send.iter().map(upload).collect::<Result<_, _>>().map_err(cuda)?;
    let allocate = |&length: &usize| (length > 0).then(|| stream.alloc_zeros::<u8>(length)).transpose();
    let mut received: Vec<Option<CudaSlice<u8>>> =
        job.receive.iter().map(allocate).collect::<Result<_, _>>().map_err(cuda)?;
    group_start().map_err(|error| format!("ncclGroupStart: {:?}", error.0))?;
    for (rank, part) in (0..).zip(&sent) {
        if let Some(part) = part {
            comm.send(part, rank).map_err(|error| format!("ncclSend: {:?}", error.0))?;
        }
    }
    for (rank, part) in (0..).zip(&mut received) {
        if let Some(part) = part {
            comm.recv(part, rank).map_err(|error| format!("ncclRecv: {:?}", error.0))?;
        }
    }
    group_end().map_err(|error| format!("ncclGroupEnd: {:?}", error.0))?;
    let done = stream.record_event(None).map_err(cuda)?;
    while !done.try_is_complete().map_err(cuda)? {
        if is_cancelled.load(Ordering::Relaxed) {
            return Err("cancelled".to_string());
        }
        thread::sleep(POLL);
    }
    let download = |part: &Option<CudaSlice<u8>>| match part {
        Some(part) => stream.clone_dtoh(part),
        None => Ok(Vec::new()),
    };
    let bytes = received.iter().map(download).collect::<Result<_, _>>().map_err(cuda)?;
    stream.synchronize().map_err(cuda)?;
    Ok(bytes)
}
