//! Servers that refuse, break, redirect or lie.

use std::fs;
use std::time::{Duration, Instant};

use bert_hub::Event;
use bert_testing::hub::{HubReply, HubRequest, HubServer};

use crate::{ID, User, weights};

const FILES: [(&str, &[u8]); 2] = [("config.json", b"{}"), ("pytorch_model.bin", b"weights")];

/// Starts a server that answers every request alike.
fn always(status: u16, code: &'static str) -> HubServer {
    HubServer::with_rule(ID, &FILES, move |_, _, _| {
        Some(HubReply::new(status, "{}").with("x-error-code", code))
    })
}

#[test]
fn refusals_name_the_remedy() {
    let cases = [
        (401, "RepoNotFound", false, "shows no such model without a token; check the name, or set HF_TOKEN"),
        (401, "RepoNotFound", true, "refuses the token (HF_TOKEN)"),
        (403, "GatedRepo", false, "the model is gated: accept its conditions at http://127.0.0.1"),
        (401, "GatedRepo", true, "the model is gated"),
        (404, "RepoNotFound", true, "has no such model;"),
        (404, "RevisionNotFound", false, "no such version of the model"),
        (400, "", false, "answers 400"),
    ];
    for (status, code, has_token, part) in cases {
        let server = always(status, code);
        let user = User::new(&server.endpoint());
        let user = if has_token { user.with_token() } else { user };
        let (exit, message) = user.refused(ID);
        assert!(exit == 4 && message.contains(part) && message.starts_with(ID), "{status} {message}");
        assert_eq!(server.requests().len(), 1, "not repeated");
    }
}

#[test]
fn temporary_errors_are_repeated() {
    for status in [429, 500, 502, 503] {
        let server = HubServer::with_rule(ID, &FILES, move |_, _, earlier| {
            (earlier == 0).then(|| HubReply::new(status, "").with("retry-after", "0"))
        });
        let user = User::new(&server.endpoint());
        let (model, events) = user.try_get(ID);
        assert_eq!(fs::read(model.unwrap().folder.join("config.json")).unwrap(), b"{}");
        let notes =
            events.iter().filter(|event| matches!(event, Event::Note(note) if note.contains("tried again")));
        assert!(notes.count() >= 3, "{events:?}");
    }
    let server = always(500, "");
    let (code, message) = User::new(&server.endpoint()).refused(ID);
    assert!(code == 75 && message.contains("500"), "{message}");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn the_time_that_the_server_asks_for_is_kept() {
    let wait = |seconds: &'static str| {
        HubServer::with_rule(ID, &FILES, move |request, _, earlier| {
            let is_first = request.path.starts_with("/api/models") && earlier == 0;
            is_first.then(|| HubReply::new(429, "").with("retry-after", seconds))
        })
    };
    let begun = Instant::now();
    User::new(&wait("1").endpoint()).get(ID);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let begun = Instant::now();
    let (code, message) = User::new(&wait("3600").endpoint()).refused(ID);
    assert!(code == 75 && message.contains("wait 3600 s"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn silent_servers_end_at_the_time_limit() {
    let server = HubServer::with_rule(ID, &FILES, |request, usual, _| {
        request.path.starts_with("/api/models").then(|| usual.clone().cut(10).stalled())
    });
    let begun = Instant::now();
    let (code, message) = User::new(&server.endpoint()).refused(ID);
    assert_eq!(code, 75, "{message}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    // A transfer that stops in the middle continues with another connection.
    let large = weights();
    let files: [(&str, &[u8]); 2] = [("config.json", b"{}"), ("model.safetensors", &large)];
    let server = HubServer::with_rule(ID, &files, |request, usual, earlier| {
        (request.is_storage && earlier == 0).then(|| usual.clone().cut(1_000_000).stalled())
    });
    let user = User::new(&server.endpoint());
    assert_eq!(fs::read(user.get(ID).folder.join("model.safetensors")).unwrap(), large);
}

#[test]
fn wrong_digests_are_found_and_nothing_is_kept() {
    let large = weights();
    let files: [(&str, &[u8]); 2] = [("config.json", b"{}"), ("model.safetensors", &large)];
    for (storage, name) in [(true, "model.safetensors"), (false, "config.json")] {
        let server = HubServer::with_rule(ID, &files, move |request, usual, _| {
            let mut reply = usual.clone();
            *reply.body.last_mut()? ^= 1;
            let is_file = request.path.ends_with("config.json") || request.is_storage;
            (is_file && request.is_storage == storage && request.method == "GET").then_some(reply)
        });
        let user = User::new(&server.endpoint());
        let (code, message) = user.refused(ID);
        assert!(code == 4 && message.contains(name) && message.contains("is damaged"), "{message}");
        let bytes = if storage { &large[..] } else { b"{}" };
        assert!(!user.blob(bytes, "").exists());
        assert_eq!(fs::metadata(user.blob(bytes, ".incomplete")).unwrap().len(), 0);
        user.refused(ID);
    }
}

#[test]
fn redirects_are_followed_within_limits() {
    let to = |location: Option<&'static str>| {
        HubServer::with_rule(ID, &FILES, move |request, _, _| {
            let reply = HubReply::new(302, "");
            let reply = location.map_or(reply.clone(), |location| reply.with("location", location));
            request.path.starts_with("/api/models").then_some(reply)
        })
    };
    for (location, part) in
        [(None, "a redirect without address"), (Some("/api/models/x"), "more than 10 redirects")]
    {
        let (code, message) = User::new(&to(location).endpoint()).refused(ID);
        assert!(code == 75 && message.contains(part), "{message}");
    }
    // A model that has another name now.
    let renamed = HubServer::with_rule("new/name", &FILES, |request, _, _| {
        let rest = request.path.split_once(ID)?;
        Some(HubReply::new(307, "").with("location", format!("{}new/name{}", rest.0, rest.1)))
    });
    let user = User::new(&renamed.endpoint());
    assert!(user.get(ID).folder.starts_with(user.settings.cache.join("models--owner--model")));
}

#[test]
fn expired_addresses_are_asked_for_again() {
    let files: [(&str, &[u8]); 2] = [("config.json", b"{}"), ("model.safetensors", &weights())];
    let server = HubServer::with_rule(ID, &files, |request: &HubRequest, _, earlier| {
        (request.is_storage && earlier == 0).then(|| HubReply::new(403, "expired"))
    });
    User::new(&server.endpoint()).with_token().get(ID);
}

#[test]
fn answers_that_are_not_of_a_hub_are_refused() {
    let answers = ["", "<html>", "[]", r#"{"sha": "../../x", "siblings": []}"#, r#"{"sha": 1}"#];
    for answer in answers {
        let server = HubServer::with_rule(ID, &FILES, move |_, _, _| Some(HubReply::new(200, answer)));
        let (code, message) = User::new(&server.endpoint()).refused(ID);
        assert!(code == 75 && message.contains("does not describe a model"), "{message}");
    }
    // Without a digest nothing could be checked.
    for etag in ["", "\"abc\"", "../../../x"] {
        let server = HubServer::with_rule(ID, &FILES, move |request, usual, _| {
            let reply = HubReply { headers: vec![("etag", etag.to_string())], ..usual.clone() };
            request.path.starts_with("/cached").then_some(reply)
        });
        let (code, message) = User::new(&server.endpoint()).refused(ID);
        assert!(code == 75 && message.contains("no digest"), "{message}");
    }
}

#[test]
fn models_without_readable_files_are_refused() {
    let server = HubServer::start(ID, &[("config.json", b"{}"), ("tf_model.h5", b"x"), ("../../x", b"x")]);
    let user = User::new(&server.endpoint());
    let (code, message) = user.refused(ID);
    assert!(code == 4 && message.contains("it has tf_model.h5"), "{message}");
    assert!(!user.settings.cache.exists());
}

#[test]
fn bodies_longer_than_stated_are_refused() {
    let server = HubServer::with_rule(ID, &FILES, |request, usual, _| {
        let longer = HubReply { body: b"{} and more".to_vec(), sent: 11, ..usual.clone() };
        (request.path.starts_with("/cached/config") && request.method == "GET").then_some(longer)
    });
    let (code, message) = User::new(&server.endpoint()).refused(ID);
    assert!(code == 75 && message.contains("too many bytes"), "{message}");
}
