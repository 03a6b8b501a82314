//! Checks that builds in an object store equal builds on a disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bert_data::{
    BuildConfig, DataSet, Manifest, build, build_part, merge_with_scratch, tokenize_part, verify,
};
use bert_storage::{ObjectCache, objects, open_stream};
use object_store::memory::InMemory;

use super::server::{SECRET, Server};
use crate::processes::{Cluster, Job};
use crate::text::{Text, digests};

/// Returns all objects below a URL.
pub fn all(url: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: &PathBuf| {
        let mut bytes = Vec::new();
        open_stream(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    let name = |path: &Path| path.strip_prefix(url).unwrap().to_str().unwrap().to_owned();
    objects::list(url).unwrap().iter().map(|(path, _)| (name(path), read(path))).collect()
}

/// Returns all files in a folder.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let entries = entries.filter(|entry| entry.file_type().unwrap().is_file());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Returns the build with input, vocabulary and output in a bucket, and uploads the text there.
pub fn in_bucket(text: &Text, bucket: &Path, config: BuildConfig) -> BuildConfig {
    for (name, bytes) in files_of_text(text) {
        objects::put(&bucket.join("text").join(name), bytes).unwrap();
    }
    let vocab = fs::read(text.path("vocab.txt")).unwrap();
    objects::put(&bucket.join("vocab.txt"), vocab).unwrap();
    BuildConfig {
        // The slash is needed because this server, which is only a folder, fails where others report a missing object.
        input: vec![bucket.join("text/")],
        vocab: Some(bucket.join("vocab.txt")),
        output: Some(bucket.join("data")),
        scratch: Some(text.path("scratch")),
        ..config
    }
}

fn files_of_text(text: &Text) -> BTreeMap<String, Vec<u8>> {
    let mut found = files(&text.path("."));
    found.retain(|name, _| name.starts_with("text-"));
    found
}

pub fn shards(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<&str, &[u8]> {
    let shards = files.iter().filter(|(name, _)| name.ends_with(".parquet"));
    shards.map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect()
}

/// Checks that a store and a disk have the same shards and nothing else, and manifests that differ only in input names.
pub fn assert_same(url: &Path, folder: &Path) {
    let (there, here) = (all(url), files(folder));
    assert_eq!(shards(&there), shards(&here));
    let mut names: Vec<_> = here.keys().filter(|name| !name.starts_with('.')).collect();
    names.sort();
    assert_eq!(there.keys().collect::<Vec<_>>(), names);
    let (mut there, here) = (Manifest::read(url).unwrap(), Manifest::read(folder).unwrap());
    for (there, here) in there.inputs.iter_mut().zip(&here.inputs) {
        there.path.clone_from(&here.path);
    }
    there.config.input.clone_from(&here.config.input);
    there.config.vocab.clone_from(&here.config.vocab);
    assert_eq!(there, here);
}

#[test]
fn object_store_build_equals_local_build() {
    let (server, text) = (Server::start(true), Text::new(4, 60));
    let bucket = server.bucket(server.address);
    build(&text.config("local"), &mut |_| {}).unwrap();
    let config = in_bucket(&text, &bucket, text.config("data"));
    // Hidden objects are not input text, like hidden files.
    objects::put(&bucket.join("text/.hidden/a"), b"not text".to_vec()).unwrap();
    let made = build(&config, &mut |_| {}).unwrap();
    assert_eq!(made.output, bucket.join("data"));
    assert_same(&bucket.join("data"), &text.path("local"));
    assert_eq!(fs::read_dir(text.path("scratch")).unwrap().count(), 0, "nothing is left on the disk");
    assert!(verify(&bucket.join("data"), true).unwrap().is_good());

    // Patterns and names of single objects select the same text.
    let memory = Path::new("gs://builds");
    objects::mount("gs://builds", Arc::new(InMemory::new()));
    in_bucket(&text, memory, text.config("data"));
    for input in [bucket.join("text/text-*.txt"), bucket.join("*/text-0?.txt"), memory.join("text")] {
        let input = vec![input];
        let config = BuildConfig { input, output: Some(text.path("from-store")), ..config.clone() };
        build(&config.with_overwrite(true), &mut |_| {}).unwrap();
        assert_eq!(digests(&text.path("from-store")), digests(&text.path("local")));
    }
    // Repeating the command does nothing; another build is refused.
    assert_eq!(build(&config, &mut |_| {}).unwrap().manifest.shards, made.manifest.shards);
    let error = build(&config.clone().with_random_seed(7), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("already holds a finished data set"), "{error}");
    let missing = BuildConfig { input: vec![bucket.join("none/")], ..config.clone() };
    assert_eq!(build(&missing, &mut |_| {}).unwrap_err().exit_code(), 2);

    // The key is not written anywhere.
    let everything = all(&bucket);
    assert!(everything.len() > 8);
    for (name, bytes) in everything {
        assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{name}");
    }
}

#[test]
fn object_cache_size_is_bounded() {
    let (server, text) = (Server::start(true), Text::new(4, 60));
    let bucket = server.bucket(server.address);
    let made = build(&in_bucket(&text, &bucket, text.config("data")), &mut |_| {}).unwrap();
    build(&text.config("local"), &mut |_| {}).unwrap();
    let here = DataSet::open(&text.path("local")).unwrap();
    let largest = made.manifest.shards.iter().map(|shard| shard.bytes).max().unwrap();
    let cache = ObjectCache::new(&text.path("cache"), 2 * largest);
    let there = DataSet::open(&bucket.join("data")).unwrap().with_cache(cache);
    let count = made.manifest.shards.len();
    for shard in (0..count).chain((0..count).rev()) {
        assert_eq!(there.read_rows(shard).unwrap(), here.read_rows(shard).unwrap());
        let kept: u64 = files(&text.path("cache")).values().map(|bytes| bytes.len() as u64).sum();
        assert!(kept <= 2 * largest, "{kept}");
    }
    // Cached objects need no store; objects that are not cached and have changed in the store are rejected.
    for (url, _) in objects::list(&bucket.join("data")).unwrap() {
        objects::put(&url, b"other".to_vec()).unwrap();
    }
    assert_eq!(there.read_rows(0).unwrap(), here.read_rows(0).unwrap());
    assert_eq!(there.read_rows(count - 1).unwrap_err().exit_code(), 3);
    let error = DataSet::open(&bucket.join("data")).unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
}

#[test]
fn parts_share_scratch_and_upload_shards() {
    let (server, text) = (Server::start(true), Text::new(6, 60));
    let bucket = server.bucket(server.address);
    build(&text.config("local"), &mut |_| {}).unwrap();
    let parts = in_bucket(&text, &bucket, text.config("data")).with_parts(3);
    let (scratch, output) = (text.path("scratch"), bucket.join("data"));
    for part in [3, 1, 2] {
        tokenize_part(&parts.clone().with_part(part), &mut |_| {}).unwrap();
    }
    for part in 1..=3 {
        let error = merge_with_scratch(&output, Some(&scratch), &mut |_| {}).unwrap_err();
        assert_eq!(error.exit_code(), 3, "{error}");
        assert!(!build_part(&parts.clone().with_part(part), &mut |_| {}).unwrap().was_finished);
        assert!(build_part(&parts.clone().with_part(part), &mut |_| {}).unwrap().was_finished);
    }
    assert!(!all(&output).contains_key("manifest.json"));
    let error = merge_with_scratch(&output, None, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("scratch"), "{error}");
    merge_with_scratch(&output, Some(&scratch), &mut |_| {}).unwrap();
    assert_same(&output, &text.path("local"));
    let alone = BuildConfig { scratch: None, ..parts.with_part(1).with_overwrite(true) };
    assert_eq!(build_part(&alone, &mut |_| {}).unwrap_err().exit_code(), 2);
}

#[test]
fn identical_builds_at_once_write_the_same_bytes() {
    let (server, text) = (Server::start(true), Text::new(3, 40));
    let bucket = server.bucket(server.address);
    build(&text.config("local"), &mut |_| {}).unwrap();
    let config = in_bucket(&text, &bucket, text.config("data"));
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| build_with_scratch(&text, "a", &config));
        (build_with_scratch(&text, "b", &config), first.join().unwrap())
    });
    for result in [&first, &second] {
        if let Err(error) = result {
            assert!(error.to_string().contains("finished data set"), "{error}");
        }
    }
    assert!(first.is_ok() || second.is_ok());
    assert_same(&bucket.join("data"), &text.path("local"));
}

/// Builds with temporary files in a folder of this name.
fn build_with_scratch(text: &Text, scratch: &str, config: &BuildConfig) -> Result<(), bert_data::Error> {
    build(&BuildConfig { scratch: Some(text.path(scratch)), ..config.clone() }, &mut |_| {}).map(|_| ())
}

#[test]
fn stopped_build_is_continued_or_replaced() {
    let (server, text) = (Server::start(true), Text::new(3, 40));
    let bucket = server.bucket(server.address);
    build(&text.config("local"), &mut |_| {}).unwrap();
    let output = Some(bucket.join("other"));
    let config = BuildConfig { output, ..in_bucket(&text, &bucket, text.config("data")) };
    let with = |scratch: &str, config: &BuildConfig| build_with_scratch(&text, scratch, config);
    // It is stopped after its first shard.
    let mut seen = 0;
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let config = BuildConfig { scratch: Some(text.path("c")), ..config.clone() };
        build(&config, &mut |progress| {
            seen += u64::from(progress.stage == bert_data::BuildStage::Instances);
            if seen == 4 {
                std::panic::resume_unwind(Box::new("stopped"));
            }
        })
    }));
    assert!(stopped.is_err(), "it was stopped");
    let left = all(&bucket.join("other"));
    assert!(left.contains_key(".build.json") && !left.contains_key("manifest.json"), "{:?}", left.keys());
    let changed = config.clone().with_random_seed(5);
    let error = with("d", &changed).unwrap_err();
    assert!(error.to_string().contains("another unfinished build"), "{error}");
    // The same command resumes, even on a machine with another disk.
    with("e", &config).unwrap();
    assert_same(&bucket.join("other"), &text.path("local"));
    // The data set may be replaced.
    build(&text.config("changed").with_random_seed(5).with_num_shards(3), &mut |_| {}).unwrap();
    with("f", &changed.with_num_shards(3).with_overwrite(true)).unwrap();
    assert_same(&bucket.join("other"), &text.path("changed"));
}

#[test]
fn executors_use_an_object_store() {
    let (server, text) = (Server::start(true), Text::new(5, 60));
    let bucket = server.bucket(server.address);
    build(&text.config("local"), &mut |_| {}).unwrap();
    let config = in_bucket(&text, &bucket, text.config("data"));
    let cluster = Cluster::start_with(2, server.environment());
    let (code, message) = Job::send_with(&cluster.engine(), &config, 6, server.environment()).end();
    assert_eq!(code, 0, "{message}");
    assert!(!message.contains(SECRET), "{message}");
    assert_same(&bucket.join("data"), &text.path("local"));
    // A wrong key is reported, but not printed.
    let mut environment = server.environment();
    environment[1].1 = "anotherSecret".to_owned();
    let (code, message) =
        Job::send_with("datafusion", &config.with_output(bucket.join("new")), 2, environment).end();
    assert!(
        code == 1 && message.contains("SignatureDoesNotMatch") && !message.contains("anotherSecret"),
        "{code}: {message}"
    );
}

#[test]
fn http_urls_are_read() {
    let (server, text) = (Server::start(false), Text::new(1, 60));
    fs::create_dir(server.folder.path().join("files")).unwrap();
    fs::copy(text.path("text-00.txt"), server.folder.path().join("files/text-00.txt")).unwrap();
    build(&text.config("local"), &mut |_| {}).unwrap();
    let at = |name: &str| PathBuf::from(format!("http://{}/files/{name}", server.address));
    let config = text.config("web");
    build(&BuildConfig { input: vec![at("text-00.txt")], ..config.clone() }, &mut |_| {}).unwrap();
    assert_eq!(digests(&text.path("web")), digests(&text.path("local")));
    for (input, code) in [("none.txt", 2), ("text-00.txt?signature=1", 1), ("", 1)] {
        let config =
            BuildConfig { input: vec![at(input)], output: Some(text.path("refused")), ..config.clone() };
        let error = build(&config, &mut |_| {}).unwrap_err();
        assert_eq!(error.exit_code(), code, "{input}: {error:?}");
    }
    // Output to a web server is refused.
    let output = Some(at("data"));
    assert!(build(&BuildConfig { output, scratch: Some(text.path("s")), ..config }, &mut |_| {}).is_err());
}
