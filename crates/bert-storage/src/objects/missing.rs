//! Replaces `store` if the feature `object-stores` is off: every request fails.

#![expect(missing_docs, reason = "`store` has the documentation")]

use std::io::{self, Empty};
use std::path::{Path, PathBuf};

fn unsupported<T>() -> io::Result<T> {
    let message = "this program was built without the feature `object-stores`: URLs need it";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

pub fn is_transient(_: &io::Error) -> bool {
    false
}

pub fn is_rejection(_: &io::Error) -> bool {
    false
}

pub(crate) fn open(_: &Path, _: u64) -> io::Result<Empty> {
    unsupported()
}

pub(crate) fn size(_: &Path) -> io::Result<u64> {
    unsupported()
}

pub fn list(_: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    unsupported()
}

pub fn put(_: &Path, _: Vec<u8>) -> io::Result<()> {
    unsupported()
}

pub fn put_new(_: &Path, _: Vec<u8>) -> io::Result<bool> {
    unsupported()
}

pub fn remove(_: &Path) -> io::Result<bool> {
    unsupported()
}

pub fn upload(_: &Path, _: &Path) -> io::Result<()> {
    unsupported()
}
