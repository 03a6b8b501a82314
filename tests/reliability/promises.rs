//! The tests that `docs/reliability.md` names.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the Rust files of the tests and the crates.
fn sources() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(ROOT).join("tests"), Path::new(ROOT).join("crates")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the test names of the table: the code spans with `::` in its rows.
fn named_tests(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| G"));
    let spans = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    spans.filter(|span| span.contains("::") && !span.starts_with("Fault::")).collect()
}

#[test]
fn tests_named_in_the_reliability_page_exist() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/reliability.md")).expect("the page");
    let sources: Vec<String> =
        sources().iter().map(|file| fs::read_to_string(file).expect("a source")).collect();
    let names: Vec<&str> = sources
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            line.trim_start().split_once("fn ").or_else(|| line.trim_start().split_once("mod "))
        })
        .map(|(_, rest)| rest.split(['(', '<', ';', ' ']).next().unwrap_or_default())
        .collect();
    let named = named_tests(&page);
    assert!(named.len() > 30, "{named:?}");
    for test in named {
        let parts: Vec<&str> = test.split("::").collect();
        let last = parts.last().expect("a name");
        // `module::*` is a module, and `module::begin_*` the tests that begin so.
        let exists = match last.split_once('*') {
            Some(("", "")) => names.contains(&parts[parts.len() - 2]),
            Some((start, end)) => names.iter().any(|name| name.starts_with(start) && name.ends_with(end)),
            None => names.contains(last),
        };
        assert!(exists, "docs/reliability.md names the test {test}, which does not exist");
    }
}
