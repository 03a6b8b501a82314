//! Files of data sets by their names.

use std::fs;
use std::path::{Path, PathBuf};

use bert_hub::{DataName, Error, Event, Hub, name_of_cached};
use bert_testing::hub::{COMMIT, HubReply, HubServer};

use crate::{User, weights};

const ID: &str = "datasets/owner/data";
const FILES: [(&str, &[u8]); 8] = [
    (".gitattributes", b"*"),
    ("README.md", b"# Data"),
    ("data/.hidden", b"x"),
    ("data/a 1.csv", b"text\none\n"),
    ("data/b.csv", b"text\ntwo\n"),
    ("data/de/c.csv", b"text\ndrei\n"),
    ("data/de/d\u{e9}.csv", b"text\nvier\n"),
    ("other.csv", b"text\nfive\n"),
];

fn try_data(user: &User, name: &str) -> (Result<PathBuf, Error>, Vec<Event>) {
    let mut events = Vec::new();
    let name = DataName::parse(&format!("hf://{ID}{name}")).unwrap();
    (Hub::new(user.settings.clone()).data(&name, &mut |event| events.push(event)), events)
}

fn data(user: &User, name: &str) -> PathBuf {
    let (data, events) = try_data(user, name);
    data.unwrap_or_else(|error| panic!("{error}, {events:?}"))
}

fn refused(user: &User, name: &str) -> (u8, String) {
    let error = try_data(user, name).0.unwrap_err();
    (error.exit_code(), error.to_string())
}

/// Returns the relative paths of the files in the folder of the commit.
fn cached(user: &User) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let snapshot = user.settings.cache.join("datasets--owner--data/snapshots").join(COMMIT);
    let mut found = Vec::new();
    walk(&snapshot, &mut found);
    let names = found.iter().map(|path| path.strip_prefix(&snapshot).unwrap().to_str().unwrap().to_string());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn files_folders_and_patterns_are_downloaded() {
    let server = HubServer::start(ID, &FILES);
    let csv = ["data/a 1.csv", "data/b.csv", "data/de/c.csv", "data/de/d\u{e9}.csv"];
    let all = ["README.md", csv[0], csv[1], csv[2], csv[3], "other.csv"];
    let cases: [(&str, &[&str]); 10] = [
        ("", &all),
        ("/data/a 1.csv", &csv[..1]),
        ("/data", &csv),
        ("/data/", &csv),
        ("/data/*.csv", &csv[..2]),
        ("/data/**/*.csv", &csv),
        ("/data/*/c.csv", &csv[2..3]),
        ("@refs%2Fconvert%2Fparquet/data/[ab]*", &csv[..2]),
        ("/*.csv", &["other.csv"]),
        ("/data/.hid*", &["data/.hidden"]),
    ];
    for (name, files) in cases {
        let user = User::new(&server.endpoint());
        let data = data(&user, name);
        assert_eq!(cached(&user), files, "{name}");
        let path = name.rsplit_once("parquet").map_or(name, |(_, path)| path).trim_end_matches('/');
        let path = if path.is_empty() { "/" } else { path };
        assert_eq!(name_of_cached(&data), Some(format!("hf://{ID}@{COMMIT}{path}")));
    }
    // Six files and folders are three pages, also with a link to another host.
    let pages = server.requests().into_iter().filter(|request| request.path.contains("cursor="));
    assert!(pages.count() >= 2);
}

#[test]
fn the_layout_of_data_is_the_hubs() {
    let user = User::new(&HubServer::start(ID, &FILES).endpoint());
    let data = data(&user, "/other.csv");
    let folder = user.settings.cache.join("datasets--owner--data");
    assert_eq!(data, folder.join("snapshots").join(COMMIT).join("other.csv"));
    assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    assert!(folder.join("blobs").join(HubServer::digest(b"text\nfive\n")).is_file());
}

#[test]
fn large_files_of_data_are_continued() {
    let large = weights();
    let server = HubServer::with_rule(ID, &[("x/big.txt", &large)], |request, usual, earlier| {
        (request.is_storage && earlier == 0).then(|| usual.clone().cut(1_500_000))
    });
    let user = User::new(&server.endpoint()).with_token();
    assert_eq!(fs::read(data(&user, "/x").join("big.txt")).unwrap(), large);
    let requests = server.requests();
    let storage: Vec<_> = requests.iter().filter(|request| request.is_storage).collect();
    assert!(storage.len() == 2 && storage[1].headers["range"] == "bytes=1500000-");
    assert!(storage.iter().all(|request| !request.headers.contains_key("authorization")));
}

#[test]
fn complete_data_needs_no_network() {
    let server = HubServer::start(ID, &FILES);
    let mut user = User::new(&server.endpoint());
    let pinned = format!("@{COMMIT}/data/*.csv");
    data(&user, &pinned);
    let requests = server.requests().len();
    data(&user, &pinned);
    assert_eq!(server.requests().len(), requests);
    // The branch is asked for its commit only.
    data(&user, "/data/*.csv");
    assert_eq!(server.requests().len(), requests + 1);
    user.settings.offline = true;
    assert_eq!(try_data(&user, "/data/*.csv").1, []);
    fs::remove_file(data(&user, "/data/b.csv")).unwrap();
    user.settings.offline = false;
    data(&user, &pinned);
    assert!(cached(&user).contains(&"data/b.csv".to_string()));
}

#[test]
fn parts_of_data_are_not_taken_for_all() {
    let server = HubServer::start(ID, &FILES);
    let mut user = User::new(&server.endpoint());
    data(&user, "/data/b.csv");
    // The Hub cannot be reached any more.
    user.settings.endpoint = "http://127.0.0.1:1".into();
    assert_eq!(data(&user, "/data/b.csv").file_name().unwrap(), "b.csv");
    assert_eq!(refused(&user, "/data").0, 75);
    // A user who forbids downloads has been told.
    user.settings.offline = true;
    for name in ["/data", "/data/*.csv"] {
        let (found, events) = try_data(&user, name);
        let [Event::Note(note)] = &events[..] else { panic!("{events:?}") };
        assert!(found.is_ok() && note.contains("does not tell whether it has all files"), "{note}");
    }
    let (code, message) = refused(&user, "/data/de/*.csv");
    assert!(code == 3 && message.contains("HF_HUB_OFFLINE forbids"), "{message}");
}

#[test]
fn names_without_files_say_what_there_is() {
    let server = HubServer::start(ID, &FILES);
    let user = User::new(&server.endpoint());
    let cases = [
        ("/data/*.parquet", "there is data/.hidden, data/a 1.csv, data/b.csv, data/de/"),
        ("/date", "there is .gitattributes, README.md, data/, other.csv"),
        ("/none/x.csv", "has no such file or folder of the data set"),
        ("@v9/data", "has no such version of the data set"),
        ("/data/a**", "invalid pattern"),
        ("/data/B.csv", "there is data/.hidden, data/a 1.csv, data/b.csv"),
        ("/data/*.CSV", "there is data/.hidden, data/a 1.csv, data/b.csv"),
    ];
    for (name, part) in cases {
        let (code, message) = refused(&user, name);
        assert!(code == 3 && message.contains(part), "{message}");
    }
    assert_eq!(cached(&user), [""; 0]);
}

#[test]
fn refusals_of_data_name_the_remedy() {
    let cases = [
        (403, "GatedRepo", "the data set is gated: accept its conditions at http://127.0.0.1", 3),
        (401, "RepoNotFound", "shows no such data set without a token", 3),
        (404, "RepoNotFound", "has no such data set;", 3),
        (500, "", "cannot be read: it answers 500", 75),
    ];
    for (status, error, part, exit) in cases {
        let server = HubServer::with_rule(ID, &FILES, move |_, _, _| {
            Some(HubReply::new(status, "{}").with("x-error-code", error))
        });
        let (code, message) = refused(&User::new(&server.endpoint()), "/data");
        assert!(code == exit && message.contains(part) && !message.contains("no folder"), "{message}");
    }
}

#[test]
fn cut_or_endless_lists_are_never_used() {
    let part = |body: &'static str, link: bool| {
        HubServer::with_rule(ID, &FILES, move |request, _, _| {
            let reply = HubReply::new(200, body);
            let link = if link { reply.clone().with("link", "</api/again>; rel=\"next\"") } else { reply };
            (request.path.contains("/tree/") || request.path == "/api/again").then_some(link)
        })
    };
    let file = r#"[{"type": "file", "path": "data/b.csv", "size": 1, "oid": "0123456789abcdef0123456789abcdef01234567"}]"#;
    let cases = [
        (part(&file[..60], false), 75, "does not list files"),
        (part("{}", false), 75, "does not list files"),
        (
            part(r#"[{"type": "file", "path": "data/b.csv", "size": 1, "oid": "../x"}]"#, false),
            75,
            "does not list",
        ),
        (part(file, true), 3, "begins again"),
    ];
    for (server, exit, part) in cases {
        let (code, message) = refused(&User::new(&server.endpoint()), "/data/*.csv");
        assert!(code == exit && message.contains(part), "{message}");
    }
    // A page that is cut once is asked for again.
    let server = HubServer::with_rule(ID, &FILES, |request, usual, earlier| {
        (request.path.contains("cursor=") && earlier == 0).then(|| usual.clone().cut(20))
    });
    let user = User::new(&server.endpoint());
    data(&user, "/data");
    assert_eq!(cached(&user).len(), 4);
}

#[test]
fn names_outside_the_data_set_are_refused() {
    let file = |name: &str| {
        format!(
            r#"[{{"type": "file", "path": {name:?}, "size": 1, "oid": "0123456789abcdef0123456789abcdef01234567"}}]"#
        )
    };
    for name in ["data/../../../x.csv", "/data/x.csv", "data/\n.csv"] {
        let list = file(name);
        let server = HubServer::with_rule(ID, &FILES, move |request, _, _| {
            request.path.contains("/tree/").then(|| HubReply::new(200, list.clone()))
        });
        let user = User::new(&server.endpoint());
        let (code, message) = refused(&user, "/**/*.csv");
        let has_reason = message.contains("no disk can keep") || message.contains("no file has this name");
        assert!(code == 3 && has_reason, "{message}");
        assert_eq!(cached(&user), [""; 0]);
    }
}
