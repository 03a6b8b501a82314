//! The operations of a process group.

use std::fmt;

use crate::deadline::Deadline;
use crate::error::Lost;
use crate::topology::Topology;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`Transport::all_to_all`]
    AllToAll = 1,
    /// [`Transport::all_gather`]
    AllGather = 2,
    /// [`Transport::broadcast`]
    Broadcast = 3,
    /// [`Transport::barrier`]
    Barrier = 4,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::AllToAll => "all-to-all",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
            Self::Barrier => "barrier",
        })
    }
}

/// Numbers of bytes and operations since the rank joined the group, without headers and without the part that a rank
/// sends to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes sent to other ranks.
    pub sent: u64,
    /// Number of bytes received from other ranks.
    pub received: u64,
    /// Number of finished operations.
    pub operations: u64,
}

/// A connection of a rank to all others.
///
/// All ranks call the same operations in the same order with the same lengths. A rank that receives bytes of a
/// different operation or length fails. After an error every later operation returns the same error.
pub trait Transport: Send {
    /// Returns the ranks of the group.
    fn topology(&self) -> &Topology;

    /// Returns the numbers of bytes and operations so far.
    fn traffic(&self) -> Traffic;

    /// Checks for lost ranks without waiting. Call it in long computations between two operations.
    ///
    /// # Errors
    /// Fails if a rank is known to be lost.
    fn check(&mut self) -> Result<(), Lost>;

    /// Sends `send[r]` to each other rank `r` and fills `receive[r]` with its bytes. The rank's own entries are not
    /// used. The other methods call this one; call them instead.
    ///
    /// # Errors
    /// Fails if a rank is lost or silent, or if it calls a different operation.
    fn transfer(
        &mut self,
        operation: Operation,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost>;

    /// Sends `send[r]` to rank `r` and fills `receive[r]` with the bytes that rank `r` sends to this one. The rank's
    /// own part is copied; to avoid the copy, give two empty slices for it.
    ///
    /// # Errors
    /// Fails as [`Transport::transfer`] does.
    ///
    /// # Panics
    /// Panics if a slice does not have one entry per rank, or if the rank's own parts differ in length.
    fn all_to_all(
        &mut self,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost> {
        let rank = self.topology().rank;
        receive[rank].copy_from_slice(send[rank]);
        self.transfer(Operation::AllToAll, send, receive, deadline)
    }

    /// Sends `parts[rank]` of this rank to all ranks and fills the other parts with theirs. The parts may differ in
    /// length.
    ///
    /// # Errors
    /// Fails as [`Transport::transfer`] does.
    ///
    /// # Panics
    /// Panics if `parts` does not have one entry per rank.
    fn all_gather(&mut self, parts: &mut [&mut [u8]], deadline: &mut Deadline) -> Result<(), Lost> {
        let rank = self.topology().rank;
        let own = std::mem::take(&mut parts[rank]);
        let send = vec![&*own; parts.len()];
        let result = self.transfer(Operation::AllGather, &send, parts, deadline);
        parts[rank] = own;
        result
    }

    /// Copies the bytes of the rank `root` to all other ranks.
    ///
    /// # Errors
    /// Fails as [`Transport::transfer`] does.
    fn broadcast(&mut self, root: usize, bytes: &mut [u8], deadline: &mut Deadline) -> Result<(), Lost> {
        let Topology { rank, world_size, .. } = *self.topology();
        let mut receive: Vec<&mut [u8]> = (0..world_size).map(|_| <&mut [u8]>::default()).collect();
        if rank == root {
            return self.transfer(Operation::Broadcast, &vec![&*bytes; world_size], &mut receive, deadline);
        }
        receive[root] = bytes;
        self.transfer(Operation::Broadcast, &vec![&[][..]; world_size], &mut receive, deadline)
    }

    /// Waits until all ranks have called this function.
    ///
    /// # Errors
    /// Fails as [`Transport::transfer`] does.
    fn barrier(&mut self, deadline: &mut Deadline) -> Result<(), Lost> {
        let world_size = self.topology().world_size;
        let mut receive: Vec<&mut [u8]> = (0..world_size).map(|_| <&mut [u8]>::default()).collect();
        self.transfer(Operation::Barrier, &vec![&[][..]; world_size], &mut receive, deadline)
    }
}
