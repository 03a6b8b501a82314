//! Opens what is read: a file, or an object of a store whose URL stands in the place of a path.
//!
//! `file://` URLs are paths. Other URLs need the feature `object-stores`.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::objects;

/// Whether a path is the URL of something that is not on a disk here.
#[must_use]
pub fn is_url(path: &Path) -> bool {
    scheme(path).is_some_and(|scheme| scheme != "file")
}

fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let known = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "http", "https", "file"];
    known.contains(&scheme).then_some(scheme)
}

/// The path that a `file://` URL means; any other path is itself.
#[must_use]
pub fn on_disk(path: &Path) -> Cow<'_, Path> {
    match path.to_str().and_then(|path| path.strip_prefix("file://")) {
        Some(path) => Cow::Borrowed(Path::new(path)),
        None => Cow::Borrowed(path),
    }
}

/// Opens a file or an object to read it from its beginning to its end.
///
/// # Errors
/// As [`File::open`]; what the store says.
pub fn open_stream(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if !is_url(path) {
        return Ok(Box::new(File::open(on_disk(path))?));
    }
    Ok(Box::new(objects::open(path)?))
}

/// Opens a file to read it in any order; an object is copied to a file without a name first.
///
/// # Errors
/// As [`File::open`]; what the store says; a full disk.
pub fn open_file(path: &Path) -> io::Result<File> {
    if !is_url(path) {
        return File::open(on_disk(path));
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut objects::open(path)?, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// The size of a file or an object in bytes.
///
/// # Errors
/// As [`fs::metadata`]; what the store says.
pub fn size(path: &Path) -> io::Result<u64> {
    if !is_url(path) {
        return Ok(fs::metadata(on_disk(path))?.len());
    }
    objects::size(path)
}
