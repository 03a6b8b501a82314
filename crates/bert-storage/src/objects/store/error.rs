//! Errors of a store, and whether another attempt may succeed.

use std::io;

use crate::objects::url::without_secrets;

/// An error of a store. Its causes are omitted, because they repeat the URL of the request, and a server's URL may
/// contain a password.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct StoreError {
    message: String,
    temporary: bool,
}

fn store_error(error: &io::Error) -> Option<&StoreError> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>())
}

/// Returns whether a later attempt may succeed: the store could not be reached or did not answer, or the object
/// changed while it was read.
pub fn is_transient(error: &io::Error) -> bool {
    store_error(error).is_some_and(|error| error.temporary)
}

/// Returns whether a store rejected the request, for example because the bucket does not exist or the key is wrong.
/// Another attempt would fail too.
pub fn is_rejection(error: &io::Error) -> bool {
    store_error(error).is_some_and(|error| !error.temporary)
}

pub(super) fn failed(source: object_store::Error) -> io::Error {
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

pub(super) fn invalid(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
