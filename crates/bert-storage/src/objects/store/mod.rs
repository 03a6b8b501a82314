//! Requests to a store: listing, reading, writing and removing objects, and reading their sizes.

mod connection;
mod error;
mod object;
mod reader;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart};

use crate::objects::store::error::{failed, invalid};
use crate::objects::store::object::{Object, wait};
use crate::objects::store::reader::ObjectReader;

pub use crate::objects::store::connection::RetryingConnector;
pub use crate::objects::store::error::{is_rejection, is_transient};
pub use crate::objects::store::object::mount;

/// Minimum size of an upload part in bytes.
const PART: u64 = 16 << 20;
/// Maximum number of parts of an object; the limit of S3 is 10,000.
const MAX_PARTS: u64 = 9_000;
/// Maximum number of parts in flight.
const MAX_IN_FLIGHT: usize = 3;

/// Opens an object for sequential reading from an offset in bytes.
pub(crate) fn open(url: &Path, offset: u64) -> io::Result<ObjectReader> {
    ObjectReader::open(Object::from_url(url)?, offset)
}

/// Returns the size of an object in bytes.
pub(crate) fn size(url: &Path) -> io::Result<u64> {
    Ok(Object::from_url(url)?.head()?.0)
}

/// Returns all objects whose names begin with the URL and a slash, with their sizes in bytes, sorted by name.
///
/// # Errors
/// Fails when the store returns an error; a plain web server does not support lists.
pub fn list(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let object = Object::from_url(folder)?;
    if object.is_web() {
        return Err(invalid("a web server cannot list its files: name each file"));
    }
    let Object { store, key, .. } = object.clone();
    let found = wait(async move { store.list(Some(&key)).try_collect::<Vec<_>>().await })?.map_err(failed)?;
    let mut found: Vec<_> =
        found.into_iter().map(|meta| (object.url_of(&meta.location), meta.size)).collect();
    // Sort by bytes, like the files of a folder: paths compare by component.
    found.sort_unstable_by(|(a, _), (b, _)| {
        a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes())
    });
    Ok(found)
}

/// Writes a small object and replaces an existing one.
///
/// # Errors
/// Fails when the store returns an error.
pub fn put(url: &Path, bytes: Vec<u8>) -> io::Result<()> {
    let Object { store, key, .. } = Object::from_url(url)?;
    wait(async move { store.put(&key, PutPayload::from(bytes)).await })?.map(|_| ()).map_err(failed)
}

/// Writes a small object atomically if it does not exist yet. Returns false if it exists.
///
/// # Errors
/// Fails when the store returns an error.
pub fn put_new(url: &Path, bytes: Vec<u8>) -> io::Result<bool> {
    let Object { store, key, .. } = Object::from_url(url)?;
    let only_new = PutOptions::from(PutMode::Create);
    let put = wait(async move { store.put_opts(&key, PutPayload::from(bytes), only_new).await })?;
    match put.map_err(failed) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes an object. Returns whether it existed, if the store reports that.
///
/// # Errors
/// Fails when the store returns an error.
pub fn remove(url: &Path) -> io::Result<bool> {
    let Object { store, key, .. } = Object::from_url(url)?;
    match wait(async move { store.delete(&key).await })?.map_err(failed) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Maximum number of attempts to upload a large file.
const MAX_UPLOADS: u32 = 3;

/// Uploads a file and replaces an existing object. A large file is uploaded in parts, which become visible with the
/// last one.
///
/// # Errors
/// Fails when the store or the disk returns an error. The parts are then removed, if the store can be reached.
pub fn upload(file: &Path, url: &Path) -> io::Result<()> {
    let object = Object::from_url(url)?;
    let mut file = File::open(file)?;
    let size = file.metadata()?.len();
    wait(async move {
        if size <= PART {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return object.store.put(&object.key, PutPayload::from(bytes)).await.map(|_| ()).map_err(failed);
        }
        for _ in 1..MAX_UPLOADS {
            match upload_parts(&object, &mut file, size).await?.finish().await.map_err(failed) {
                // When the answer to the last request is lost, the store rejects its repetition, because the upload is
                // complete.
                Err(error) if is_rejection(&error) => {}
                result => return result.map(|_| ()),
            }
        }
        upload_parts(&object, &mut file, size).await?.finish().await.map(|_| ()).map_err(failed)
    })?
}

/// Sends all parts of a file and returns the upload, which becomes visible when it is finished.
async fn upload_parts(object: &Object, file: &mut File, size: u64) -> io::Result<WriteMultipart> {
    let length = PART.max(size.div_ceil(MAX_PARTS));
    file.rewind()?;
    let upload = object.store.put_multipart(&object.key).await.map_err(failed)?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, length as usize);
    let mut sent = 0;
    let result = loop {
        let mut part = Vec::new();
        match file.take(length).read_to_end(&mut part) {
            Ok(0) if sent == size => break Ok(()),
            Ok(0) => break Err(io::Error::other("the file changed during the upload")),
            Ok(read) => sent += read as u64,
            Err(error) => break Err(error),
        }
        if let Err(error) = upload.wait_for_capacity(MAX_IN_FLIGHT).await {
            break Err(failed(error));
        }
        upload.put(part.into());
    };
    match result {
        Ok(()) => Ok(upload),
        Err(error) => {
            // This may fail, because the store may be unreachable. A lifecycle rule of the bucket can remove old parts
            // later.
            let _ = upload.abort().await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::objects::mount;

    fn rejection_of(url: &str) -> String {
        let error = size(Path::new(url)).unwrap_err();
        assert!(!is_transient(&error), "{url}");
        error.to_string()
    }

    #[test]
    fn objects_are_listed_in_file_order() {
        mount("s3://ordered", Arc::new(InMemory::new()));
        for name in ["a/x.txt", "a.txt", "a-2/x.txt"] {
            put(&Path::new("S3://ordered").join(name), vec![1]).unwrap();
        }
        let found = list(Path::new("s3://ordered")).unwrap();
        let found: Vec<_> = found.iter().map(|(url, _)| url.to_str().unwrap()).collect();
        assert_eq!(found, ["s3://ordered/a-2/x.txt", "s3://ordered/a.txt", "s3://ordered/a/x.txt"]);
    }

    #[test]
    fn buckets_are_not_objects() {
        mount("gs://empty", Arc::new(InMemory::new()));
        for url in ["gs://empty", "gs://empty/"] {
            assert_eq!(size(Path::new(url)).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn unsupported_urls_are_rejected() {
        assert!(rejection_of("hdfs://host/x").contains("hdfs:// is not supported; use s3://"));
        assert!(rejection_of("s3:///x").contains("has no bucket or host"));
        for url in [
            "https://user:SECRET@host/x",
            "s3://KEY:SECRET@b/x",
            "https://h/x?a=SECRET",
            "az://c/x?sig=SECRET",
        ] {
            let message = rejection_of(url);
            assert!(message.contains("contains credentials") && !message.contains("SECRET"), "{message}");
        }
    }
}
