//! Serves the page of `bert watch` over HTTP/1.1, and the states of the runs as server-sent events.
//!
//! It answers GET requests for `/`, `/events` and `/report/N`, one thread per connection. A request must name the
//! server's own address as its host, so that a page of another site cannot read the runs (DNS rebinding).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bert_reports::live::page::live_page;
use bert_reports::report;

use super::watched::Watched;

/// Maximum number of open connections; further ones are closed.
const CONNECTIONS: usize = 64;
/// Maximum size of a request in bytes.
const REQUEST: u64 = 16_384;
/// Time after which an idle event stream gets a comment, so that a closed connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The latest states, and the number of changes so far.
#[derive(Default)]
struct Latest {
    changes: u64,
    json: String,
    folders: Vec<PathBuf>,
}

/// State shared by the connections.
struct Shared {
    latest: Mutex<Latest>,
    changed: Condvar,
    connections: AtomicUsize,
    address: SocketAddr,
}

/// Opens the address; if the default port is in use, another free one.
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
        connections: AtomicUsize::new(0),
        address,
    });
    let reader = Arc::clone(&shared);
    std::thread::spawn(move || read_forever(watched, interval, &reader));
    for stream in listener.incoming().flatten() {
        let shared = Arc::clone(&shared);
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        std::thread::spawn(move || {
            // An error is a connection that the browser has closed.
            let _ = answer(&stream, &shared);
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

/// Reads the runs again and again, and wakes the event streams after a change.
fn read_forever(mut watched: Watched, interval: Duration, shared: &Shared) {
    loop {
        let json = serde_json::to_string(&watched.read()).expect("plain data");
        let mut latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.json != json {
            *latest = Latest { changes: latest.changes + 1, json, folders: watched.order.clone() };
            shared.changed.notify_all();
        }
        drop(latest);
        std::thread::sleep(interval);
    }
}

/// Answers one request and closes the connection.
fn answer(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let mut lines = BufReader::new(stream.take(REQUEST)).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut host = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            host = Some(value.trim().to_string());
        }
    }
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    if !host.is_some_and(|host| is_own(&host, shared.address)) {
        return send(stream, "403 Forbidden", "text/plain; charset=utf-8", "unknown host\n");
    }
    match (method, path) {
        ("GET", "/") => send(stream, "200 OK", "text/html; charset=utf-8", &live_page()),
        ("GET", "/events") => send_events(stream, shared),
        ("GET", _) if path.starts_with("/report/") => send_report(stream, shared, &path["/report/".len()..]),
        ("GET", _) => send(stream, "404 Not Found", "text/plain; charset=utf-8", "not found\n"),
        _ => send(stream, "405 Method Not Allowed", "text/plain; charset=utf-8", "only GET\n"),
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

/// Sends the report page of a run.
fn send_report(stream: &TcpStream, shared: &Shared, number: &str) -> std::io::Result<()> {
    let latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = number.parse().ok().and_then(|at: usize| latest.folders.get(at).cloned());
    drop(latest);
    let text = "text/plain; charset=utf-8";
    let Some(folder) = folder else { return send(stream, "404 Not Found", text, "no such run\n") };
    match report(&folder, &[]) {
        Ok(report) => send(stream, "200 OK", "text/html; charset=utf-8", &report.html),
        Err(error) => send(stream, "500 Internal Server Error", text, &format!("error: {error}\n")),
    }
}

/// Sends the states of the runs now and after every change, until the connection is closed.
fn send_events(mut stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
          X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 2000\n\n",
    )?;
    let mut sent = 0;
    loop {
        let latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
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
