//! Writes files that appear whole or not at all, and keeps folders good through kills, full disks and power cuts.
//!
//! | what | with |
//! |---|---|
//! | a complete file under its name, or no change | [`AtomicFile`], [`write_atomic`], [`write_json_atomic`] |
//! | a folder that is whole when its last file is there | [`StagedFolder`] |
//! | one writer in a folder | [`OutputLock`] |
//! | JSON that carries its own digest | [`sealed`] |
//! | an error that names its place in a file | [`Located`] |
//! | text from a file, safe for a terminal | [`visible`](fn@visible) |
//! | scratch data, digested while it is written | [`scratch`] |
//! | a file or an object of a store, to read | [`open_stream`], [`open_file`], [`size`] |
//! | objects of a store (S3, Google Cloud, Azure) | [`objects`], with the feature `object-stores` |
//! | copies of objects on a disk, up to a limit of bytes | [`ObjectCache`] |
//! | a disk that is full or broken, a power cut, for tests | `faults`, a feature |
//!
//! A complete file is written under a temporary name, synced and renamed; then its folder is synced.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("numbers.json");
//! let written = bert_storage::write_json_atomic(&path, &[1, 2, 3])?;
//! assert_eq!(written.blake3, bert_storage::digest_file(&path)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All operations that write go through the small trait [`FileSystem`], so that a test can make any of them fail.

mod atomic;
mod error;
#[cfg(feature = "faults")]
pub mod faults;
mod object_cache;
#[cfg(feature = "object-stores")]
pub mod objects;
#[cfg(not(feature = "object-stores"))]
#[path = "no_objects.rs"]
pub mod objects;
pub mod scratch;
pub mod sealed;
mod source;
mod staged;
mod system;
mod url;
mod visible;

pub use atomic::{AtomicFile, Written, is_temporary, write_atomic, write_json_atomic};
pub use error::{Error, Locate, Located, Result, is_disk_full};
pub use object_cache::ObjectCache;
pub use source::{digest_bytes, digest_file, open_file, open_stream, read_limited, size};
pub use staged::{LOCK, OutputLock, StagedFolder};
pub use system::{Disk, Durable, FileSystem};
pub use url::{has_secrets, is_url, on_disk, shown, with_lower_scheme};
pub use visible::visible;
