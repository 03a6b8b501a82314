//! The cache: its layout, and models without a network.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bert_hub::{Event, snapshot};
use bert_testing::hub::{COMMIT, HubReply, HubServer};

use crate::{ID, User, weights};

fn server() -> HubServer {
    HubServer::start(ID, &[("config.json", b"{}"), ("model.safetensors", &weights())])
}

#[cfg(unix)]
#[test]
fn the_layout_is_the_one_of_the_hub() {
    let user = User::new(&server().endpoint());
    let folder = user.get(ID).folder;
    let model = user.settings.cache.join("models--owner--model");
    assert_eq!(folder, model.join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(model.join("refs/main")).unwrap(), COMMIT);
    let link = fs::read_link(folder.join("config.json")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(HubServer::digest(b"{}")));
    assert_eq!(snapshot(&model), Some(folder));
    // Relative links survive a move of the cache.
    let moved = user.folder.path().join("moved");
    fs::rename(&user.settings.cache, &moved).unwrap();
    assert!(moved.join("models--owner--model/snapshots").join(COMMIT).join("model.safetensors").is_file());
}

#[test]
fn complete_commits_need_no_network() {
    let server = server();
    let user = User::new(&server.endpoint());
    let model = user.get(ID);
    let requests = server.requests().len();
    assert_eq!(user.get(&model.name.to_string()), model);
    assert_eq!(server.requests().len(), requests);
    // A branch may have moved, so the Hub is asked for its commit, and for nothing else.
    assert_eq!(user.get(ID), model);
    assert_eq!(server.requests().len(), requests + 1);
    // Removed files are downloaded again.
    fs::remove_file(model.folder.join("config.json")).unwrap();
    user.get(&model.name.to_string());
    assert!(model.folder.join("config.json").is_file());
}

#[test]
fn cached_models_work_without_a_network() {
    let server = server();
    let mut user = User::new(&server.endpoint());
    let model = user.get(ID);
    let requests = server.requests().len();
    user.settings.offline = true;
    assert_eq!(user.get(ID), model);
    assert_eq!(server.requests().len(), requests);
    let (code, message) = user.refused("owner/other");
    assert!(code == 4 && message.contains("HF_HUB_OFFLINE"), "{message}");
    user.settings.offline = false;
    user.settings.endpoint = "http://127.0.0.1:1".into();
    let (found, events) = user.try_get(ID);
    assert_eq!(found.unwrap(), model);
    let [Event::Note(note)] = &events[..] else { panic!("{events:?}") };
    assert!(note.contains("in the cache, 0123"), "{note}");
    // The process does not wait for this address again.
    let (found, events) = user.try_get(ID);
    assert_eq!((found.unwrap(), events), (model, Vec::new()));
    let (code, message) = user.refused("owner/other");
    assert!(code == 75 && message.contains("or give a folder"), "{message}");
}

#[test]
fn snapshots_of_other_programs_are_completed() {
    let server = server();
    let mut user = User::new(&server.endpoint());
    let model = user.settings.cache.join("models--owner--model");
    let folder = model.join("snapshots").join(COMMIT);
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir(model.join("refs")).unwrap();
    fs::write(model.join("refs/main"), COMMIT).unwrap();
    fs::write(folder.join("config.json"), "{}").unwrap();
    user.settings.offline = true;
    let (code, message) = user.refused(ID);
    assert!(code == 4 && message.contains("not in the cache"), "{message}");
    user.settings.offline = false;
    user.get(ID);
    let requests = server.requests();
    assert!(!requests.iter().any(|request| request.path.ends_with("config.json")), "{requests:?}");
    // As huggingface_hub leaves it: no list of ours.
    fs::remove_dir_all(model.join(".bert")).unwrap();
    user.settings.offline = true;
    assert_eq!(user.get(ID).folder, folder);
}

#[test]
fn an_unfinished_version_leaves_the_earlier_one() {
    const NEW: &str = "ffffffffffffffffffffffffffffffffffffffff";
    let user = User::new(&server().endpoint());
    let old = user.get(ID);
    let moved = HubServer::with_rule(ID, &[("config.json", b"{}")], |request, _, _| {
        let description = format!(
            r#"{{"sha": "{NEW}", "siblings": [{{"rfilename": "config.json"}}, {{"rfilename": "model.safetensors"}}]}}"#
        );
        Some(if request.path.starts_with("/api/models") {
            HubReply::new(200, description)
        } else {
            HubReply::new(500, "")
        })
    });
    let mut later = User::new(&moved.endpoint());
    later.settings.cache.clone_from(&user.settings.cache);
    let (found, events) = later.try_get(ID);
    assert_eq!(found.unwrap(), old, "{events:?}");
}

#[test]
fn abandoned_locks_end_the_wait() {
    let mut user = User::new(&server().endpoint());
    let lock =
        user.settings.cache.join(".locks/models--owner--model").join(HubServer::digest(b"{}") + ".lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let file = fs::File::create(&lock).unwrap();
    file.lock().unwrap();
    user.settings.timeout = Duration::from_millis(20);
    let (found, events) = user.try_get(ID);
    let error = found.unwrap_err();
    assert_eq!(error.exit_code(), 75);
    assert!(error.to_string().contains(lock.to_str().unwrap()), "{error}");
    assert!(
        events.iter().any(|event| matches!(event, Event::Note(note) if note.contains("another process")))
    );
}
