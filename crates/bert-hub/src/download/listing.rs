//! Lists the files of a data set that a path or a pattern selects.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use glob::{MatchOptions, Pattern};
use ureq::http::HeaderMap;

use crate::download::address::{escaped, next_page, without_query};
use crate::download::client::{Client, Failure, RemoteFile, TRIES, temporary};
use crate::error::Error;
use crate::event::Event;
use crate::name::Name;

/// Maximum number of pages of a list, which have up to a thousand files each.
const PAGES: usize = 2000;
/// Maximum number of names in a message.
const SHOWN: usize = 10;

/// Requests the list of the files that a name selects: a file, all files below a folder, or the matches of a pattern.
/// Files whose path has a part that begins with a dot are left out, unless the name has such a part.
///
/// # Errors
/// Fails when the pattern is invalid, when no file has the name or matches it, when the name of a file cannot be the
/// name of a file on a disk, or when a request fails.
pub(super) fn files_of_name(
    client: &Client<'_>,
    name: &Name,
    commit: &str,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<RemoteFile>, Error> {
    let path = &name.path;
    let folder = name.folder();
    let in_folder = path[folder.len()..].trim_start_matches('/');
    let is_deep = path.is_empty() || in_folder.contains('/') || in_folder.contains("**");
    let Tree { mut files, folders } = tree(client, commit, folder, is_deep, on_event)?;
    let mut there: Vec<String> = folders.iter().map(|folder| format!("{folder}/")).collect();
    there.extend(files.iter().map(|file| file.name.clone()));
    if folders.contains(path) {
        files = tree(client, commit, path, true, on_event)?.files;
    } else if files.iter().any(|file| file.name == *path) {
        files.retain(|file| file.name == *path);
    } else if !path.is_empty() {
        let pattern =
            Pattern::new(path).map_err(|error| name.refused(format!("invalid pattern: {error}")))?;
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        files.retain(|file| pattern.matches_with(&file.name, options));
    }
    let has_dot = |path: &str| path.split('/').any(|part| part.starts_with('.'));
    files.retain(|file| has_dot(path) || !has_dot(&file.name));
    if files.is_empty() {
        there.sort_unstable();
        let more = there.len().saturating_sub(SHOWN);
        there.truncate(SHOWN);
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        let there = if there.is_empty() { "nothing".to_string() } else { there.join(", ") };
        let there = bert_storage::visible(&there);
        return Err(name.refused(format!("no file has this name or matches it; there is {there}{more}")));
    }
    let is_relative =
        |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let is_usable = |name: &str| is_relative(name) && !name.contains(char::is_control);
    match files.iter().find(|file| !is_usable(&file.name)) {
        Some(file) => Err(name.refused(format!("the file {:?} has a name that no disk can keep", file.name))),
        None => Ok(files),
    }
}

/// Files and folders.
#[derive(Default)]
struct Tree {
    files: Vec<RemoteFile>,
    /// The paths of folders.
    folders: Vec<String>,
}

/// Requests all pages of the list of a folder's files and folders. With `is_deep`, the list includes all levels below
/// the folder.
fn tree(
    client: &Client<'_>,
    commit: &str,
    folder: &str,
    is_deep: bool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Tree, Error> {
    let folder = if folder.is_empty() { String::new() } else { format!("/{}", escaped(folder)) };
    let mut url = format!("{}/tree/{commit}{folder}?recursive={is_deep}", client.api());
    let mut tree = Tree::default();
    let mut asked = BTreeSet::new();
    while asked.len() < PAGES && asked.insert(url.clone()) {
        let (at, headers, page) =
            client.repeat(TRIES, on_event, |_| page(client, &url).map_err(|failure| (failure, false)))?;
        tree.files.extend(page.files);
        tree.folders.extend(page.folders);
        let link = headers.get("link").and_then(|link| link.to_str().ok());
        let Some(next) = link.and_then(next_page) else { return Ok(tree) };
        // A mirror may return the Hub's own URL here, so only the query of the URL is used.
        let query = next.split_once('?').map_or("", |(_, query)| query);
        url = format!("{}?{query}", without_query(&at));
    }
    let reason = format!("the list of the files begins again, or has more than {PAGES} pages");
    Err(Error::data(format!("{url}: {reason}")))
}

/// Requests one page of the list; also returns its last URL and its headers.
fn page(client: &Client<'_>, url: &str) -> Result<(String, HeaderMap, Tree), Failure> {
    let (url, headers, stated) = client.json(url.to_string())?;
    let invalid = || temporary(&url, "the answer does not list files");
    let mut tree = Tree::default();
    for entry in stated.as_array().ok_or_else(invalid)? {
        let name = entry["path"].as_str().ok_or_else(invalid)?.to_string();
        if entry["type"] == "directory" {
            tree.folders.push(name);
            continue;
        }
        let digest = entry["lfs"]["oid"].as_str().or(entry["oid"].as_str()).map(str::to_string);
        tree.files.push(RemoteFile::new(name, digest, entry["size"].as_u64()).ok_or_else(invalid)?);
    }
    Ok((url, headers, tree))
}
