//! Downloads: the selected files, their addresses, and how a cut download continues.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bert_hub::{Event, Hub, ModelName};
use bert_testing::hub::{COMMIT, HubReply, HubServer};

use crate::{ID, User, weights};

#[test]
fn only_needed_files_are_downloaded() {
    let large = weights();
    let files: [(&str, &[u8]); 6] = [
        ("config.json", b"{}"),
        ("vocab.txt", b"[PAD]\n"),
        ("1_Pooling/config.json", b"{\"a\": 1}"),
        ("modules.json", b"[]"),
        ("model.safetensors", &large),
        ("modeling.py", b"import os"),
    ];
    let server = HubServer::start(ID, &files);
    let user = User::new(&server.endpoint());
    let (model, events) = user.try_get(ID);
    let model = model.unwrap();
    assert_eq!(model.name.to_string(), format!("{ID}@{COMMIT}"));
    for (name, bytes) in &files[..5] {
        assert_eq!(fs::read(model.folder.join(name)).unwrap(), *bytes, "{name}");
    }
    assert!(!model.folder.join("modeling.py").exists());
    assert!(server.requests().iter().all(|request| !request.path.contains("modeling.py")));
    let total = files[..5].iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(events.last(), Some(&Event::Progress { done: total, total }));
}

#[test]
fn models_without_owner_and_revisions_are_found() {
    let server =
        HubServer::start("bert-base-uncased", &[("config.json", b"{}"), ("pytorch_model.bin", b"x")]);
    let user = User::new(&server.endpoint());
    let folder = user.get("bert-base-uncased@refs/pr/1").folder;
    assert!(folder.ends_with(format!("models--bert-base-uncased/snapshots/{COMMIT}")));
    let recorded = user.settings.cache.join("models--bert-base-uncased/refs/refs/pr/1");
    assert_eq!(fs::read_to_string(recorded).unwrap(), COMMIT);
    let (code, message) = user.refused("bert-base-uncased@v2");
    assert!(code == 4 && message.contains("no such version of the model"), "{message}");
}

#[test]
fn the_token_is_sent_to_the_hub_only() {
    let server = HubServer::start(ID, &[("config.json", b"{}"), ("model.safetensors", &weights())]);
    User::new(&server.endpoint()).with_token().get(ID);
    let requests = server.requests();
    let [storage, hub] =
        [true, false].map(|storage| requests.iter().filter(move |one| one.is_storage == storage));
    assert!(hub.clone().count() >= 5 && storage.clone().count() == 1);
    assert!(hub.clone().all(|request| request.headers["authorization"] == "Bearer hf_secret"));
    assert!(storage.clone().all(|request| !request.headers.contains_key("authorization")));
}

#[test]
fn cut_bodies_are_continued() {
    let large = weights();
    let server = HubServer::with_rule(
        ID,
        &[("config.json", b"{}"), ("model.safetensors", &large)],
        |request, usual, _| {
            let is_body = request.is_storage && usual.body.len() > 700_000;
            is_body.then(|| usual.clone().cut(700_000))
        },
    );
    let user = User::new(&server.endpoint());
    let (model, events) = user.try_get(ID);
    assert_eq!(fs::read(model.unwrap().folder.join("model.safetensors")).unwrap(), large);
    let starts: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.is_storage)
        .map(|request| request.headers.get("range").cloned().unwrap_or_default())
        .collect();
    assert_eq!(starts, ["", "bytes=700000-", "bytes=1400000-", "bytes=2100000-", "bytes=2800000-"]);
    let done = events
        .iter()
        .filter_map(|event| if let Event::Progress { done, .. } = event { Some(*done) } else { None });
    assert!(done.is_sorted(), "{events:?}");
    assert!(
        events.iter().any(
            |event| matches!(event, Event::Note(note) if note.contains("after 700000 of 3000000 bytes"))
        )
    );
}

#[test]
fn parts_of_killed_processes_are_continued() {
    let large = weights();
    let server = HubServer::start(ID, &[("config.json", b"{}"), ("model.safetensors", &large)]);
    let user = User::new(&server.endpoint());
    let part = user.blob(&large, ".incomplete");
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    fs::write(&part, &large[..2_000_000]).unwrap();
    let path = user.get(ID).folder.join("model.safetensors");
    assert_eq!(fs::read(&path).unwrap(), large);
    assert!(!part.exists());
    let requests = server.requests();
    let range =
        requests.iter().find(|request| request.is_storage).map(|request| request.headers["range"].as_str());
    assert_eq!(range, Some("bytes=2000000-"));
}

#[test]
fn servers_without_ranges_send_the_whole_file() {
    let large = weights();
    let whole = large.clone();
    let rule = move |request: &bert_testing::hub::HubRequest, _: &HubReply, earlier| {
        let reply = HubReply::new(200, whole.clone());
        request.is_storage.then(|| if earlier == 0 { reply.cut(1_500_000) } else { reply })
    };
    let server = HubServer::with_rule(ID, &[("config.json", b"{}"), ("model.safetensors", &large)], rule);
    let user = User::new(&server.endpoint());
    assert_eq!(fs::read(user.get(ID).folder.join("model.safetensors")).unwrap(), large);
}

#[test]
fn a_damaged_part_is_downloaded_as_a_whole() {
    let large = weights();
    let server = HubServer::start(ID, &[("config.json", b"{}"), ("model.safetensors", &large)]);
    for length in [2_000_000, large.len(), large.len() + 1] {
        let user = User::new(&server.endpoint());
        let part = user.blob(&large, ".incomplete");
        fs::create_dir_all(part.parent().unwrap()).unwrap();
        fs::write(&part, vec![0; length]).unwrap();
        let model = user.get(ID);
        assert_eq!(fs::read(model.folder.join("model.safetensors")).unwrap(), large);
    }
}

#[test]
fn several_processes_download_a_file_once() {
    let large = weights();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = HubServer::with_rule(
        ID,
        &[("config.json", b"{}"), ("model.safetensors", &large)],
        move |request, _, _| {
            if request.is_storage {
                count.fetch_add(1, Ordering::Relaxed);
                // The others are waiting by now.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            None
        },
    );
    let user = User::new(&server.endpoint());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let hub = Hub::new(user.settings.clone());
                let model = hub.model(&ModelName::parse(ID).unwrap(), &mut |_| {}).unwrap();
                assert_eq!(fs::read(model.folder.join("model.safetensors")).unwrap(), large);
            });
        }
    });
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}
