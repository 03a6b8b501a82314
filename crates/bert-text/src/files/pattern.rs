//! Finds the files that a pattern matches: `*`, `?` and `[...]` within a name, `**` for any folders.
//!
//! As in a shell, a name that begins with a dot matches only a pattern that begins with a dot. The same holds for `_`.
//! Names need not be UTF-8: invalid bytes match `?` and `*`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use glob::{Pattern, PatternError};

use crate::error::{Error, Result};
use crate::files::walk::{Kind, Walk, is_skipped, kind};

/// Returns whether a path contains pattern characters.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the pattern with its brackets escaped.
fn with_plain_brackets(pattern: &str) -> String {
    pattern.chars().map(|char| if "[]".contains(char) { format!("[{char}]") } else { char.into() }).collect()
}

/// Collects the files that a pattern matches. If it matches none, its brackets are taken literally.
///
/// # Errors
/// Fails when the pattern is invalid or matches no file, or when a folder or a matching path cannot be read.
pub(super) fn collect(pattern: &str, walk: &mut Walk) -> Result<()> {
    let found = collect_as_it_is(pattern, walk)?;
    if walk.found.is_empty() && pattern.contains('[') {
        // An error is reported from the first attempt only.
        let _ = collect_as_it_is(&with_plain_brackets(pattern), walk)?;
    }
    match found {
        _ if !walk.found.is_empty() => Ok(()),
        Err(source) => Err(Error::usage("this input pattern is not valid").because(source).at(pattern)),
        Ok(()) => Err(Error::usage("this input pattern matches no file").at(pattern)),
    }
}

fn collect_as_it_is(pattern: &str, walk: &mut Walk) -> Result<Result<(), PatternError>> {
    let mut start = PathBuf::new();
    let mut parts = Vec::new();
    for component in Path::new(pattern).components() {
        match component {
            Component::Normal(part) => match Part::of(&part.to_string_lossy()) {
                Ok(part) => parts.push(part),
                Err(error) => return Ok(Err(error)),
            },
            Component::CurDir => {}
            Component::ParentDir if !parts.is_empty() => parts.push(Part::Name("..".to_owned())),
            other => start.push(other),
        }
    }
    // `**` at the end stands for all files below.
    if let Some(Part::Folders) = parts.last() {
        parts.push(Part::Pattern(Pattern::new("*").expect("a pattern")));
    }
    matching(&start, &parts, walk).map(Ok)
}

/// The part of a pattern between two slashes.
enum Part {
    /// A name without special characters.
    Name(String),
    Pattern(Pattern),
    /// `**`: this folder and all folders below it.
    Folders,
}

impl Part {
    fn of(part: &str) -> Result<Self, PatternError> {
        Ok(match part {
            "**" => Self::Folders,
            part if is_pattern(part) => Self::Pattern(Pattern::new(part)?),
            part => Self::Name(part.to_owned()),
        })
    }
}

/// Collects the matches below a folder.
fn matching(folder: &Path, parts: &[Part], walk: &mut Walk) -> Result<()> {
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    // An existing name is used literally.
    let name = match part {
        Part::Name(name) => Some(name.as_str()),
        Part::Pattern(pattern) => Some(pattern.as_str()),
        Part::Folders => None,
    };
    let exists = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    if let Some(path) = name.map(|name| folder.join(name)).filter(exists) {
        return take(path, rest, walk);
    }
    let pattern = match part {
        Part::Name(_) => return Ok(()),
        Part::Pattern(pattern) => Some(pattern),
        Part::Folders => None,
    };
    if !folder.as_os_str().is_empty() && !folder.is_dir() {
        return Ok(());
    }
    if pattern.is_none() {
        matching(folder, rest, walk)?;
    }
    walk.inside(folder, |walk, name, path| match pattern {
        Some(pattern) if !pattern.matches(&name.to_string_lossy()) => Ok(()),
        Some(pattern) if is_skipped(name) && !begins_alike(pattern.as_str(), name) => {
            walk.leave_out(name, path);
            Ok(())
        }
        Some(_) => take(path, rest, walk),
        None if path.is_dir() && !is_skipped(name) => matching(&path, parts, walk),
        None => Ok(()),
    })
}

/// Adds a path that matches so far: collects a file, or continues in a folder.
fn take(path: PathBuf, rest: &[Part], walk: &mut Walk) -> Result<()> {
    match (rest.is_empty(), kind(&path)?) {
        (true, Kind::File) => walk.found.push(path),
        (false, Kind::Folder) => matching(&path, rest, walk)?,
        _ => {}
    }
    Ok(())
}

/// Returns whether a pattern explicitly begins with the character for which a name would be skipped.
pub(super) fn begins_alike(pattern: &str, name: &OsStr) -> bool {
    pattern.as_bytes().first() == name.as_encoded_bytes().first()
}
