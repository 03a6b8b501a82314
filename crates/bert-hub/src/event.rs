//! [`Event`]: the progress of a download.

/// An event of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The number of bytes downloaded, and the size of all files to download.
    Progress {
        /// Number of bytes downloaded so far, including the bytes of these files that were already in the cache.
        done: u64,
        /// Size of all files to download, in bytes.
        total: u64,
    },
    /// A remark for the user, such as a repeated attempt.
    Note(String),
}
