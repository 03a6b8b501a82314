//! Passes the commit of the repository to the programs, for `--version`. An archive without `.git` has no commit.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=crates/cli/build.rs");
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    if let Some(commit) = commit(&root.join(".git")) {
        println!("cargo::rustc-env=BERT_COMMIT={commit}");
    }
}

/// Returns the commit that `HEAD` refers to. The script runs again when one of the files read here changes.
fn commit(git: &Path) -> Option<String> {
    // In a linked worktree, `.git` is a file with the path of the folder.
    let folder = match fs::read_to_string(git) {
        Ok(text) => git.parent()?.join(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => git.to_owned(),
    };
    let head = read(&folder.join("HEAD"))?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return Some(head.trim().to_owned()) };
    // Worktrees share the branches of the folder that `commondir` names.
    let shared =
        fs::read_to_string(folder.join("commondir")).map_or(folder.clone(), |to| folder.join(to.trim()));
    if let Some(commit) = read(&shared.join(name)) {
        return Some(commit.trim().to_owned());
    }
    let packed = read(&shared.join("packed-refs"))?;
    let commits = packed.lines().filter_map(|line| line.split_once(' '));
    commits.filter(|(_, packed)| *packed == name).map(|(commit, _)| commit.to_owned()).next()
}

/// Returns the text of a file, if it exists. A missing file is not watched, because cargo would run the script in every
/// build.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text)
}
