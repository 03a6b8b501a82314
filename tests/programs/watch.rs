//! `bert watch`: the states of runs, over HTTP and in the terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::common::{Folder, QUICK};

/// A running `bert watch`; dropping it ends it.
pub(crate) struct Watch {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Watch {
    /// Starts the command on a free port.
    pub(crate) fn start(folder: &Folder, runs: &str) -> Self {
        let mut command = folder.command(&format!("bert watch {runs} --listen 127.0.0.1:0"));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("piped");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Self { child, address: address.unwrap_or_else(|| panic!("no address in {line:?}")).to_string() }
    }

    /// Returns the response to a GET request, with its headers.
    fn get(&self, path: &str, host: &str) -> String {
        let mut stream = self.request(path, host);
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a response");
        text
    }

    /// Returns the states of the first event.
    fn states(&self) -> Value {
        let lines = BufReader::new(self.request("/events", &self.address)).lines();
        let data = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("data: ").map(String::from));
        serde_json::from_str(&data.expect("an event")).expect("JSON")
    }

    fn request(&self, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("a request");
        stream
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watch_serves_the_states_of_runs() {
    let folder = Folder::with_run();
    let before = folder.snapshot("run");
    let watch = Watch::start(&folder, "run data");
    let states = watch.states();
    assert_eq!(states[0]["name"], "run");
    assert_eq!((&states[0]["state"], &states[0]["step"]), (&"finished".into(), &6.into()));
    let error = states[1]["error"].as_str().expect("data is no run");
    assert!(error.starts_with("data: "), "{error}");
    let page = watch.get("/", &watch.address);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("connect-src 'self'"), "{page}");
    let report = watch.get("/report/0", &watch.address);
    assert!(report.contains("<title>run</title>"), "{report}");
    assert!(watch.get("/report/9", &watch.address).starts_with("HTTP/1.1 404 "));
    assert!(watch.get("/etc/passwd", &watch.address).starts_with("HTTP/1.1 404 "));
    assert!(watch.get("/", "example.com").starts_with("HTTP/1.1 403 "), "DNS rebinding");
    drop(watch);
    assert_eq!(folder.snapshot("run"), before, "nothing is written");
    folder.refused("bert watch nowhere --once", 1, "nowhere: this folder does not exist");
}

#[test]
fn slow_clients_do_not_keep_others_out() {
    let folder = Folder::with_run();
    let watch = Watch::start(&folder, "run");
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(&watch.address).expect("a connection");
            // The server may have closed it already.
            let _ = stream.write_all(b"G");
            stream
        })
        .collect();
    let page = watch.get("/", &watch.address);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    drop(silent);
}

#[test]
fn other_sites_cannot_start_reports() {
    let folder = Folder::with_run();
    let watch = Watch::start(&folder, "run");
    watch.states();
    for (site, status) in
        [("cross-site", "403"), ("same-site", "403"), ("same-origin", "200"), ("none", "200")]
    {
        let page = watch.get("/report/0", &format!("{}\r\nSec-Fetch-Site: {site}", watch.address));
        assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{site}: {page}");
    }
}

#[test]
fn terminal_view_shows_running_and_stopped_runs() {
    let folder = Folder::with_data();
    let mut child = folder.start(&format!("pretrain {QUICK} --steps 100000 --output run"));
    let shown = || folder.ok("bert watch run --once").stdout;
    let running = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        folder.at("run/metrics.jsonl").exists() && shown().contains("masked LM loss")
    });
    assert!(running, "no step after 30 s");
    let screen = shown();
    for part in
        ["> run (pre-training, running)", "─ ", " of 100000", "masked LM loss", "throughput", "time left"]
    {
        assert!(screen.contains(part), "{part:?} is not in {screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 60), "{screen}");
    child.kill().expect("it is running");
    child.wait().expect("it ends");
    let screen = shown();
    assert!(screen.contains("! run (pre-training, stopped at step "), "{screen}");
    assert!(!screen.contains("time left"), "{screen}");
    let state = folder.ok("bert watch run --once --json").stdout;
    let state: Vec<serde_json::Value> = serde_json::from_str(&state).expect("an array");
    assert_eq!((state.len(), &state[0]["state"]), (1, &"stopped".into()));
}
