//! [`HubServer`]: a server that answers like the Hugging Face Hub for one model or data set, with the faults that a
//! test requests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The commit of the served repository.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request that the server has received.
#[derive(Clone, Debug)]
pub struct HubRequest {
    /// `GET` or `HEAD`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Whether the request came to the second address, to which the Hub redirects requests for large files.
    pub is_storage: bool,
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub struct HubReply {
    /// HTTP status code.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// Bytes of the body.
    pub body: Vec<u8>,
    /// Number of bytes of the body that are sent.
    pub sent: usize,
    /// Whether the connection stays open after these bytes, instead of being closed.
    pub stalls: bool,
}

impl HubReply {
    /// Returns a complete answer.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { status, headers: Vec::new(), sent: body.len(), body, stalls: false }
    }

    /// Returns the answer with a header added.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns the answer with its body cut after `sent` bytes.
    pub fn cut(self, sent: usize) -> Self {
        Self { sent, ..self }
    }

    /// Returns the answer, with the connection left open after the bytes that are sent.
    pub fn stalled(self) -> Self {
        Self { stalls: true, ..self }
    }
}

/// A function that returns an answer in place of the usual one. Its arguments are the request, the usual answer, and
/// the number of earlier requests with the same method and path.
type Rule = dyn Fn(&HubRequest, &HubReply, usize) -> Option<HubReply> + Send + Sync;

/// Number of files and folders on a page of a listing.
const PAGE: usize = 2;

struct State {
    /// The name of the repository, which begins with `datasets/` for a data set.
    id: String,
    files: BTreeMap<String, Vec<u8>>,
    storage: SocketAddr,
    requests: Mutex<Vec<HubRequest>>,
    rule: Box<Rule>,
}

/// A server for one model or data set. Its threads end with the process.
pub struct HubServer {
    state: Arc<State>,
    address: SocketAddr,
}

impl HubServer {
    /// Starts a server of a model, or of a data set `datasets/OWNER/NAME`, with these files. Files above a kilobyte are
    /// large ones, which have a different address.
    pub fn start(id: &str, files: &[(&str, &[u8])]) -> Self {
        Self::with_rule(id, files, |_, _, _| None)
    }

    /// Starts a server that answers some requests differently.
    pub fn with_rule(
        id: &str,
        files: &[(&str, &[u8])],
        rule: impl Fn(&HubRequest, &HubReply, usize) -> Option<HubReply> + Send + Sync + 'static,
    ) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let [hub, storage] = [listen(), listen()];
        let address = |listener: &TcpListener| listener.local_addr().expect("an address");
        let [hub_address, storage_address] = [address(&hub), address(&storage)];
        let state = Arc::new(State {
            id: id.to_string(),
            files: files.iter().map(|(name, bytes)| ((*name).to_string(), bytes.to_vec())).collect(),
            storage: storage_address,
            requests: Mutex::default(),
            rule: Box::new(rule),
        });
        for (listener, is_storage) in [(hub, false), (storage, true)] {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    // The error can be discarded, because the clients of many tests close the connection early.
                    thread::spawn(move || state.serve(stream, is_storage).ok());
                }
            });
        }
        Self { state, address: hub_address }
    }

    /// Returns the value of `HF_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<HubRequest> {
        self.state.requests.lock().expect("no panic").clone()
    }

    /// Returns the digest of a file as the Hub states it.
    pub fn digest(bytes: &[u8]) -> String {
        let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if is_large(bytes) {
            return hex(&Sha256::digest(bytes));
        }
        hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
    }
}

fn is_large(bytes: &[u8]) -> bool {
    bytes.len() > 1000
}

impl State {
    fn serve(&self, mut stream: TcpStream, is_storage: bool) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let mut words = first.split(' ').map(str::to_string);
        let mut request = HubRequest {
            method: words.next().unwrap_or_default(),
            path: words.next().unwrap_or_default(),
            headers: BTreeMap::new(),
            is_storage,
        };
        while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap_or_default();
            request.headers.insert(name.to_lowercase(), value.trim().to_string());
        }
        let earlier = {
            let mut requests = self.requests.lock().expect("no panic");
            let same = |one: &&HubRequest| one.method == request.method && one.path == request.path;
            let earlier = requests.iter().filter(same).count();
            requests.push(request.clone());
            earlier
        };
        let usual = self.answer(&request);
        let reply = (self.rule)(&request, &usual, earlier).unwrap_or(usual);
        let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
        head += &format!("content-length: {}\r\n", reply.body.len());
        for (name, value) in &reply.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all((head + "\r\n").as_bytes())?;
        if request.method != "HEAD" {
            stream.write_all(&reply.body[..reply.sent.min(reply.body.len())])?;
        }
        if reply.stalls {
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.read_exact(&mut [0])?;
        }
        Ok(())
    }

    fn answer(&self, request: &HubRequest) -> HubReply {
        let path = request.path.split('?').next().unwrap_or_default();
        if request.is_storage {
            let bytes = self.files.get(&unescaped(path.trim_start_matches('/')));
            return bytes.map_or_else(|| HubReply::new(404, ""), |bytes| ranged(request, bytes));
        }
        let api = match self.id.strip_prefix("datasets/") {
            Some(id) => format!("/api/datasets/{id}"),
            None => format!("/api/models/{}", self.id),
        };
        if let Some(place) = path.strip_prefix(&format!("{api}/tree/{COMMIT}")) {
            return self.page(request, &unescaped(place.trim_start_matches('/')));
        }
        if let Some(revision) = path.strip_prefix(&format!("{api}/revision/")) {
            return if [COMMIT, "main", "refs%2Fpr%2F1", "refs%2Fconvert%2Fparquet"].contains(&revision) {
                HubReply::new(200, self.description())
            } else {
                HubReply::new(404, "{}").with("x-error-code", "RevisionNotFound")
            };
        }
        if let Some(name) = path.strip_prefix("/cached/") {
            return match self.files.get(&unescaped(name)) {
                Some(bytes) => {
                    ranged(request, bytes).with("etag", format!("\"{}\"", HubServer::digest(bytes)))
                }
                None => HubReply::new(404, ""),
            };
        }
        let name = path.strip_prefix(&format!("/{}/resolve/{COMMIT}/", self.id));
        match name.and_then(|name| Some((name, self.files.get(&unescaped(name))?))) {
            Some((name, bytes)) if is_large(bytes) => HubReply::new(302, "")
                .with("x-linked-etag", format!("\"{}\"", HubServer::digest(bytes)))
                .with("x-linked-size", bytes.len().to_string())
                .with("location", format!("http://{}/{name}?signature=secret", self.storage)),
            Some((name, _)) => HubReply::new(307, "").with("location", format!("/cached/{name}")),
            None if name.is_some() => HubReply::new(404, "{}").with("x-error-code", "EntryNotFound"),
            // Without a valid token, the Hub does not reveal which private models exist.
            None => HubReply::new(401, "{}").with("x-error-code", "RepoNotFound"),
        }
    }

    /// Returns a page of the files and folders in a folder, or of all files and folders below it.
    fn page(&self, request: &HubRequest, folder: &str) -> HubReply {
        let query = |name: &str| request.path.split(['?', '&']).find_map(|part| part.strip_prefix(name));
        let is_deep = query("recursive=") == Some("true");
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut entries = BTreeSet::new();
        for (name, bytes) in &self.files {
            let Some(below) = name.strip_prefix(&start) else { continue };
            let folders = below.match_indices('/').map(|(at, _)| &name[..start.len() + at]);
            let folders: Vec<&str> = folders.take(if is_deep { usize::MAX } else { 1 }).collect();
            if is_deep || folders.is_empty() {
                let digest = HubServer::digest(bytes);
                let size = bytes.len();
                let large = format!(r#", "lfs": {{"oid": "{digest}", "size": {size}, "pointerSize": 130}}"#);
                let large = if is_large(bytes) { &large } else { "" };
                let oid = if is_large(bytes) { &digest[..40] } else { &digest };
                entries.insert(format!(
                    r#"{{"path": {name:?}, "type": "file", "oid": "{oid}", "size": {size}{large}}}"#
                ));
            }
            entries.extend(
                folders.iter().map(|folder| format!(r#"{{"path": {folder:?}, "type": "directory"}}"#)),
            );
        }
        if entries.is_empty() {
            return HubReply::new(404, "{}").with("x-error-code", "EntryNotFound");
        }
        let from: usize = query("cursor=").map_or(0, |cursor| cursor.parse().expect("a number"));
        let shown: Vec<String> = entries.iter().skip(from).take(PAGE).cloned().collect();
        let reply = HubReply::new(200, format!("[{}]", shown.join(", ")));
        if from + PAGE >= entries.len() {
            return reply;
        }
        let path = request.path.split("&cursor").next().unwrap_or_default();
        // The Hub links to its own address, even behind a mirror.
        let next = format!("<https://huggingface.co{path}&cursor={}>; rel=\"next\"", from + PAGE);
        reply.with("link", next)
    }

    fn description(&self) -> String {
        let files: Vec<String> =
            self.files.keys().map(|name| format!("{{\"rfilename\": {name:?}}}")).collect();
        format!("{{\"id\": {:?}, \"sha\": \"{COMMIT}\", \"siblings\": [{}]}}", self.id, files.join(", "))
    }
}

/// Returns a path with its percent-encoded characters decoded.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("an escape"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("UTF-8")
}

/// Returns an answer with the bytes that a request asks for.
fn ranged(request: &HubRequest, bytes: &[u8]) -> HubReply {
    let range =
        request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
    match range.and_then(|from| from.parse::<usize>().ok()) {
        None => HubReply::new(200, bytes),
        Some(from) if from >= bytes.len() => HubReply::new(416, ""),
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
            HubReply::new(206, &bytes[from..]).with("content-range", range)
        }
    }
}
