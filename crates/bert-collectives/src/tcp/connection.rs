//! The connection to one rank: frames of an operation, without blocking.
//!
//! A frame is a header of three little-endian `u64` (kind, number of the operation, length) and the bytes. Both ends
//! know the length in advance, so a header never determines how much memory is allocated.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use crate::error::Lost;
use crate::transport::Operation;

const HEADER: usize = 24;
/// Kind of the frame that a rank sends when it gives up. The frame's number is the lost rank, and its bytes are the
/// reason.
const ABORT: u64 = 255;
const MAX_REASON: usize = 1000;

/// The reason for the failure of an operation with a rank.
#[derive(Debug)]
pub(super) enum Fault {
    Closed,
    Io(io::Error),
    Silent(Lost),
    Unexpected(String),
    Abort { culprit: usize, reason: String },
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    kind: u64,
    sequence: u64,
    length: u64,
}

impl FrameHeader {
    pub(super) fn new(operation: Operation, sequence: u64, length: usize) -> Self {
        Self { kind: operation as u64, sequence, length: length as u64 }
    }

    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self { kind: number(0), sequence: number(8), length: number(16) }
    }

    fn name(&self) -> String {
        let known = [Operation::AllToAll, Operation::AllGather, Operation::Broadcast, Operation::Barrier];
        let operation = known.into_iter().find(|&operation| operation as u64 == self.kind);
        operation.map_or(format!("unknown operation {}", self.kind), |operation| operation.to_string())
    }
}

/// Bytes moved by [`Connection::advance`].
#[derive(Default)]
pub(super) struct Moved {
    /// Number of the caller's bytes that were sent.
    pub(super) sent: u64,
    /// Number of the caller's bytes that were received.
    pub(super) received: u64,
    /// Whether any byte has moved, headers included.
    pub(super) any: bool,
}

/// A connection and the state of its frames.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    send_header: [u8; HEADER],
    expected: FrameHeader,
    received_header: [u8; HEADER],
    /// Number of bytes of the outgoing frame that have been sent, header included.
    sent: usize,
    /// Length of the outgoing frame in bytes, header included.
    to_send: usize,
    received: usize,
    to_receive: usize,
}

impl Connection {
    /// Creates a connection from an authenticated stream. On Linux, keep-alive probes detect within about a minute that
    /// a host has disappeared.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        stream.set_nonblocking(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        #[cfg(target_os = "linux")]
        {
            sockopt::set_tcp_keepidle(&stream, Duration::from_secs(20))?;
            sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(10))?;
            sockopt::set_tcp_keepcnt(&stream, 4)?;
        }
        let none = FrameHeader { kind: 0, sequence: 0, length: 0 };
        Ok(Self {
            stream,
            send_header: none.to_bytes(),
            expected: none,
            received_header: none.to_bytes(),
            sent: 0,
            to_send: 0,
            received: 0,
            to_receive: 0,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Begins an operation, given the header of the frame to send and the header of the expected frame.
    pub(super) fn begin(&mut self, send: FrameHeader, expected: FrameHeader) {
        self.send_header = send.to_bytes();
        self.expected = expected;
        (self.sent, self.to_send) = (0, HEADER + send.length as usize);
        (self.received, self.to_receive) = (0, HEADER + expected.length as usize);
    }

    /// Returns whether both frames of the operation are complete.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.to_send && self.received == self.to_receive
    }

    /// Returns the events that the operation waits for.
    pub(super) fn events(&self) -> PollFlags {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, self.received < self.to_receive);
        events.set(PollFlags::OUT, self.sent < self.to_send);
        events
    }

    /// Sends as many bytes as the socket accepts, and receives as many as it has.
    pub(super) fn advance(&mut self, send: &[u8], receive: &mut [u8]) -> Result<Moved, Fault> {
        let before = (self.sent, self.received);
        let sending = self.send(send);
        // Receive even if sending has failed: the rank may have sent the reason why it no longer reads.
        let receiving = self.receive(receive);
        if let Err(error) = sending {
            receiving?;
            return Err(self.pending_abort().unwrap_or(Fault::Io(error)));
        }
        receiving?;
        let body = |count: usize| count.saturating_sub(HEADER) as u64;
        Ok(Moved {
            sent: body(self.sent) - body(before.0),
            received: body(self.received) - body(before.1),
            any: before != (self.sent, self.received),
        })
    }

    fn send(&mut self, body: &[u8]) -> io::Result<()> {
        while self.sent < self.to_send {
            let header = &self.send_header[self.sent.min(HEADER)..];
            let body = &body[self.sent.saturating_sub(HEADER)..];
            match (&self.stream).write_vectored(&[IoSlice::new(header), IoSlice::new(body)]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, body: &mut [u8]) -> Result<(), Fault> {
        while self.received < self.to_receive {
            let target = match self.received.checked_sub(HEADER) {
                None => &mut self.received_header[self.received..],
                Some(start) => &mut body[start..],
            };
            match (&self.stream).read(target) {
                Ok(0) => return Err(Fault::Closed),
                Ok(count) => self.received += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(Fault::Closed),
                Err(error) => return Err(Fault::Io(error)),
            }
            if self.received == HEADER {
                self.check_header()?;
            }
        }
        Ok(())
    }

    fn check_header(&self) -> Result<(), Fault> {
        let header = FrameHeader::from_bytes(&self.received_header);
        if header.kind == ABORT {
            return Err(self.read_reason(header));
        }
        if header == self.expected {
            return Ok(());
        }
        let text = |header: &FrameHeader| {
            format!("{} bytes of {} (operation {})", header.length, header.name(), header.sequence)
        };
        let sent = text(&header);
        let expected = text(&self.expected);
        Err(Fault::Unexpected(format!("it sent {sent}, this rank expects {expected}")))
    }

    /// Reads the rest of an abort frame, and returns the fault that the frame reports.
    fn read_reason(&self, header: FrameHeader) -> Fault {
        let mut reason = vec![0; (header.length as usize).min(MAX_REASON)];
        let end = Instant::now() + Duration::from_millis(500);
        let mut read = 0;
        while read < reason.len() && wait_for(&self.stream, PollFlags::IN, end) {
            match (&self.stream).read(&mut reason[read..]) {
                Ok(count) if count > 0 => read += count,
                _ => break,
            }
        }
        reason.truncate(read);
        Fault::Abort {
            culprit: header.sequence as usize,
            reason: String::from_utf8_lossy(&reason).into_owned(),
        }
    }

    /// Returns the fault that an abort frame reports, if such a frame is the next one to read.
    fn pending_abort(&self) -> Option<Fault> {
        if self.received != self.to_receive {
            return None;
        }
        let mut header = [0; HEADER];
        let is_whole = self.stream.peek(&mut header).is_ok_and(|count| count == HEADER);
        let parsed = FrameHeader::from_bytes(&header);
        if !is_whole || parsed.kind != ABORT {
            return None;
        }
        (&self.stream).read_exact(&mut header).ok()?;
        Some(self.read_reason(parsed))
    }

    /// Returns why the rank is lost, if it has closed the connection.
    pub(super) fn closed(&self) -> Option<Fault> {
        has_hung_up(&self.stream).then(|| self.pending_abort().unwrap_or(Fault::Closed))
    }

    /// Completes a partly sent frame, then sends the reason why this rank gives up.
    pub(super) fn send_abort(
        &mut self,
        body: &[u8],
        culprit: usize,
        reason: &str,
        end: Instant,
    ) -> io::Result<()> {
        let reason = &reason.as_bytes()[..reason.len().min(MAX_REASON)];
        if self.sent == 0 {
            self.to_send = 0;
        }
        while self.sent < self.to_send {
            if !wait_for(&self.stream, PollFlags::OUT, end) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.send(body)?;
        }
        let header = FrameHeader { kind: ABORT, sequence: culprit as u64, length: reason.len() as u64 };
        // The frame usually fits into the buffer of the socket. If the rank does not read and the buffer is
        // full, the write fails instead of blocking.
        (&self.stream).write_all(&[&header.to_bytes()[..], reason].concat())
    }
}

/// Ends the sending side and reads until the other end closes. Closing with unread bytes would make the system discard
/// the bytes that the other end has not read yet.
pub(super) fn close(stream: &TcpStream, end: Instant) {
    let mut bytes = vec![0; 1 << 16];
    // The error is ignored: if the connection is already closed, the loop ends at once.
    let _ = stream.shutdown(Shutdown::Write);
    while wait_for(stream, PollFlags::IN, end) {
        match (&mut &*stream).read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}

/// Returns whether the other end has closed a connection, even if there are bytes to read before the end.
pub(super) fn has_hung_up(stream: &TcpStream) -> bool {
    #[cfg(target_os = "linux")]
    let events = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    let events = PollFlags::empty();
    let mut ready = [PollFd::from_borrowed_fd(stream.as_fd(), events)];
    poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// Waits until a socket is ready. Returns false if the socket is not ready by the given time.
fn wait_for(stream: &TcpStream, events: PollFlags, end: Instant) -> bool {
    let rest = end.saturating_duration_since(Instant::now());
    let mut ready = [PollFd::from_borrowed_fd(stream.as_fd(), events)];
    let timeout = Timespec::try_from(rest).ok();
    poll(&mut ready, timeout.as_ref()).is_ok_and(|count| count > 0)
}
