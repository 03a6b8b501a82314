//! Tests objects and cached copies without a server.

use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bert_storage::objects::{is_transient, list, mount, put, put_new, remove, upload};
use bert_storage::{ObjectCache, digest_bytes, open_stream, open_stream_at, size};
use object_store::memory::InMemory;

#[test]
fn urls_map_to_buckets_and_keys() {
    mount("s3://urls", Arc::new(InMemory::new()));
    let url = Path::new("s3://urls/a/b c%20.txt");
    put(url, vec![1]).unwrap();
    assert_eq!(list(Path::new("s3://urls/a/")).unwrap(), [(url.to_owned(), 1)]);
    assert_eq!(list(Path::new("s3://urls")).unwrap(), [(url.to_owned(), 1)]);
    let refused = [
        "s3://",
        "s3:///a",
        "https://a.example/b?signature=1",
        "https://user:word@a.example/b",
        "s3://urls/a//b",
    ];
    for url in refused {
        assert_eq!(size(Path::new(url)).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{url}");
    }
}

#[test]
fn objects_are_read_listed_and_created_once() {
    mount("gs://once", Arc::new(InMemory::new()));
    let at = |name: &str| PathBuf::from(format!("gs://once/folder/{name}"));
    let bytes: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    put(&at("b"), bytes.clone()).unwrap();
    assert!(put_new(&at("a"), b"first".to_vec()).unwrap());
    assert!(!put_new(&at("a"), b"second".to_vec()).unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    upload(file.path(), &at("c/d")).unwrap();
    let listed = list(Path::new("gs://once/folder")).unwrap();
    assert_eq!(listed, [(at("a"), 5), (at("b"), 12_000_000), (at("c/d"), 12_000_000)]);
    for name in ["b", "c/d"] {
        for offset in [0, 1, 70_000, 11_999_999, 12_000_000] {
            let mut read = Vec::new();
            open_stream_at(&at(name), offset as u64).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == bytes[offset..], "from byte {offset}");
        }
    }
    assert!(remove(&at("a")).unwrap());
    let gone = size(&at("a")).unwrap_err();
    assert!(gone.kind() == io::ErrorKind::NotFound && !is_transient(&gone));
}

#[test]
fn object_changed_during_a_read_is_an_error() {
    mount("gs://changes", Arc::new(InMemory::new()));
    let url = Path::new("gs://changes/a");
    put(url, vec![1; 30 << 20]).unwrap();
    let mut reader = open_stream(url).unwrap();
    reader.read_exact(&mut [0; 10]).unwrap();
    put(url, vec![2; 30 << 20]).unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(is_transient(&error), "{error}");
}

fn cached_url(name: usize) -> PathBuf {
    PathBuf::from(format!("s3://cached/{name}"))
}

/// Uploads four objects of 100 bytes and returns their contents.
fn upload_four_objects() -> Vec<Vec<u8>> {
    mount("s3://cached", Arc::new(InMemory::new()));
    let contents: Vec<Vec<u8>> = (0..4).map(|name| vec![name as u8; 100]).collect();
    for (name, bytes) in contents.iter().enumerate() {
        put(&cached_url(name), bytes.clone()).unwrap();
    }
    contents
}

#[test]
fn cache_keeps_recently_used_copies() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("cache");
    let cache = ObjectCache::new(&at, 250);
    let (url, contents) = (cached_url, upload_four_objects());
    let open = |name: usize| {
        let mut read = Vec::new();
        let mut file = cache.open(&url(name), 100, &digest_bytes(&contents[name])).unwrap();
        file.rewind().unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(read == contents[name]);
    };
    let there = |name: usize| at.join(digest_bytes(&contents[name])).exists();
    let wait = || std::thread::sleep(Duration::from_millis(20));
    for name in [0, 1, 0, 2] {
        open(name);
        wait();
    }
    assert_eq!([0, 1, 2].map(there), [true, false, true], "the one used longest ago went");
    // Cached copies are read without a request to the store.
    remove(&url(0)).unwrap();
    open(0);
    // A truncated copy is fetched again.
    fs::write(at.join(digest_bytes(&contents[2])), b"2").unwrap();
    open(2);
    let error = cache.open(&url(3), 100, &digest_bytes(b"other")).unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    let error = cache.open(&url(3), 251, "0").unwrap_err();
    assert!(error.to_string().contains("cannot cache s3://cached/3"), "{error}");
    assert!(
        fs::read_dir(&at).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .as_encoded_bytes()
            .starts_with(b"."))
    );
}
