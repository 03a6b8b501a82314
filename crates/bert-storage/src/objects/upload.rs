//! Sends a file to a store: a small one at once, a large one in parts that become an object with the last request.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object_store::{ObjectStoreExt, PutPayload, WriteMultipart};

use super::{Object, failed, wait};

/// Bytes of a part, at least.
const PART: u64 = 16 << 20;
/// Parts that an object may have in S3 are 10,000.
const MOST_PARTS: u64 = 9_000;
/// Parts on their way at the same time.
const AT_ONCE: usize = 3;

pub(super) fn upload(path: &Path, object: Object) -> io::Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let length = PART.max(size.div_ceil(MOST_PARTS));
    wait(async move {
        if size <= PART {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return object.store.put(&object.key, PutPayload::from(bytes)).await.map(|_| ()).map_err(failed);
        }
        let upload = object.store.put_multipart(&object.key).await.map_err(failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, length as usize);
        let mut sent = 0;
        let result = loop {
            let mut part = Vec::new();
            match (&mut file).take(length).read_to_end(&mut part) {
                Ok(0) => break Ok(()),
                Ok(read) => sent += read as u64,
                Err(error) => break Err(error),
            }
            if let Err(error) = upload.wait_for_capacity(AT_ONCE).await {
                break Err(failed(error));
            }
            upload.put(part.into());
        };
        match result {
            Ok(()) if sent == size => upload.finish().await.map(|_| ()).map_err(failed),
            result => {
                // The store may be out of reach; most stores remove old parts by a rule of the bucket.
                let _ = upload.abort().await;
                result.and_then(|()| Err(io::Error::other("it changed while it was sent")))
            }
        }
    })
}
