//! [`Client`]: requests to the Hub, with limits on time, redirects and attempts.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::{HeaderMap, Method, Request, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use crate::download::address::{escaped, joined, origin, without_query};
use crate::error::{Class, Error, Unavailable, no_folder};
use crate::event::Event;
use crate::name::{Name, is_commit, is_hex};
use crate::settings::Settings;

/// Maximum number of attempts for a file or a page. An attempt that received at least 1 MiB of a file restarts the
/// count.
pub(super) const TRIES: u32 = 5;
/// Maximum number of redirects of a request.
const REDIRECTS: usize = 10;
/// Maximum length of a JSON response in bytes.
const DESCRIPTION_BYTES: u64 = 16 << 20;
/// A server that sends fewer bytes in [`SLOW`] timeouts is treated as silent.
const SLOW_BYTES: u64 = 64 << 10;
/// Number of timeouts after which the received bytes are compared with [`SLOW_BYTES`].
const SLOW: u32 = 6;
/// Maximum pause before another attempt. The Hub counts requests in windows of five minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Requests for one repository.
pub(super) struct Client<'a> {
    settings: &'a Settings,
    name: &'a Name,
    agent: Agent,
}

/// A failed request.
pub(super) enum Failure {
    /// Another attempt may succeed, after a time that the server may state.
    Temporary { url: String, reason: String, wait: Option<Duration> },
    /// Another attempt would fail in the same way.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// The commit of a version, and for a model the names of its files.
pub(super) struct Version {
    pub(super) commit: String,
    pub(super) files: Vec<String>,
}

/// A file of the Hub.
pub(super) struct RemoteFile {
    pub(super) name: String,
    /// SHA-256 of a large file, or git's digest of a small one.
    pub(super) digest: String,
    /// Size in bytes.
    pub(super) size: u64,
}

impl RemoteFile {
    /// Returns a file, or `None` if its size is missing or its digest does not have 40 or 64 hexadecimal digits.
    pub(super) fn new(name: String, digest: Option<String>, size: Option<u64>) -> Option<Self> {
        let digest = digest.filter(|text| [40, 64].contains(&text.len()) && is_hex(text))?;
        Some(Self { name, digest, size: size? })
    }
}

/// The last response of a request.
pub(super) struct Answer {
    pub(super) url: String,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Body,
    /// Digest and size of a file, as far as the host of the Hub has stated them.
    digest: Option<String>,
    size: Option<u64>,
}

impl<'a> Client<'a> {
    pub(super) fn new(settings: &'a Settings, name: &'a Name) -> Self {
        let limit = Some(settings.timeout);
        // The system's certificates may include one of the user's organization, which a proxy may use.
        let found = rustls_native_certs::load_native_certs().certs;
        let own: Vec<_> = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let roots = if own.is_empty() { RootCerts::WebPki } else { RootCerts::new_with_certs(&own) };
        // The proxy in HTTPS_PROXY or a similar variable is used, except for a server on this computer.
        let is_local = settings.endpoint.starts_with("http://127.0.0.1");
        let agent = Agent::config_builder()
            .proxy(Proxy::try_from_env().filter(|_| !is_local))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_resolve(limit)
            .timeout_connect(limit)
            .timeout_recv_response(limit.map(|limit| limit * SLOW))
            .timeout_per_read(limit)
            .timeout_per_write(limit)
            .user_agent(concat!("bert-hub/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build();
        Self { settings, name, agent: agent.into() }
    }

    /// Requests the commit of the version, and for a model the names of its files.
    pub(super) fn version(&self) -> Result<Version, Failure> {
        let is_data = self.name.is_data;
        let fields = if is_data { "?expand=sha" } else { "" };
        let revision = self.name.revision().replace('/', "%2F");
        let (url, _, stated) = self.json(format!("{}/revision/{revision}{fields}", self.api()))?;
        let files = stated["siblings"].as_array().map(|files| {
            files.iter().filter_map(|file| Some(file["rfilename"].as_str()?.to_string())).collect()
        });
        match (stated["sha"].as_str().filter(|sha| is_commit(sha)), files) {
            (Some(commit), files) if files.is_some() || is_data => {
                Ok(Version { commit: commit.to_string(), files: files.unwrap_or_default() })
            }
            _ => Err(temporary(&url, &format!("the answer does not describe a {}", noun(is_data)))),
        }
    }

    /// Requests a JSON value; also returns the last URL and the headers. A body that is not JSON yields null.
    pub(super) fn json(&self, url: String) -> Result<(String, HeaderMap, Value), Failure> {
        let mut answer = self.send(Method::GET, url, 0)?;
        let mut text = Vec::new();
        self.read(&mut answer, DESCRIPTION_BYTES, &mut |bytes| {
            text.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok((answer.url, answer.headers, serde_json::from_slice(&text).unwrap_or_default()))
    }

    /// Returns the URL of the repository in the API of the Hub.
    pub(super) fn api(&self) -> String {
        let kind = if self.name.is_data { "datasets" } else { "models" };
        format!("{}/api/{kind}/{}", self.settings.endpoint, self.name.id)
    }

    /// Returns the URL of the repository's page, with which the URLs of its files begin.
    fn home(&self) -> String {
        let kind = if self.name.is_data { "/datasets" } else { "" };
        format!("{}{kind}/{}", self.settings.endpoint, self.name.id)
    }

    /// Requests the digest and the size of a file.
    pub(super) fn describe(&self, commit: &str, file: &str) -> Result<RemoteFile, Failure> {
        let answer = self.send(Method::HEAD, self.address(commit, file), 0)?;
        RemoteFile::new(file.to_string(), answer.digest, answer.size)
            .ok_or_else(|| temporary(&answer.url, "the answer states no digest and size of the file"))
    }

    /// Requests the bytes of a file from the offset `from` on.
    pub(super) fn get(&self, commit: &str, file: &str, from: u64) -> Result<Answer, Failure> {
        self.send(Method::GET, self.address(commit, file), from)
    }

    fn address(&self, commit: &str, file: &str) -> String {
        format!("{}/resolve/{commit}/{}", self.home(), escaped(file))
    }

    /// Sends a request and follows redirects. A HEAD request does not leave the host of the Hub, which states the
    /// digest and the size.
    fn send(&self, method: Method, mut url: String, from: u64) -> Result<Answer, Failure> {
        let mut digest = None;
        let mut size = None;
        for _ in 0..=REDIRECTS {
            let is_hub = origin(&url) == origin(&self.settings.endpoint);
            let mut request =
                Request::builder().method(&method).uri(&url).header("accept-encoding", "identity");
            if let Some(token) = self.settings.token.as_ref().filter(|_| is_hub) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            if from > 0 {
                request = request.header("range", format!("bytes={from}-"));
            }
            let request = request.body(()).map_err(|error| temporary(&url, &error.to_string()))?;
            let response = self.agent.run(request).map_err(|error| temporary(&url, &reason(&error)))?;
            let (parts, body) = response.into_parts();
            let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
            let is_redirect = matches!(parts.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if is_hub {
                let plain = |name| header(name).filter(|_| !is_redirect);
                digest = digest.or_else(|| header("x-linked-etag").or(plain("etag")).map(unquoted));
                size = size.or_else(|| header("x-linked-size").or(plain("content-length"))?.parse().ok());
            }
            let next = header("location").filter(|_| is_redirect).map(|to| joined(&url, to));
            match next {
                None if is_redirect => return Err(temporary(&url, "a redirect without address")),
                Some(next) if method == Method::GET || origin(&next) == origin(&url) => {
                    if url.starts_with("https:") && !next.starts_with("https:") {
                        return Err(temporary(&url, "a redirect to an address without encryption"));
                    }
                    url = next;
                }
                _ => {
                    if !is_redirect {
                        self.check_status(parts.status, &parts.headers, &url, is_hub)?;
                    }
                    return Ok(Answer {
                        url,
                        status: parts.status,
                        headers: parts.headers,
                        body,
                        digest,
                        size,
                    });
                }
            }
        }
        Err(temporary(&url, &format!("more than {REDIRECTS} redirects")))
    }

    fn check_status(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        url: &str,
        is_hub: bool,
    ) -> Result<(), Failure> {
        let code = headers.get("x-error-code").and_then(|code| code.to_str().ok()).unwrap_or_default();
        let Settings { endpoint, token, .. } = self.settings;
        let is_data = self.name.is_data;
        let noun = noun(is_data);
        let refused = |reason: String| Err(self.name.refused(reason).into());
        match (status.as_u16(), is_hub) {
            (200..=299 | 416, _) => Ok(()),
            (401 | 403, true) if code == "GatedRepo" => refused(format!(
                "the {noun} is gated: accept its conditions at {}, and set HF_TOKEN to your token",
                self.home()
            )),
            (401 | 403, true) if token.is_some() => refused(format!(
                "{endpoint} refuses the token (HF_TOKEN), or the token may not read this {noun}"
            )),
            (401 | 403, true) => refused(format!(
                "{}{endpoint} shows no such {noun} without a token; check the name, or set HF_TOKEN for a private {noun}",
                no_folder(is_data)
            )),
            (404 | 410, true) => {
                let part = match code {
                    "RevisionNotFound" => "version of the ",
                    "EntryNotFound" => "file or folder of the ",
                    _ => "",
                };
                refused(format!(
                    "{}{endpoint} has no such {part}{noun}; check the name and the revision",
                    no_folder(is_data)
                ))
            }
            (408 | 425 | 429 | 500..=599, _) | (401 | 403, false) => {
                let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
                let asked = header("retry-after").and_then(|seconds| seconds.parse().ok());
                let wait = asked.or_else(|| reset(header("ratelimit")?)).map(Duration::from_secs);
                let asked = wait.map_or_else(String::new, |wait| format!("; wait {} s", wait.as_secs()));
                Err(Failure::Temporary {
                    url: url.to_string(),
                    reason: format!("it answers {status}{asked}"),
                    wait,
                })
            }
            _ => refused(format!("{} answers {status}", without_query(url))),
        }
    }

    /// Passes the body of a response to a function in pieces. A body that is cut off is not an error here; the caller
    /// compares lengths.
    pub(super) fn read(
        &self,
        answer: &mut Answer,
        limit: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let mut reader = answer.body.as_reader();
        let mut buffer = vec![0; 1 << 16];
        let mut left = limit;
        let mut begun = Instant::now();
        let mut arrived = 0;
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Ok(read) => read as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(temporary(&answer.url, &error.to_string())),
            };
            left = left.checked_sub(read).ok_or_else(|| temporary(&answer.url, "it sends too many bytes"))?;
            sink(&buffer[..read as usize])?;
            arrived += read;
            if begun.elapsed() > self.settings.timeout * SLOW {
                if arrived < SLOW_BYTES {
                    return Err(temporary(&answer.url, "it sends hardly any bytes"));
                }
                begun = Instant::now();
                arrived = 0;
            }
        }
    }

    /// Makes an attempt until it succeeds, at most `tries` times, with growing pauses. An attempt that returns its
    /// failure together with `true` has made progress; the count then restarts with this failure as the first.
    pub(super) fn repeat<T>(
        &self,
        tries: u32,
        on_event: &mut dyn FnMut(Event),
        mut attempt: impl FnMut(&mut dyn FnMut(Event)) -> Result<T, (Failure, bool)>,
    ) -> Result<T, Error> {
        let mut failed = 0;
        loop {
            let (failure, progressed) = match attempt(on_event) {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            failed = if progressed { 1 } else { failed + 1 };
            let (url, reason, asked) = match failure {
                Failure::Final(error) => return Err(error),
                Failure::Temporary { url, reason, wait } => (without_query(&url), reason, wait),
            };
            let pause = (self.settings.timeout / 10 * 2_u32.pow(failed - 1)).max(asked.unwrap_or_default());
            if failed >= tries || pause > LONGEST_PAUSE {
                let Name { is_data, .. } = *self.name;
                let cause = Unavailable { url, reason };
                let text = format!(
                    "{}: {}{cause}. Try again later, or give a folder",
                    self.name,
                    no_folder(is_data)
                );
                return Err(Error::new(Class::Later, text).because(cause));
            }
            on_event(Event::Note(format!(
                "cannot get {url}: {reason}; tried again after {:.1} s",
                pause.as_secs_f64()
            )));
            std::thread::sleep(pause);
        }
    }
}

/// Returns the seconds after which a limit of the Hub allows requests again: 20 for `"api";r=0;t=20`.
fn reset(limit: &str) -> Option<u64> {
    limit.split(';').find_map(|part| part.trim().strip_prefix("t=")?.parse().ok())
}

/// Returns the kind of a repository, for messages.
fn noun(is_data: bool) -> &'static str {
    if is_data { "data set" } else { "model" }
}

/// Returns the failure of a request that may succeed later.
pub(super) fn temporary(url: &str, reason: &str) -> Failure {
    Failure::Temporary { url: url.to_string(), reason: reason.to_string(), wait: None }
}

/// Returns the error of a connection as a text for the user.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "no such host, or no network".to_string(),
        ureq::Error::Timeout(_) => "no answer within the time limit (HF_HUB_DOWNLOAD_TIMEOUT)".to_string(),
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Returns the digest in an ETag, without its quotes and its prefix `W/`.
fn unquoted(etag: &str) -> String {
    etag.trim_start_matches("W/").trim_matches('"').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_state_when_they_end() {
        assert_eq!(reset("\"resolvers\";r=0;t=20"), Some(20));
        assert_eq!(reset("\"api\"; r=4; t=300"), Some(300));
        assert_eq!(reset("\"api\";r=0"), None);
    }
}
