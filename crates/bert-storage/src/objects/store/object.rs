//! The stores of the environment, and the threads that run their requests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};

use crate::objects::store::connection::RetryingConnector;
use crate::objects::store::error::{failed, invalid};
use crate::objects::url::{has_secrets, with_lower_scheme, without_secrets};

/// Environment variable with the number of seconds for which a request is retried, instead of 180.
const RETRY_SECONDS: &str = "BERT_RETRY_SECONDS";

/// Largest value of this variable: 30 days.
const MAX_RETRY_SECONDS: u64 = 30 * 24 * 3600;

/// Error message for a URL with credentials.
const NO_CREDENTIALS: &str =
    "the URL contains credentials or a query: set them as environment variables of the store";

/// Starts a request on the threads of the stores and returns the channel of its answer.
pub(super) fn start<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
    static THREADS: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        threads.worker_threads(2).thread_name("object-store").enable_all();
        threads.build().expect("threads can be started")
    });
    let (sender, receiver) = sync_channel(1);
    threads.spawn(async move {
        // If the receiver no longer exists, nobody needs the answer.
        let _ = sender.send(request.await);
    });
    receiver
}

/// Runs a request and waits for its answer. Can be called from any thread, including a thread of another runtime.
///
/// # Errors
/// Fails if the request panicked.
pub(super) fn wait<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    answer(&start(request))
}

/// Waits for the answer of a started request.
pub(super) fn answer<T>(pending: &Receiver<T>) -> io::Result<T> {
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
pub(super) struct Object {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) key: Key,
    /// `SCHEME://HOST`.
    root: String,
}

impl Object {
    /// Returns the object of a URL. Does not send a request.
    pub(super) fn from_url(url: &Path) -> io::Result<Self> {
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
    pub(super) fn head(&self) -> io::Result<(u64, Option<String>)> {
        let Self { store, key, .. } = self.clone();
        if key.as_ref().is_empty() && !self.is_web() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is a bucket, not an object"));
        }
        let found = wait(async move { store.head(&key).await })?.map_err(failed)?;
        Ok((found.size, found.e_tag))
    }

    pub(super) fn is_web(&self) -> bool {
        self.root.starts_with("http")
    }

    pub(super) fn url_of(&self, key: &Key) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.root))
    }
}

/// Returns how long a request is retried.
fn retry_timeout() -> Result<Duration, object_store::Error> {
    let Ok(value) = std::env::var(RETRY_SECONDS) else { return Ok(Duration::from_secs(180)) };
    let seconds = value.parse().ok().filter(|&seconds| seconds <= MAX_RETRY_SECONDS);
    seconds.map(Duration::from_secs).ok_or_else(|| object_store::Error::NotSupported {
        source: format!(
            "{RETRY_SECONDS} is {value:?}, but must be a whole number of seconds, at most {MAX_RETRY_SECONDS}"
        )
        .into(),
    })
}

/// Returns the URL of a server in lower case, or an error that names `variable` if it is not such a URL.
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
            builder = builder.with_http_connector(RetryingConnector::default());
            if is_plain(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])? {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build()?)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(host).with_retry(retry);
            Arc::new(builder.with_http_connector(RetryingConnector::default()).build()?)
        }
        "az" | "azure" | "abfs" | "abfss" => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(root).with_retry(retry);
            builder = builder.with_http_connector(RetryingConnector::default());
            if is_plain(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"])? {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build()?)
        }
        "http" | "https" => {
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(root).with_client_options(options);
            let builder = builder.with_http_connector(RetryingConnector::default());
            Arc::new(builder.with_retry(retry).build()?)
        }
        _ => {
            let message =
                format!("{scheme}:// is not supported; use s3://, gs://, az://, http:// or https://");
            return Err(object_store::Error::NotSupported { source: message.into() });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::is_transient;

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
