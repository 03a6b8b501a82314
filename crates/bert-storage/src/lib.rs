//! Writes files atomically, and keeps output folders consistent after kills, full disks and power cuts.
//!
//! | task | item |
//! |---|---|
//! | write a complete file, or change nothing | [`AtomicFile`], [`write_atomic`], [`write_json_atomic`] |
//! | write a file that a user names as output: a new file, a device, a pipe | [`OutputFile`] |
//! | write a folder that is complete once its last file exists | [`StagedFolder`] |
//! | allow one writer per folder | [`OutputLock`] |
//! | store JSON with a checksum of its own | [`checksummed_json`] |
//! | report an error with its class, its location in a file and its cause | [`Error`] |
//! | print text from a file safely on a terminal | [`visible`](fn@visible) |
//! | turn the panic of another crate into an error | [`catch_panic`](fn@catch_panic) |
//! | suggest a known name for an unknown one | [`did_you_mean`] |
//! | write scratch data with a digest | [`scratch`] |
//! | read a file or an object of a store | [`open_stream`], [`open_file`], [`size`] |
//! | access objects of a store (S3, Google Cloud, Azure) | [`objects`], with the feature `object-stores` |
//! | cache copies of objects on a disk, with a size limit | [`ObjectCache`] |
//!
//! A file is written under a temporary name, synced and renamed; then its folder is synced.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("numbers.json");
//! let written = bert_storage::write_json_atomic(&path, &[1, 2, 3])?;
//! assert_eq!(written.blake3, bert_storage::digest_file(&path)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All write operations use the small trait [`FileSystem`], so that a test can make any of them fail.

mod atomic;
mod catch_panic;
#[doc(hidden)]
pub mod checksummed_json;
mod error;
mod json;
#[doc(hidden)]
pub mod objects;
mod output;
mod program;
mod result_cache;
#[doc(hidden)]
pub mod scratch;
mod source;
mod staged;
mod suggestion;
mod system;
mod visible;

pub use atomic::{AtomicFile, FileDigest, write_atomic};
pub use error::{Class, Error, Result};
pub use objects::url::is_url;
pub use output::{Existing, OutputFile, OutputWriter, remove_unfinished_outputs};
pub use source::object_cache::ObjectCache;
pub use source::{open_file, open_stream, read_limited};
pub use staged::{OutputLock, StagedFolder};
pub use system::{Disk, Durable, FileSystem};

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use atomic::check_writable;
#[doc(hidden)]
pub use atomic::{is_temporary, write_json_atomic};
#[doc(hidden)]
pub use catch_panic::catch_panic;
#[doc(hidden)]
pub use error::{at_least_one, check_value, is_disk_full, with_flags};
#[doc(hidden)]
pub use json::is_default;
#[doc(hidden)]
pub use objects::url::{has_secrets, on_disk, shown, with_lower_scheme};
#[doc(hidden)]
pub use program::{commit, set_commit};
#[doc(hidden)]
pub use result_cache::{CachedResult, ResultCache};
#[doc(hidden)]
pub use source::{digest_bytes, digest_file, if_found, open_stream_at, size};
#[doc(hidden)]
pub use staged::LOCK;
#[doc(hidden)]
pub use staged::reject_url;
#[doc(hidden)]
pub use suggestion::did_you_mean;
#[doc(hidden)]
pub use system::{exists, free_space};
#[doc(hidden)]
pub use visible::visible;
