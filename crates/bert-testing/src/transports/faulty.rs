//! Injects faults into a transport.

use std::time::Duration;

use bert_collectives::{Deadline, Lost, Operation, Topology, Traffic, Transport};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fails the operation and leaves the group, as a killed process does.
    Fail,
    /// Sleeps before the operation.
    Delay(Duration),
    /// Flips the lowest bit of the middle byte of each received part.
    Flip,
}

/// A transport with a fault in one operation.
pub struct FaultyTransport {
    inner: Option<Box<dyn Transport>>,
    topology: Topology,
    traffic: Traffic,
    at: u64,
    fault: Fault,
    count: u64,
}

impl FaultyTransport {
    /// Wraps a transport. `at` is the operation with the fault, counted from 0.
    pub fn new(inner: Box<dyn Transport>, at: u64, fault: Fault) -> Self {
        let topology = inner.topology().clone();
        Self { traffic: inner.traffic(), inner: Some(inner), topology, at, fault, count: 0 }
    }

    fn failed(&self) -> Lost {
        let member = self.topology.member(self.topology.rank);
        Lost::Peer { member, reason: format!("injected fault in operation {}", self.at) }
    }
}

impl Transport for FaultyTransport {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn traffic(&self) -> Traffic {
        self.inner.as_ref().map_or(self.traffic, |inner| inner.traffic())
    }

    fn check(&mut self) -> Result<(), Lost> {
        match &mut self.inner {
            Some(inner) => inner.check(),
            None => Err(self.failed()),
        }
    }

    fn transfer(
        &mut self,
        operation: Operation,
        send: &[&[u8]],
        receive: &mut [&mut [u8]],
        deadline: &mut Deadline,
    ) -> Result<(), Lost> {
        let fault = (self.count == self.at).then_some(self.fault);
        self.count += 1;
        match fault {
            Some(Fault::Fail) => {
                self.traffic = self.traffic();
                self.inner = None;
            }
            Some(Fault::Delay(time)) => std::thread::sleep(time),
            Some(Fault::Flip) | None => {}
        }
        let Some(inner) = &mut self.inner else { return Err(self.failed()) };
        inner.transfer(operation, send, receive, deadline)?;
        if fault == Some(Fault::Flip) {
            for rank in self.topology.peers() {
                let middle = receive[rank].len() / 2;
                if let Some(byte) = receive[rank].get_mut(middle) {
                    *byte ^= 1;
                }
            }
        }
        Ok(())
    }
}
