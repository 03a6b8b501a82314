//! The error type, and the parts of error messages about names.

pub use bert_storage::{Class, Error};

/// Returns the class of an error in the content of a repository: bad data, or an invalid model.
pub(crate) fn content(is_data: bool) -> Class {
    if is_data { Class::Data } else { Class::Model }
}

/// A URL of the Hub that cannot be read, without its query, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{url} cannot be read: {reason}")]
pub(crate) struct Unavailable {
    pub(crate) url: String,
    pub(crate) reason: String,
}

/// Returns the beginning of a message about a missing repository. The name of a model may also have been meant as a
/// path.
pub(crate) fn no_folder(is_data: bool) -> &'static str {
    if is_data { "" } else { "no folder has this name, and " }
}
