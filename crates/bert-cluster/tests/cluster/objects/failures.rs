//! Network failures cost only time. A network that stays down is reported as an error, and no data is lost.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bert_data::{DataSet, build, verify};
use bert_storage::{ObjectCache, objects, open_stream};

use super::builds::{all, assert_same, in_bucket};
use super::server::{Fate, Network, SECRET, Server};
use crate::text::Text;

#[test]
fn network_failures_do_not_change_the_output() {
    let (server, text) = (Server::start(true), Text::new(6, 200));
    build(&text.config("local"), &mut |_| {}).unwrap();
    let here = DataSet::open(&text.path("local")).unwrap();
    let mut bad_connections = 0;
    for seed in 1..=3 {
        let network = Network::bad(server.address, seed);
        let (good, bad) = (server.bucket(server.address), server.bucket(network.address));
        // The same bucket; its text is uploaded over the reliable connection.
        let (good_name, bad_name) = (good.to_str().unwrap(), bad.to_str().unwrap());
        let folder = |url: &str| server.folder.path().join(url.strip_prefix("s3://").unwrap());
        let config = in_bucket(&text, &good, text.config("data"));
        fs::remove_dir(folder(bad_name)).unwrap();
        std::os::unix::fs::symlink(folder(good_name), folder(bad_name)).unwrap();
        let there = |path: Option<std::path::PathBuf>| {
            path.map(|path| path.to_str().unwrap().replace(good_name, bad_name).into())
        };
        let config = bert_data::BuildConfig {
            input: vec![bad.join("text/")],
            vocab: there(config.vocab.clone()),
            output: there(config.output.clone()),
            ..config
        };
        build(&config, &mut |_| {}).unwrap();
        assert_same(&good.join("data"), &text.path("local"));
        let cache = ObjectCache::temporary(1 << 30).unwrap();
        let data = DataSet::open(&bad.join("data")).unwrap().with_cache(cache);
        for shard in 0..data.manifest().shards.len() {
            assert_eq!(data.read_rows(shard).unwrap(), here.read_rows(shard).unwrap());
        }
        bad_connections += network.bad.load(Ordering::Relaxed);
    }
    assert!(bad_connections > 20, "{bad_connections}");
}

#[test]
fn requests_without_a_response_are_repeated() {
    let server = Server::start(true);
    let network = Network::before(server.address, || Fate::Good);
    let bucket = server.bucket(network.address);
    let url = bucket.join("object");
    let requests: [&dyn Fn(); 4] = [
        &|| objects::put(&url, vec![7; 100]).unwrap(),
        &|| assert_eq!(objects::list(&bucket).unwrap(), [(url.clone(), 100)]),
        &|| {
            let mut bytes = Vec::new();
            open_stream(&url).unwrap().read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, [7; 100]);
        },
        &|| assert!(objects::remove(&url).unwrap()),
    ];
    let fates = (0..1000).step_by(25).map(Fate::Cut).chain([Fate::Silent]);
    for fate in fates {
        for request in requests {
            // The first connection of the request fails, the others work.
            let mut first = Some(fate);
            network.set(move || first.take().unwrap_or(Fate::Good));
            network.cut();
            request();
        }
    }
}

#[test]
fn build_resumes_after_the_store_returns() {
    let (server, text) = (Server::start(true), Text::new(4, 60));
    build(&text.config("local"), &mut |_| {}).unwrap();
    for away in [Fate::Refused, Fate::Error500, Fate::Silent] {
        let network = Network::before(server.address, || Fate::Good);
        let bucket = server.bucket(network.address);
        let config = in_bucket(&text, &bucket, text.config("data"));
        // The network fails after some shards.
        let (mut made, mut left) = (0, 0);
        let error = build(&config, &mut |progress| {
            if progress.stage == bert_data::BuildStage::Instances {
                made += 1;
                if made == 3 {
                    left = objects::list(&bucket.join("data")).unwrap().len();
                    network.set(move || away);
                    network.cut();
                }
            }
        });
        let start = Instant::now();
        let error = error.unwrap_err();
        assert_eq!(error.exit_code(), 75, "{away:?}: {error:?}");
        assert!(error.to_string().contains(bucket.to_str().unwrap()), "{error}");
        assert!(!format!("{error:?}").contains(SECRET));
        assert!(start.elapsed() < Duration::from_secs(30));
        network.set(|| Fate::Good);
        assert!(!all(&bucket.join("data")).contains_key("manifest.json"));
        assert!(objects::list(&bucket.join("data")).unwrap().len() >= left);
        let mut kept = false;
        build(&config, &mut |progress| kept |= progress.stage == bert_data::BuildStage::ReusedText).unwrap();
        assert!(kept, "the tokenized text was kept");
        assert_same(&bucket.join("data"), &text.path("local"));
    }
}

#[test]
fn unreachable_store_is_reported() {
    let (server, text) = (Server::start(true), Text::new(1, 5));
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let bucket = server.bucket(port);
    let start = Instant::now();
    let verified = verify(&bucket.join("data"), true).unwrap_err();
    let mut config = text.config("out");
    config.input = vec![bucket.join("text.txt")];
    let built = build(&config, &mut |_| {}).unwrap_err();
    for error in [verified, built] {
        assert_eq!(error.exit_code(), 75, "{error:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(40));
    assert!(!text.path("out").exists());
}

#[test]
fn large_uploads_are_atomic() {
    let (server, folder) = (Server::start(true), tempfile::tempdir().unwrap());
    let file = folder.path().join("large");
    let bytes: Vec<u8> = (0..10_000_000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &bytes).unwrap();
    let there = |bucket: &Path| {
        let bucket = bucket.to_str().unwrap().strip_prefix("s3://").unwrap();
        fs::read(server.folder.path().join(bucket).join("large")).unwrap()
    };
    // The network fails permanently while the parts are uploaded.
    for connections in [1, 2, 3] {
        let mut count = 0;
        let network = Network::before(server.address, move || {
            count += 1;
            if count <= connections { Fate::Cut(150) } else { Fate::Refused }
        });
        let bucket = server.bucket(network.address);
        let error = objects::upload(&file, &bucket.join("large")).unwrap_err();
        assert!(objects::is_transient(&error), "{error}");
        network.set(|| Fate::Good);
        assert!(objects::list(&bucket).unwrap().is_empty(), "nothing is visible");
        objects::upload(&file, &bucket.join("large")).unwrap();
        assert!(there(&bucket) == bytes);
    }
    // An unreliable network.
    let network = Network::bad(server.address, 9);
    let bucket = server.bucket(network.address);
    objects::upload(&file, &bucket.join("large")).unwrap();
    assert!(there(&bucket) == bytes);
}
