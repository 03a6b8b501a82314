//! Lists the files that inputs name: paths, folders, patterns and URLs.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bert_storage::objects;
use bert_storage::sealed::LARGEST;
use bert_storage::{is_url, on_disk, size};

use crate::error::{Error, InputError, InputProblem, Locate, Result};

/// Bytes of the entry of a file in a manifest, beside its name.
const ENTRY: u64 = 224;
/// What else a manifest may have.
const REST: u64 = 32 << 20;

/// Refuses more files than a manifest can name; returns the bytes of their list in it.
pub(crate) fn refuse_too_many(files: usize, bytes_of_names: u64) -> Result<u64> {
    let bytes = bytes_of_names + ENTRY * files as u64;
    if bytes > LARGEST - REST { Err(InputError::TooMany { files }.into()) } else { Ok(bytes) }
}

/// Finds the files that the inputs name: each argument's files in bytewise order, arguments in their own order.
///
/// A folder means all regular files below it that are not hidden. An existing path is never read as a pattern. A URL
/// means an object, or all objects below its name.
///
/// # Errors
/// [`Error::Input`], naming the argument; [`Error::Storage`] when a folder cannot be read.
pub fn expand(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if inputs.is_empty() {
        return Err(InputError::NoneNamed.into());
    }
    let found = inputs.iter().map(|input| expand_one(input)).collect::<Result<Vec<_>>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// The first file that is named more than once, if any.
#[must_use]
pub fn first_duplicate(files: &[PathBuf]) -> Option<&PathBuf> {
    let mut seen = HashSet::new();
    files.iter().find(|file| !seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf())))
}

fn expand_one(input: &Path) -> Result<Vec<PathBuf>> {
    if is_url(input) {
        return expand_url(input);
    }
    let input = &*on_disk(input);
    if let Ok(metadata) = fs::metadata(input) {
        if metadata.is_dir() {
            let mut found = Vec::new();
            walk(input, &mut found)?;
            return some(sorted(found), InputProblem::FolderEmpty, input);
        }
        if metadata.is_file() {
            return Ok(vec![input.to_owned()]);
        }
        return Err(InputProblem::NotAFile.at(input).into());
    }
    match input.to_str() {
        Some(pattern) if pattern.contains(['*', '?', '[']) => expand_pattern(pattern),
        _ => Err(InputProblem::Missing.at(input).into()),
    }
}

/// The objects that a URL names: one, those below a name as below a folder, or those that match a pattern.
fn expand_url(url: &Path) -> Result<Vec<PathBuf>> {
    let failed = || Error::io("read", url);
    let list = |folder: &Path| {
        let found = objects::list(folder).map_err(failed())?;
        Ok::<_, Error>(found.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(name, _)| name))
    };
    let text = url.to_str().unwrap_or_default();
    let is_web = text.starts_with("http");
    if let (false, Some(at)) = (is_web, text.find(['*', '?', '['])) {
        let pattern =
            glob::Pattern::new(text).map_err(|source| InputProblem::InvalidPattern(source).at(url))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        let folder = text[..at].rsplit_once('/').map_or("", |(folder, _)| folder);
        let found = list(Path::new(folder))?.filter(|name| pattern.matches_path_with(name, options));
        return some(found.collect(), InputProblem::PatternMatchesNothing, url);
    }
    if !text.ends_with('/') {
        match size(url) {
            Ok(_) => return Ok(vec![url.to_owned()]),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            Err(_) if is_web => return Err(InputProblem::Missing.at(url).into()),
            Err(_) => {}
        }
    }
    let below = |name: &Path| name.strip_prefix(url).is_ok_and(|name| !name.iter().any(is_hidden));
    some(list(url)?.filter(|name| below(name)).collect(), InputProblem::Missing, url)
}

fn expand_pattern(pattern: &str) -> Result<Vec<PathBuf>> {
    let paths = glob::glob(pattern).map_err(|source| InputProblem::InvalidPattern(source).at(pattern))?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|error| {
            let path = error.path().to_owned();
            Error::io("read", &path)(error.into())
        })?;
        if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.push(path);
        }
    }
    some(sorted(found), InputProblem::PatternMatchesNothing, pattern.as_ref())
}

/// What was found, unless that is nothing.
fn some(found: Vec<PathBuf>, or: InputProblem, input: &Path) -> Result<Vec<PathBuf>> {
    if found.is_empty() { Err(or.at(input).into()) } else { Ok(found) }
}

/// Collects the files below a folder. Linked folders are not followed, so that a loop of links ends.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        if is_hidden(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("read", &path))?;
        if kind.is_dir() {
            walk(&path, found)?;
        } else if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    paths
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::input::{Format, InputEntry};

    /// What a manifest with as many inputs as are accepted takes: the entries as they are written.
    #[test]
    fn as_many_inputs_are_accepted_as_a_manifest_can_name() {
        let entry = |path: &str| InputEntry {
            path: path.to_owned(),
            bytes: u64::from(u32::MAX),
            format: Format::Parquet,
            lines: u64::from(u32::MAX),
            blake3: "0".repeat(64),
        };
        #[derive(Serialize)]
        struct Inputs {
            inputs: Vec<InputEntry>,
        }
        let path = "text/0000001.txt";
        let of =
            |files| serde_json::to_string_pretty(&Inputs { inputs: vec![entry(path); files] }).unwrap().len();
        let each = (of(1001) - of(1)) as u64 / 1000;
        assert!((ENTRY - 30..=ENTRY).contains(&(each - path.len() as u64)), "{each} bytes an entry");
        let most = ((LARGEST - REST) / (ENTRY + path.len() as u64)) as usize;
        assert!(most > 900_000, "{most}");
        refuse_too_many(most, (most * path.len()) as u64).unwrap();
        let error = refuse_too_many(most + 1, ((most + 1) * path.len()) as u64).unwrap_err();
        assert!(error.to_string().contains("join them") && error.exit_code() == 2, "{error}");
    }
}
