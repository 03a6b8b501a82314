//! Objects of a store, addressed by URL: `s3://BUCKET/KEY`, `gs://`, `az://`, and read-only `http(s)://`.
//!
//! A store is configured by the usual environment variables (`AWS_*`, `GOOGLE_*`, `AZURE_*`) or set by `mount`.
//! Transient failures are retried with exponential backoff; an error that remains after that is
//! [transient](is_transient). An object appears complete or not at all, even if it is uploaded in parts.
//!
//! Without the feature `object-stores` every request fails.

pub(crate) mod url;

#[cfg_attr(not(feature = "object-stores"), path = "missing.rs")]
mod store;

#[cfg(feature = "object-stores")]
pub use store::{RetryingConnector, mount};
pub use store::{is_rejection, is_transient, list, put, put_new, remove, upload};
pub(crate) use store::{open, size};
