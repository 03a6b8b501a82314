//! A process group that trains one model: each rank computes some micro-batches of a step and owns some of the
//! optimizer's state.
//!
//! The bits of the results do not depend on the number of ranks. The transport moves bytes and never adds: gradients
//! are added in the tree of all micro-batches (`step.rs`), norms and losses in the order of a single process. A chunk
//! of the weights has one owner, which updates it and sends it to all others, so the replicas are equal.
//!
//! A step has five operations:
//!
//! | operation | content |
//! |---|---|
//! | `Group::start_step` | errors, the targets and the longest sequence of the batch, a digest of the weights |
//! | `Group::reduce` | the gradients of each owner's elements |
//! | `Group::gather` | losses and sums of squares |
//! | `Group::share_weights` | the updated weights |
//! | `Group::finish_step` | errors, stop and checkpoint requests, the position in the data |
//!
//! `Group::hold` keeps an error of one rank, and the next operation sends it to all other ranks, so all ranks end with
//! the exit code of this error.

mod first_rank;
#[cfg(test)]
mod group_tests;
mod message;
pub(crate) mod optimizer_state;
mod step;

use std::time::Duration;

use bert_collectives::{Deadline, Lost, Member, TcpTransport, Transport, Waiting, host_name};
use bert_inference::DeviceName;
use bert_storage::Class;
use serde::Serialize;
use serde::de::DeserializeOwned;

use message::Message;

use crate::error::{Error, elsewhere, lost_rank, ranks_differ, stopped};
pub(crate) use step::{BatchTotals, Requests, digest, visit_parameters};

/// Time between two messages about ranks that have not answered.
const WAIT_INTERVAL: Duration = Duration::from_secs(60);
/// The factor by which the timeout is longer until the first step has finished, while kernels are compiled
/// and text is counted.
const START_FACTOR: u32 = 3;
/// Maximum length of an error message that is sent to other ranks, in words of eight bytes.
const TEXT_WORDS: usize = 256;
/// Number of words of a gathered message before its content: the exit code and the number of finished steps.
const STATUS_WORDS: usize = 2;

/// A rank's connection to its process group.
pub struct Group {
    transport: Box<dyn Transport>,
    timeout: Duration,
    on_wait: Box<dyn FnMut(&Waiting) + Send>,
    /// Number of finished steps of the run, for messages.
    step: u64,
    /// Number of finished steps of this process.
    steps_here: u64,
    /// Number of micro-batches of a step, once it is known.
    micro_batches: usize,
    /// This rank's error, until the next operation sends it to the other ranks.
    held: Option<Error>,
    outgoing: Vec<Message>,
    incoming: Vec<Message>,
}

impl Group {
    /// Returns the group of a single process.
    pub fn alone() -> Self {
        Self::new(Box::new(TcpTransport::alone()), Duration::MAX / 4, |_| {})
    }

    /// Creates a rank of a group. An operation fails if a rank neither sends nor receives a byte for
    /// `timeout`, or for three times as long before the first step has finished. `on_wait` is called every
    /// minute with the ranks that have not answered.
    pub fn new(
        transport: Box<dyn Transport>,
        timeout: Duration,
        on_wait: impl FnMut(&Waiting) + Send + 'static,
    ) -> Self {
        Self {
            transport,
            timeout,
            on_wait: Box::new(on_wait),
            step: 0,
            steps_here: 0,
            micro_batches: 0,
            held: None,
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }
    }

    /// Returns the rank of this process, from 0.
    pub fn rank(&self) -> usize {
        self.transport.topology().rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.transport.topology().world_size
    }

    /// Returns the number of ranks on this computer.
    pub(crate) fn local_ranks(&self) -> usize {
        self.transport.topology().local_world_size
    }

    /// Returns the device that this rank computes on. Each of several ranks on one computer has its own GPU, counted
    /// from the named one; a rank that sees only one GPU uses this GPU.
    ///
    /// # Errors
    /// Fails if there are fewer GPUs than ranks.
    pub(crate) fn device_of_this_rank(&self, device: DeviceName) -> Result<DeviceName, Error> {
        let DeviceName::Cuda(first) = device else { return Ok(device) };
        let topology = self.transport.topology();
        if topology.local_world_size == 1 {
            return Ok(device);
        }
        let visible =
            DeviceName::available().iter().filter(|found| matches!(found, DeviceName::Cuda(_))).count();
        let too_few = || {
            let ranks = topology.local_world_size;
            let reason = format!(
                "{ranks} ranks of this computer need a card each from {device} on, and {visible} cards are visible"
            );
            Error::option("device", reason)
        };
        let card = topology.card(first, visible).ok_or_else(too_few);
        card.map(DeviceName::Cuda)
    }

    /// Returns whether this is rank 0, which alone writes files.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Returns whether this is a single process.
    pub fn is_alone(&self) -> bool {
        self.ranks() == 1
    }

    /// Returns the numbers of bytes that this rank has sent and received so far.
    pub fn traffic(&self) -> bert_collectives::Traffic {
        self.transport.traffic()
    }

    /// Returns the number of finished steps of the run.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Returns this rank with its host, for messages.
    pub(crate) fn own_name(&self) -> String {
        self.member(self.rank()).to_string()
    }

    /// Returns the name of the computer of each rank.
    pub(crate) fn hosts(&self) -> Vec<String> {
        if self.is_alone() {
            return vec![host_name()];
        }
        (0..self.ranks()).map(|rank| self.member(rank).host).collect()
    }

    /// Returns a rank with its host.
    fn member(&self, rank: usize) -> Member {
        self.transport.topology().member(rank)
    }

    /// Returns the range of micro-batches that this rank computes, out of the `all` micro-batches of a step.
    pub(crate) fn micro_batches(&self, all: usize) -> std::ops::Range<usize> {
        self.rank() * all / self.ranks()..(self.rank() + 1) * all / self.ranks()
    }

    /// Checks that the ranks can share the micro-batches of a step equally, and notes their number for messages.
    ///
    /// # Errors
    /// Fails when the ranks cannot share them equally; the error names the possible numbers of ranks.
    pub(crate) fn share_micro_batches(&mut self, all: usize) -> Result<(), Error> {
        self.micro_batches = all;
        if all.is_multiple_of(self.ranks()) {
            return Ok(());
        }
        let reason = format!(
            "{all} micro-batches cannot be shared equally by {} ranks; {all} allows {} ranks",
            self.ranks(),
            divisors(all).into_iter().map(|ranks| ranks.to_string()).collect::<Vec<_>>().join(", ")
        );
        Err(Error::option("gradient_accumulation_steps", reason))
    }

    /// Runs an operation of the transport.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    fn transfer(
        &mut self,
        operation: impl FnOnce(&mut dyn Transport, &mut Deadline<'_>) -> Result<(), Lost>,
    ) -> Result<(), Error> {
        let factor = if self.steps_here == 0 { START_FACTOR } else { 1 };
        let mut deadline =
            Deadline { timeout: self.timeout * factor, interval: WAIT_INTERVAL, on_wait: &mut *self.on_wait };
        let result = operation(&mut *self.transport, &mut deadline);
        result.map_err(|lost| self.lost(lost))
    }

    /// Sends `send[r]` to rank `r`, and fills `receive[r]` with the message of rank `r`. The rank's own message is not
    /// moved.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost, or when its message is damaged.
    fn all_to_all(&mut self, send: &mut [Message], receive: &mut [Message]) -> Result<(), Error> {
        let rank = self.rank();
        send.iter_mut().for_each(Message::seal);
        let mut out: Vec<&[u8]> = send.iter().map(Message::bytes).collect();
        let mut back: Vec<&mut [u8]> = receive.iter_mut().map(Message::bytes_mut).collect();
        (out[rank], back[rank]) = (&[], &mut []);
        self.transfer(|transport, deadline| transport.all_to_all(&out, &mut back, deadline))?;
        self.check_messages(receive)
    }

    /// Sends this rank's entry of `messages` to all ranks, and fills the other entries with the messages of their
    /// ranks.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost, or when its message is damaged.
    fn all_gather(&mut self, messages: &mut [Message]) -> Result<(), Error> {
        messages[self.rank()].seal();
        let mut parts: Vec<&mut [u8]> = messages.iter_mut().map(Message::bytes_mut).collect();
        self.transfer(|transport, deadline| transport.all_gather(&mut parts, deadline))?;
        self.check_messages(messages)
    }

    /// Returns the error for an operation that lost a rank, with the numbers of ranks that can continue the run.
    fn lost(&self, lost: Lost) -> Error {
        let mut fewer = divisors(self.micro_batches);
        fewer.retain(|&ranks| ranks < self.ranks());
        lost_rank(self.step, lost, &fewer)
    }

    fn check_messages(&self, messages: &[Message]) -> Result<(), Error> {
        let others = messages.iter().enumerate().filter(|(rank, _)| *rank != self.rank());
        for (rank, message) in others {
            self.check_message(rank, message)?;
        }
        Ok(())
    }

    fn check_message(&self, rank: usize, message: &Message) -> Result<(), Error> {
        if message.is_intact() {
            return Ok(());
        }
        let reason = "its message was damaged on the way (the checksum differs)".to_string();
        Err(self.lost(Lost::Peer { member: self.member(rank), reason }))
    }

    /// Copies the message of rank 0 to all ranks.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost, or when its message is damaged.
    fn broadcast(&mut self, message: &mut Message) -> Result<(), Error> {
        if self.is_first() {
            message.seal();
        }
        self.transfer(|transport, deadline| transport.broadcast(0, message.bytes_mut(), deadline))?;
        self.check_message(0, message)
    }

    /// Returns the value of rank 0 on all ranks; `value` is used on rank 0 only.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    pub(crate) fn value_of_first<T: Serialize + DeserializeOwned>(
        &mut self,
        value: Option<T>,
    ) -> Result<T, Error> {
        let value = value.filter(|_| self.is_first());
        let text = match value {
            Some(value) if self.is_alone() => return Ok(value),
            Some(value) => serde_json::to_vec(&value).expect("plain data"),
            None => Vec::new(),
        };
        let mut length = Message::new(1);
        length.content_mut()[0] = text.len() as u64;
        self.broadcast(&mut length)?;
        let bytes = length.content()[0] as usize;
        let mut message = Message::new(bytes.div_ceil(8));
        message.bytes_mut()[..text.len()].copy_from_slice(&text);
        self.broadcast(&mut message)?;
        Ok(serde_json::from_slice(&message.bytes()[..bytes]).expect("rank 0 has the same version"))
    }

    /// Returns the value. In a group of several ranks, keeps an error until the next operation of the group and returns
    /// the default value; drops an error if the rank already holds one.
    ///
    /// # Errors
    /// Fails when there is an error and this is a single process, or all ranks know the error.
    pub(crate) fn hold<T: Default>(&mut self, own: Result<T, Error>) -> Result<T, Error> {
        match own {
            Err(error) if !self.is_alone() && !is_known(&error) => {
                self.held.get_or_insert(error);
                Ok(T::default())
            }
            own => own,
        }
    }

    /// Returns whether this rank holds an error, so that its further work is not used.
    pub(crate) fn holds_error(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the words of all ranks, `words(rank)` of each rank. If a rank holds an error, all ranks return an error
    /// with its exit code.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost, when this or another rank has an error or was asked to stop, or when the
    /// ranks are at different steps.
    pub(crate) fn gather(
        &mut self,
        own: Vec<u64>,
        words: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<u64>>, Error> {
        if self.is_alone() {
            return Ok(vec![own]);
        }
        let held = self.held.take();
        let rank = self.rank();
        let mut messages: Vec<Message> =
            (0..self.ranks()).map(|rank| Message::new(STATUS_WORDS + words(rank))).collect();
        let content = messages[rank].content_mut();
        content[0] = held.as_ref().map_or(0, Error::exit_code).into();
        content[1] = self.step;
        if held.is_none() {
            content[STATUS_WORDS..].copy_from_slice(&own);
        }
        self.all_gather(&mut messages)?;
        let codes: Vec<u8> = messages.iter().map(|message| message.content()[0] as u8).collect();
        if codes.iter().any(|&code| code != 0) {
            return Err(self.common_error(held, &codes)?);
        }
        if let Some(other) = messages.iter().position(|message| message.content()[1] != self.step) {
            let at = messages[other].content()[1];
            let difference =
                format!("{} is at step {at}, this rank at step {}", self.member(other), self.step);
            return Err(ranks_differ(&[difference]));
        }
        Ok(messages.iter().map(|message| message.content()[STATUS_WORDS..].to_vec()).collect())
    }

    /// Returns the error with which this rank ends, given the exit codes of all ranks: the error of the first
    /// rank whose error is not a stop, otherwise the stop of the first rank that stops.
    fn common_error(&mut self, own: Option<Error>, codes: &[u8]) -> Result<Error, Error> {
        let failed = codes.iter().position(|&code| (1..128).contains(&code));
        let first = failed.or_else(|| codes.iter().position(|&code| code != 0)).expect("a rank has an error");
        let mut texts: Vec<Message> = codes.iter().map(|_| Message::new(TEXT_WORDS)).collect();
        let text = own.as_ref().map(Error::to_string).unwrap_or_default();
        let end = text.floor_char_boundary(8 * TEXT_WORDS);
        texts[self.rank()].bytes_mut()[..end].copy_from_slice(&text.as_bytes()[..end]);
        self.all_gather(&mut texts)?;
        if let Some(own) = own.filter(|_| first == self.rank()) {
            return Ok(own);
        }
        let code = codes[first];
        if code > 128 {
            return Ok(stopped(i32::from(code - 128), self.step));
        }
        let bytes = &texts[first].bytes()[..8 * TEXT_WORDS];
        let text = String::from_utf8_lossy(bytes);
        Ok(elsewhere(&self.member(first), self.step, code, text.trim_end_matches('\0')))
    }

    /// Returns the value if no rank has an error.
    ///
    /// # Errors
    /// Fails as [`Group::gather`] does.
    pub(crate) fn agree<T>(&mut self, own: Result<T, Error>) -> Result<T, Error> {
        let value = self.hold(own.map(Some))?;
        self.gather(Vec::new(), |_| 0)?;
        Ok(value.expect("no rank has an error"))
    }
}

/// Returns the numbers of ranks that can share this number of micro-batches, ascending.
pub(crate) fn divisors(micro_batches: usize) -> Vec<usize> {
    (1..=micro_batches).filter(|&ranks| micro_batches.is_multiple_of(ranks)).collect()
}

/// Returns whether all other ranks know an error.
fn is_known(error: &Error) -> bool {
    error.cause::<Lost>().is_some() || matches!(error.class(), Class::Elsewhere(_))
}
