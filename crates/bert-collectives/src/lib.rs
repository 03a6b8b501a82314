//! Moves bytes between the ranks of a process group.
//!
//! A *process group* is a set of processes, or of threads in tests, that train one model. Each has a *rank* from 0 to
//! `world_size - 1`. All ranks call the same collective operations in the same order:
//!
//! | operation | effect |
//! |---|---|
//! | [`all_to_all`](Transport::all_to_all) | sends one part to each rank and receives one part from each |
//! | [`all_gather`](Transport::all_gather) | sends one part to all ranks and receives one part from each |
//! | [`broadcast`](Transport::broadcast) | sends the bytes of one rank to all others |
//! | [`barrier`](Transport::barrier) | returns when all ranks have called it |
//!
//! The crate moves bytes and adds no numbers. The last bits of a reduction by MPI or NCCL depend on the
//! number of ranks and on the algorithm that the library chooses. Therefore, the caller adds in a fixed
//! order.
//!
//! An operation that cannot finish returns [`Lost`] with the ranks that are responsible. It never waits longer than
//! [`Deadline::timeout`] without progress.
//!
//! [`Plan::choose`] finds the group of a process in the environment variables of its launcher (`bert launch`, mpirun,
//! srun, torchrun, Kubernetes), and [`Plan::join`] connects to it.
//!
//! | transport | ranks |
//! |---|---|
//! | [`TcpTransport`] | processes on any hosts, or one process without connections |
//! | MPI (feature `mpi`) | processes that `mpirun` or `srun` has started |
//! | NCCL (feature `nccl`, untested) | processes with one GPU each |

mod deadline;
mod environment;
mod error;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(feature = "nccl")]
mod nccl;
mod plan;
mod tcp;
mod topology;
mod transport;

pub use deadline::{Deadline, Timer, Waiting};
pub use environment::{Environment, Launcher, MAX_RANKS};
pub use error::{Class, Error, Lost};
pub use plan::{Engine, Plan};
pub use tcp::{TcpConfig, TcpTransport, Token};
pub use topology::{Member, Topology, host_name};
pub use transport::{Operation, Traffic, Transport};
