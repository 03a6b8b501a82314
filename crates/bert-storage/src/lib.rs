//! Writes files that appear whole or not at all, and keeps folders good through kills, full disks and power cuts.
//!
//! | what | with |
//! |---|---|
//! | a complete file under its name, or no change | [`AtomicFile`], [`write_atomic`], [`write_json_atomic`] |
//! | one writer in a folder | [`OutputLock`] |
//! | JSON that carries its own digest | [`sealed`] |
//! | scratch data, digested while it is written | [`scratch`] |
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
mod bytes;
mod disk_full;
mod error;
#[cfg(feature = "faults")]
pub mod faults;
mod folder;
mod lock;
pub mod scratch;
pub mod sealed;
mod system;

pub use atomic::{
    AtomicFile, Written, is_temporary, remove_temporaries, write_atomic, write_atomic_on, write_json_atomic,
    write_json_atomic_on,
};
pub use bytes::{digest_bytes, digest_file, read_limited};
pub use disk_full::is_disk_full;
pub use error::{Error, Result};
pub use folder::create_folder;
pub use lock::{LOCK, OutputLock};
pub use system::{Disk, Durable, FileSystem};
