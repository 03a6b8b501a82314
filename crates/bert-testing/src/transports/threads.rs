//! A group of threads that exchange messages by channels.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use bert_collectives::{Deadline, Lost, Operation, Timer, Topology, Traffic, Transport};

/// The transport of one thread of a group.
///
/// A thread that drops its transport, also in a panic, leaves the group.
#[derive(Debug)]
pub struct ThreadTransport {
    topology: Topology,
    traffic: Traffic,
    inbox: Receiver<Message>,
    /// Senders to the inboxes of all ranks.
    outboxes: Vec<Sender<Message>>,
    /// Messages that arrived early, by rank.
    early: Vec<VecDeque<(Operation, Vec<u8>)>>,
    /// Ranks that have left the group.
    has_left: Vec<bool>,
    failure: Option<Lost>,
}

#[derive(Debug)]
struct Message {
    from: usize,
    /// `None` if the sender leaves the group.
    content: Option<(Operation, Vec<u8>)>,
}

impl ThreadTransport {
    /// Returns the transports of a group, by rank.
    pub fn group(world_size: usize) -> Vec<Self> {
        let (outboxes, inboxes): (Vec<_>, Vec<_>) = (0..world_size).map(|_| channel()).unzip();
        let hosts: Vec<String> = (0..world_size).map(|rank| format!("thread-{rank}")).collect();
        inboxes
            .into_iter()
            .enumerate()
            .map(|(rank, inbox)| Self {
                topology: Topology {
                    local_rank: rank,
                    local_world_size: world_size,
                    ..Topology::new(rank, hosts.clone())
                },
                traffic: Traffic::default(),
                inbox,
                outboxes: outboxes.clone(),
                early: vec![VecDeque::new(); world_size],
                has_left: vec![false; world_size],
                failure: None,
            })
            .collect()
    }

    fn keep(&mut self, message: Message) {
        match message.content {
            Some(content) => self.early[message.from].push_back(content),
            None => self.has_left[message.from] = true,
        }
    }

    fn lost(&self, rank: usize, reason: impl Into<String>) -> Lost {
        Lost::Peer { member: self.topology.member(rank), reason: reason.into() }
    }

    fn receive(
        &mut self,
        operation: Operation,
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost> {
        let mut missing: Vec<usize> = self.topology.peers().collect();
        let mut timer = Timer::start(deadline);
        loop {
            let mut waiting = Vec::new();
            for rank in missing {
                match self.early[rank].pop_front() {
                    Some((sent, bytes)) => self.take(rank, operation, (sent, &bytes), receive[rank])?,
                    None if self.has_left[rank] => return Err(self.lost(rank, "its thread has ended")),
                    None => waiting.push(rank),
                }
            }
            missing = waiting;
            if missing.is_empty() {
                return Ok(());
            }
            let sleep = timer.check(&self.topology, || missing.clone())?;
            match self.inbox.recv_timeout(sleep) {
                Ok(message) => {
                    timer.progress();
                    self.keep(message);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("this rank holds a sender of its own inbox")
                }
            }
        }
    }

    fn take(
        &mut self,
        rank: usize,
        operation: Operation,
        (sent, bytes): (Operation, &[u8]),
        receive: &mut [u8],
    ) -> Result<(), Lost> {
        if sent != operation || bytes.len() != receive.len() {
            let length = bytes.len();
            let expected = receive.len();
            return Err(self.lost(
                rank,
                format!("it sent {length} bytes of {sent}, this rank expects {expected} of {operation}"),
            ));
        }
        receive.copy_from_slice(bytes);
        self.traffic.received += bytes.len() as u64;
        Ok(())
    }
}

impl Transport for ThreadTransport {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn check(&mut self) -> Result<(), Lost> {
        while let Ok(message) = self.inbox.try_recv() {
            self.keep(message);
        }
        let left = self.has_left.iter().position(|&left| left);
        if let (None, Some(rank)) = (&self.failure, left) {
            self.failure = Some(self.lost(rank, "its thread has ended"));
        }
        self.failure.clone().map_or(Ok(()), Err)
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
            let content = Some((operation, send[rank].to_vec()));
            // An error means that the rank has left; `receive` reports this when its answer is missing.
            let _ = self.outboxes[rank].send(Message { from: self.topology.rank, content });
            self.traffic.sent += send[rank].len() as u64;
        }
        let result = self.receive(operation, receive, deadline);
        self.failure = result.clone().err();
        self.traffic.operations += u64::from(result.is_ok());
        result
    }
}

impl Drop for ThreadTransport {
    fn drop(&mut self) {
        for rank in self.topology.peers() {
            // An error means that the rank left earlier, so it does not need the message.
            let _ = self.outboxes[rank].send(Message { from: self.topology.rank, content: None });
        }
    }
}
