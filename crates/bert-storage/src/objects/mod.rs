//! Objects of a store, addressed by URL: `s3://BUCKET/KEY`, `gs://`, `az://`, and read-only `http(s)://`.
//!
//! A store is configured by the usual environment variables (`AWS_*`, `GOOGLE_*`, `AZURE_*`) or set by [`mount`].
//! Transient failures are retried with exponential backoff; an error that remains after that is
//! [transient](is_transient). An object appears complete or not at all, even if it is uploaded in parts.

mod reader;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{
    ClientOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig, WriteMultipart,
};

use crate::url::{has_secrets, with_lower_scheme, without_secrets};
use reader::ObjectReader;

/// Environment variable with the number of seconds for which a request is retried, instead of 180.
const RETRY_SECONDS: &str = "BERT_RETRY_SECONDS";

/// Error message for a URL with credentials.
const NO_CREDENTIALS: &str =
    "the URL contains credentials or a query: set them as environment variables of the store";

/// Pause between two list requests.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum size of an upload part in bytes.
const PART: u64 = 16 << 20;
/// Maximum number of parts of an object; the limit of S3 is 10,000.
const MAX_PARTS: u64 = 9_000;
/// Maximum number of parts in flight.
const MAX_IN_FLIGHT: usize = 3;

/// A permanent error of a store. Its causes are omitted, because they repeat the URL of the request, and a server's URL
/// may contain a password.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct StoreError {
    message: String,
    temporary: bool,
}

fn store_error(error: &io::Error) -> Option<&StoreError> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>())
}

/// Returns whether a later attempt may succeed: the store could not be reached or did not answer.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    store_error(error).is_some_and(|error| error.temporary)
}

/// Returns whether a store rejected the request, for example because the bucket does not exist or the key is wrong.
/// Another attempt would fail too.
#[must_use]
pub fn is_rejection(error: &io::Error) -> bool {
    store_error(error).is_some_and(|error| !error.temporary)
}

fn failed(source: object_store::Error) -> io::Error {
    use object_store::Error as E;
    let (kind, temporary) = match &source {
        E::NotFound { .. } => (io::ErrorKind::NotFound, false),
        E::AlreadyExists { .. } => (io::ErrorKind::AlreadyExists, false),
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => (io::ErrorKind::PermissionDenied, false),
        E::Generic { source, .. } => match rejection_status(&source.to_string()) {
            Some("401" | "403") => (io::ErrorKind::PermissionDenied, false),
            status => (io::ErrorKind::Other, status.is_none()),
        },
        // Another process changed the object while it was read.
        E::Precondition { .. } => (io::ErrorKind::Other, true),
        _ => (io::ErrorKind::InvalidInput, false),
    };
    io::Error::new(kind, StoreError { message: without_secrets(&source.to_string()), temporary })
}

/// Returns the status of a server that understood the request but rejected it, for which the crate has no error kind.
fn rejection_status(message: &str) -> Option<&str> {
    let status = message.split_once("status code: ")?.1.get(..3)?;
    (status.starts_with('4') && !["408", "429"].contains(&status)).then_some(status)
}

fn invalid(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Starts a request on the threads of the stores and returns the channel of its answer.
fn start<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
    static THREADS: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        threads.worker_threads(2).thread_name("object-store").enable_all();
        threads.build().expect("threads can be started")
    });
    let (sender, receiver) = sync_channel(1);
    threads.spawn(async move {
        // The receiver may no longer exist.
        let _ = sender.send(request.await);
    });
    receiver
}

/// Runs a request and waits for its answer. Can be called from any thread, including a thread of another runtime.
///
/// # Errors
/// Fails if the request panicked.
fn wait<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    answer(&start(request))
}

/// Waits for the answer of a started request.
fn answer<T>(pending: &Receiver<T>) -> io::Result<T> {
    pending
        .recv()
        .map_err(|_| invalid("the request cannot be made: check the URL and the variables of the store"))
}

/// Stores by `SCHEME://HOST`. A store keeps its connections and credentials.
static STORES: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>> = Mutex::new(BTreeMap::new());

/// Uses a store for all URLs that begin with `root`, such as `s3://bucket`, instead of a store configured by the
/// environment.
pub fn mount(root: &str, store: Arc<dyn ObjectStore>) {
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    stores.insert(root.trim_end_matches('/').to_owned(), store);
}

/// An object: its store and its key in the store.
#[derive(Clone, Debug)]
struct Object {
    store: Arc<dyn ObjectStore>,
    key: Key,
    /// `SCHEME://HOST`.
    root: String,
}

impl Object {
    /// Returns the object of a URL. Does not send a request.
    fn of(url: &Path) -> io::Result<Self> {
        // A secret in the URL would be saved with every output.
        if has_secrets(url) {
            return Err(invalid(NO_CREDENTIALS));
        }
        let url = with_lower_scheme(url);
        let url = url.to_str().ok_or_else(|| invalid("the URL is not UTF-8"))?;
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("it is not a URL"))?;
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_web = matches!(scheme, "http" | "https");
        if host.is_empty() {
            return Err(invalid("the URL has no bucket or host"));
        }
        if is_web && key.contains(['?', '#']) {
            return Err(invalid(NO_CREDENTIALS));
        }
        let root = format!("{scheme}://{host}");
        let key = key.trim_end_matches('/');
        let key = if is_web { Key::from_url_path(key) } else { Key::parse(key) }.map_err(invalid)?;
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match stores.get(&root) {
            Some(store) => Arc::clone(store),
            None => {
                let store = store_of(scheme, host, &root).map_err(invalid)?;
                stores.insert(root.clone(), Arc::clone(&store));
                store
            }
        };
        Ok(Self { store, key, root })
    }

    /// Returns the size of the object and, if the store has one, its entity tag.
    fn head(&self) -> io::Result<(u64, Option<String>)> {
        let Self { store, key, .. } = self.clone();
        if key.as_ref().is_empty() && !self.is_web() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is a bucket, not an object"));
        }
        let found = wait(async move { store.head(&key).await })?.map_err(failed)?;
        Ok((found.size, found.e_tag))
    }

    fn is_web(&self) -> bool {
        self.root.starts_with("http")
    }

    fn url_of(&self, key: &Key) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.root))
    }
}

/// Opens an object for sequential reading.
pub(crate) fn open(url: &Path) -> io::Result<ObjectReader> {
    ObjectReader::open(Object::of(url)?)
}

/// Returns the size of an object in bytes.
pub(crate) fn size(url: &Path) -> io::Result<u64> {
    Ok(Object::of(url)?.head()?.0)
}

/// Returns how long a request is retried.
fn retry_timeout() -> Result<Duration, object_store::Error> {
    let Ok(value) = std::env::var(RETRY_SECONDS) else { return Ok(Duration::from_secs(180)) };
    value.parse().map(Duration::from_secs).map_err(|_| object_store::Error::NotSupported {
        source: format!("{RETRY_SECONDS} is {value:?}, but must be a whole number of seconds").into(),
    })
}

/// Returns the URL of a server in lower case, or an error that names `variable` if it is not one.
fn check_endpoint(variable: &str, endpoint: &str) -> Result<String, object_store::Error> {
    let lower = endpoint.to_ascii_lowercase();
    let host = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        let message = format!(
            "{variable} is {:?}, but must begin with http:// or https:// and name a server",
            without_secrets(endpoint)
        );
        return Err(object_store::Error::NotSupported { source: message.into() });
    }
    Ok(lower)
}

/// Returns whether the first of these variables that is set names a server without encryption.
fn is_plain(variables: &[&str]) -> Result<bool, object_store::Error> {
    let mut set = variables.iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let Some((name, endpoint)) = set.next() else { return Ok(false) };
    Ok(check_endpoint(name, &endpoint)?.starts_with("http://"))
}

/// Returns the store of a host, configured by the environment.
fn store_of(scheme: &str, host: &str, root: &str) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    let retry = RetryConfig { retry_timeout: retry_timeout()?, ..Default::default() };
    Ok(match scheme {
        "s3" | "s3a" => {
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(host).with_retry(retry);
            if is_plain(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])? {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build()?)
        }
        "gs" => {
            Arc::new(GoogleCloudStorageBuilder::from_env().with_bucket_name(host).with_retry(retry).build()?)
        }
        "az" | "azure" | "abfs" | "abfss" => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(root).with_retry(retry);
            if is_plain(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"])? {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build()?)
        }
        "http" | "https" => {
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(root).with_client_options(options);
            Arc::new(builder.with_retry(retry).build()?)
        }
        _ => {
            let message =
                format!("{scheme}:// is not supported; use s3://, gs://, az://, http:// or https://");
            return Err(object_store::Error::NotSupported { source: message.into() });
        }
    })
}

/// Returns all objects whose names begin with the URL and a slash, with their sizes, sorted by name.
///
/// # Errors
/// Errors of the store; a plain web server does not support lists.
pub fn list(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let object = Object::of(folder)?;
    if object.is_web() {
        return Err(invalid("a web server cannot list its files: name each file"));
    }
    let timeout = retry_timeout().map_err(failed)?;
    let start = Instant::now();
    let found = loop {
        let Object { store, key, .. } = object.clone();
        let found = wait(async move { store.list(Some(&key)).try_collect::<Vec<_>>().await })?;
        match found.map_err(failed) {
            // The crate retries requests, but not one whose answer is cut off.
            Err(error) if is_transient(&error) && start.elapsed() < timeout => thread::sleep(PAUSE),
            found => break found?,
        }
    };
    let mut found: Vec<_> =
        found.into_iter().map(|meta| (object.url_of(&meta.location), meta.size)).collect();
    // Sort by bytes, like the files of a folder: paths compare by component.
    found.sort_unstable_by(|(a, _), (b, _)| {
        a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes())
    });
    Ok(found)
}

/// Writes a small object and replaces an existing one.
///
/// # Errors
/// Errors of the store.
pub fn put(url: &Path, bytes: Vec<u8>) -> io::Result<()> {
    let Object { store, key, .. } = Object::of(url)?;
    wait(async move { store.put(&key, PutPayload::from(bytes)).await })?.map(|_| ()).map_err(failed)
}

/// Writes a small object atomically if it does not exist yet. Returns false if it exists.
///
/// # Errors
/// Errors of the store.
pub fn put_new(url: &Path, bytes: Vec<u8>) -> io::Result<bool> {
    let Object { store, key, .. } = Object::of(url)?;
    let only_new = PutOptions::from(PutMode::Create);
    let put = wait(async move { store.put_opts(&key, PutPayload::from(bytes), only_new).await })?;
    match put.map_err(failed) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes an object. Returns whether it existed, if the store reports that.
///
/// # Errors
/// Errors of the store.
pub fn remove(url: &Path) -> io::Result<bool> {
    let Object { store, key, .. } = Object::of(url)?;
    match wait(async move { store.delete(&key).await })?.map_err(failed) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Maximum number of attempts to upload a large file.
const MAX_UPLOADS: u32 = 3;

/// Uploads a file and replaces an existing object. A large file is uploaded in parts, which become visible with the
/// last one.
///
/// # Errors
/// Errors of the store or the disk. The parts are then removed, if the store can be reached.
pub fn upload(file: &Path, url: &Path) -> io::Result<()> {
    let object = Object::of(url)?;
    let mut file = File::open(file)?;
    let size = file.metadata()?.len();
    wait(async move {
        if size <= PART {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return object.store.put(&object.key, PutPayload::from(bytes)).await.map(|_| ()).map_err(failed);
        }
        for _ in 1..MAX_UPLOADS {
            match upload_parts(&object, &mut file, size).await?.finish().await.map_err(failed) {
                // When the answer to the last request is lost, the store rejects its repetition, because the upload is
                // complete.
                Err(error) if is_rejection(&error) => {}
                result => return result.map(|_| ()),
            }
        }
        upload_parts(&object, &mut file, size).await?.finish().await.map(|_| ()).map_err(failed)
    })?
}

/// Sends all parts of a file and returns the upload, which becomes visible when it is finished.
async fn upload_parts(object: &Object, file: &mut File, size: u64) -> io::Result<WriteMultipart> {
    let length = PART.max(size.div_ceil(MAX_PARTS));
    file.rewind()?;
    let upload = object.store.put_multipart(&object.key).await.map_err(failed)?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, length as usize);
    let mut sent = 0;
    let result = loop {
        let mut part = Vec::new();
        match file.take(length).read_to_end(&mut part) {
            Ok(0) if sent == size => break Ok(()),
            Ok(0) => break Err(io::Error::other("the file changed during the upload")),
            Ok(read) => sent += read as u64,
            Err(error) => break Err(error),
        }
        if let Err(error) = upload.wait_for_capacity(MAX_IN_FLIGHT).await {
            break Err(failed(error));
        }
        upload.put(part.into());
    };
    match result {
        Ok(()) => Ok(upload),
        Err(error) => {
            // The store may be unreachable; most stores remove old parts by a lifecycle rule of the bucket.
            let _ = upload.abort().await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn rejection_of(url: &str) -> String {
        let error = size(Path::new(url)).unwrap_err();
        assert!(!is_transient(&error), "{url}");
        error.to_string()
    }

    #[test]
    fn objects_are_listed_in_file_order() {
        mount("s3://ordered", Arc::new(InMemory::new()));
        for name in ["a/x.txt", "a.txt", "a-2/x.txt"] {
            put(&Path::new("S3://ordered").join(name), vec![1]).unwrap();
        }
        let found = list(Path::new("s3://ordered")).unwrap();
        let found: Vec<_> = found.iter().map(|(url, _)| url.to_str().unwrap()).collect();
        assert_eq!(found, ["s3://ordered/a-2/x.txt", "s3://ordered/a.txt", "s3://ordered/a/x.txt"]);
    }

    #[test]
    fn buckets_are_not_objects() {
        mount("gs://empty", Arc::new(InMemory::new()));
        for url in ["gs://empty", "gs://empty/"] {
            assert_eq!(size(Path::new(url)).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn unsupported_urls_are_rejected() {
        assert!(rejection_of("hdfs://host/x").contains("hdfs:// is not supported; use s3://"));
        assert!(rejection_of("s3:///x").contains("has no bucket or host"));
        for url in [
            "https://user:SECRET@host/x",
            "s3://KEY:SECRET@b/x",
            "https://h/x?a=SECRET",
            "az://c/x?sig=SECRET",
        ] {
            let message = rejection_of(url);
            assert!(message.contains("contains credentials") && !message.contains("SECRET"), "{message}");
        }
    }

    #[test]
    fn requests_that_panic_are_errors() {
        let error = wait(async { std::panic::resume_unwind(Box::new("stopped")) }).unwrap_err();
        assert!(error.to_string().contains("the request cannot be made") && !is_transient(&error), "{error}");
    }

    #[test]
    fn endpoints_need_a_scheme() {
        for value in ["localhost:9000", "http://", "https:///x", ""] {
            assert!(check_endpoint("A", value).is_err(), "{value}");
        }
        let message = check_endpoint("AWS_ENDPOINT_URL", "minio:9000").unwrap_err().to_string();
        let expected = "AWS_ENDPOINT_URL is \"minio:9000\", but must begin with http://";
        assert!(message.contains(expected), "{message}");
        assert_eq!(check_endpoint("A", "HTTP://minio:9000").unwrap(), "http://minio:9000");
    }
}
