//! Serves the page of `bert watch` over HTTP/1.1, and the states of the runs as server-sent events.
//!
//! The server answers GET requests for `/`, `/events` and `/report/N`, one thread per connection. A request must name
//! the server's own address as its host and must not come from a page of another site, so that such a page can neither
//! read the runs (DNS rebinding) nor start the computation of reports. A slow client cannot block others: a request
//! must arrive within two seconds, and a new connection replaces the oldest one if there are too many.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use bert_reports::{live_page, report};

use super::watched::Watched;

/// Maximum number of open connections.
const CONNECTIONS: usize = 64;
/// Maximum size of a request in bytes.
const REQUEST: u64 = 16_384;
/// Maximum time of a request until its last byte.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// Time for which the report of a run that changes is kept.
const REPORT_AGE: Duration = Duration::from_secs(10);
/// Time after which an idle event stream gets a comment, so that a closed connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The latest states, and the number of changes so far.
#[derive(Default)]
struct Latest {
    changes: u64,
    json: String,
    folders: Vec<PathBuf>,
}

/// A report page and the state of the runs from which it was made.
struct KeptReport {
    changes: u64,
    made: Instant,
    html: String,
}

/// State shared by the connections.
struct Shared {
    latest: Mutex<Latest>,
    changed: Condvar,
    connections: Mutex<Connections>,
    reports: Mutex<HashMap<PathBuf, KeptReport>>,
    address: SocketAddr,
}

/// The open connections.
#[derive(Default)]
struct Connections {
    opened: u64,
    open: Vec<Connection>,
}

/// An open connection.
struct Connection {
    number: u64,
    stream: Arc<TcpStream>,
    /// Whether its request has not arrived yet.
    is_waiting: bool,
}

impl Connections {
    /// Adds a connection and returns its number. If there are too many, closes the oldest one that has sent no request, or
    /// else the oldest.
    fn add(&mut self, stream: Arc<TcpStream>) -> u64 {
        if self.open.len() >= CONNECTIONS {
            let oldest = self.open.iter().position(|connection| connection.is_waiting).unwrap_or(0);
            // An error means that the client has closed the connection.
            let _ = self.open.remove(oldest).stream.shutdown(Shutdown::Both);
        }
        self.opened += 1;
        self.open.push(Connection { number: self.opened, stream, is_waiting: true });
        self.opened
    }
}

/// Locks a value, even if another thread panicked while it held the lock: the value is valid at any time.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the address, or another free port if the default port is in use.
pub(super) fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && address == "127.0.0.1:7177".parse()? => {
            TcpListener::bind("127.0.0.1:0").context("no port is free")
        }
        other => other.with_context(|| format!("--listen: cannot listen on {address}")),
    }
}

/// Answers requests until the process ends.
pub(super) fn serve(listener: &TcpListener, watched: Watched, interval: Duration) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared {
        latest: Mutex::default(),
        changed: Condvar::new(),
        connections: Mutex::default(),
        reports: Mutex::default(),
        address,
    });
    let reader = Arc::clone(&shared);
    std::thread::spawn(move || read_forever(watched, interval, &reader));
    for stream in listener.incoming().flatten() {
        let shared = Arc::clone(&shared);
        let stream = Arc::new(stream);
        let number = lock(&shared.connections).add(Arc::clone(&stream));
        std::thread::spawn(move || {
            // An error means that the browser has closed the connection.
            let _ = answer(&stream, number, &shared);
            lock(&shared.connections).open.retain(|connection| connection.number != number);
        });
    }
    Ok(())
}

/// Reads the runs periodically, and wakes the event streams after a change.
fn read_forever(mut watched: Watched, interval: Duration, shared: &Shared) {
    loop {
        let json = serde_json::to_string(&watched.read()).expect("plain data");
        let mut latest = lock(&shared.latest);
        if latest.json != json {
            *latest = Latest { changes: latest.changes + 1, json, folders: watched.order.clone() };
            shared.changed.notify_all();
        }
        drop(latest);
        std::thread::sleep(interval);
    }
}

/// A reader of a client's bytes that fails after a deadline.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// Answers one request and closes the connection.
fn answer(stream: &TcpStream, number: u64, shared: &Shared) -> std::io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let timed = Timed { stream, deadline: Instant::now() + REQUEST_TIME };
    let mut lines = BufReader::new(timed.take(REQUEST)).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut host = None;
    let mut site = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("host") => host = Some(value.trim().to_string()),
            Some((name, value)) if name.eq_ignore_ascii_case("sec-fetch-site") => {
                site = Some(value.trim().to_string())
            }
            _ => {}
        }
    }
    for connection in &mut lock(&shared.connections).open {
        connection.is_waiting &= connection.number != number;
    }
    let text = "text/plain; charset=utf-8";
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    if !host.is_some_and(|host| is_own(&host, shared.address)) {
        return send(stream, "403 Forbidden", text, "unknown host\n");
    }
    // A link on another site may lead to the page `/`, but nothing else is computed for other sites.
    if path != "/" && site.is_some_and(|site| !matches!(site.as_str(), "same-origin" | "none")) {
        return send(stream, "403 Forbidden", text, "another site cannot use this address\n");
    }
    match (method, path) {
        ("GET", "/") => send(stream, "200 OK", "text/html; charset=utf-8", &live_page()),
        ("GET", "/events") => send_events(stream, shared),
        ("GET", _) if path.starts_with("/report/") => send_report(stream, shared, &path["/report/".len()..]),
        ("GET", _) => send(stream, "404 Not Found", text, "not found\n"),
        _ => send(stream, "405 Method Not Allowed", text, "only GET\n"),
    }
}

/// Returns whether a `Host` header names this server. If it listens on a network, every numeric address is accepted.
fn is_own(host: &str, address: SocketAddr) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| match port.parse::<u16>() {
        Ok(_) => name,
        Err(_) => host,
    });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match name.parse::<std::net::IpAddr>() {
        Ok(ip) => !address.ip().is_loopback() || ip.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

fn send(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Sends the report page of a run. Reports are computed one at a time. A report is computed again only after a change
/// of the runs, and at most once in [`REPORT_AGE`].
fn send_report(stream: &TcpStream, shared: &Shared, number: &str) -> std::io::Result<()> {
    let mut reports = lock(&shared.reports);
    let latest = lock(&shared.latest);
    let changes = latest.changes;
    let folder = number.parse().ok().and_then(|at: usize| latest.folders.get(at).cloned());
    drop(latest);
    let text = "text/plain; charset=utf-8";
    let Some(folder) = folder else { return send(stream, "404 Not Found", text, "no such run\n") };
    let kept =
        reports.get(&folder).filter(|kept| kept.changes == changes || kept.made.elapsed() < REPORT_AGE);
    let html = match kept {
        Some(kept) => kept.html.clone(),
        None => match report(&folder, &[]) {
            Ok(report) => {
                let kept = KeptReport { changes, made: Instant::now(), html: report.html.clone() };
                reports.insert(folder, kept);
                report.html
            }
            Err(error) => {
                let message = format!("error: {error}\n");
                drop(reports);
                return send(stream, "500 Internal Server Error", text, &message);
            }
        },
    };
    drop(reports);
    send(stream, "200 OK", "text/html; charset=utf-8", &html)
}

/// Sends the states of the runs now and after every change, until the connection is closed.
fn send_events(mut stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
          X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 2000\n\n",
    )?;
    let mut sent = 0;
    loop {
        let latest = lock(&shared.latest);
        let waited = shared.changed.wait_timeout_while(latest, KEEP_ALIVE, |latest| latest.changes == sent);
        let (latest, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let event = (latest.changes != sent).then(|| format!("data: {}\n\n", latest.json));
        sent = latest.changes;
        drop(latest);
        stream.write_all(event.as_deref().unwrap_or(": idle\n\n").as_bytes())?;
        stream.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_hosts_are_answered() {
        let loopback: SocketAddr = "127.0.0.1:7177".parse().unwrap();
        for host in ["127.0.0.1:7177", "localhost:7177", "[::1]:7177", "localhost"] {
            assert!(is_own(host, loopback), "{host}");
        }
        for host in ["example.com", "example.com:7177", "10.0.0.1:7177", ""] {
            assert!(!is_own(host, loopback), "{host}");
        }
        let open: SocketAddr = "0.0.0.0:80".parse().unwrap();
        assert!(is_own("10.0.0.1:80", open) && !is_own("example.com", open));
    }
}
