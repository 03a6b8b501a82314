//! Collects the files below a folder: follows links, skips hidden names, rejects tables whose folder keeps deleted
//! rows.
//!
//! Finds the files that a pattern matches: `*`, `?` and `[...]` within a name, `**` for any folders.
//!
//! As in a shell, a name that begins with a dot matches only a pattern that begins with a dot. The same holds for `_`.
//! Names need not be UTF-8: invalid bytes match `?` and `*`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use glob::{Pattern, PatternError};

use crate::error::{Error, Result, no_input};

/// Files that Spark, Hive and dask write for their own use.
const MARKERS: [&str; 6] =
    ["_SUCCESS", "_metadata", "_common_metadata", "_temporary", "_spark_metadata", "_impala_insert_staging"];

/// The files found, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) found: Vec<PathBuf>,
    /// Whether the input is a folder, or a prefix of names in an object store.
    pub(crate) is_folder: bool,
    /// Skipped names that begin with `_`, except files that known programs write for their own use.
    pub(crate) left_out: Vec<PathBuf>,
    /// The real paths of the current folder and the folders that contain it.
    above: Vec<PathBuf>,
}

impl Walk {
    /// Collects the files below a folder.
    ///
    /// # Errors
    /// Fails when a folder is a table that keeps deleted rows, when a path is neither a file nor a folder, or when
    /// [`Walk::inside`] fails.
    pub(crate) fn collect(&mut self, folder: &Path) -> Result<()> {
        reject_table(folder)?;
        self.inside(folder, |walk, name, path| {
            if is_skipped(name) {
                walk.leave_out(name, path);
                return Ok(());
            }
            if is_folder(&path)? {
                return walk.collect(&path);
            }
            walk.found.push(path);
            Ok(())
        })
    }

    /// Records that a path is skipped, unless it is hidden or a marker.
    pub(super) fn leave_out(&mut self, name: &OsStr, path: PathBuf) {
        if name.as_encoded_bytes().starts_with(b"_") && !MARKERS.iter().any(|marker| name == *marker) {
            self.left_out.push(path);
        }
    }

    /// Visits the names in a folder and their paths.
    ///
    /// # Errors
    /// Fails when the folder is inside itself, when it cannot be read, or when `visit` fails.
    pub(super) fn inside(
        &mut self,
        folder: &Path,
        mut visit: impl FnMut(&mut Self, &OsStr, PathBuf) -> Result<()>,
    ) -> Result<()> {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let failed = || Error::io("read folder", here);
        let real = fs::canonicalize(here).map_err(failed())?;
        if self.above.contains(&real) {
            return Err(Error::usage(
                "this link points to a folder that contains it: remove the link, or name the folders to read",
            )
            .at(folder));
        }
        self.above.push(real);
        let entries = fs::read_dir(here).map_err(failed())?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>();
        let mut names = names.map_err(failed())?;
        // Sorted, so that the same problem is reported every time.
        names.sort_unstable();
        for name in names {
            visit(self, &name, folder.join(&name))?;
        }
        self.above.pop();
        Ok(())
    }
}

/// Returns whether a path is a folder and not a file; links are followed.
///
/// # Errors
/// Fails when the path does not exist, when a link points to nothing or to itself, when the path is neither a regular
/// file nor a folder, or when the system cannot tell.
pub(super) fn is_folder(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(true),
        Ok(metadata) if metadata.is_file() => Ok(false),
        Ok(_) => Err(Error::usage("this input is neither a regular file nor a folder").at(path)),
        // A link to itself counts as dangling.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) => {
            Err(Error::usage("this link points to a missing file: remove the link, or restore the file")
                .at(path))
        }
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                Err(no_input().at(path))
            }
            _ => Err(Error::io("read", path)(error)),
        },
    }
}

/// Returns whether a name in a folder is skipped, as by Spark and Hive: it begins with `.` or `_`. Partition folders
/// (`_year=2020`) are not skipped.
pub(super) fn is_skipped(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") || (name.starts_with(b"_") && !name.contains(&b'='))
}

/// Rejects the folder of a table that keeps files of deleted rows and lists the valid files in a log.
///
/// # Errors
/// Fails when the folder is a Delta, Hudi or Iceberg table.
pub(super) fn reject_table(folder: &Path) -> Result<()> {
    let is_folder = |name: &str| folder.join(name).is_dir();
    let is_iceberg = || {
        let entries = fs::read_dir(folder.join("metadata")).into_iter().flatten().flatten();
        is_folder("data")
            && entries.map(|entry| entry.file_name()).any(|name| is_iceberg_metadata(&name.to_string_lossy()))
    };
    match () {
        () if is_folder("_delta_log") => Err(table("a Delta table", folder)),
        () if is_folder(".hoodie") => Err(table("a Hudi table", folder)),
        () if is_iceberg() => Err(table("an Iceberg table", folder)),
        () => Ok(()),
    }
}

/// Returns whether a file in the folder `metadata` is written by Iceberg: `v1.metadata.json`,
/// `00000-....metadata.json`.
pub(super) fn is_iceberg_metadata(name: &str) -> bool {
    let Some(name) = name.strip_suffix(".metadata.json") else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix('v').is_some_and(digits)
        || name.split_once('-').is_some_and(|(number, _)| digits(number))
}

/// Returns the error for a table.
pub(super) fn table(format: &'static str, folder: &Path) -> Error {
    let advice = "its folder also holds the files of deleted rows. Export the rows that count to Parquet, as with \
                  DuckDB: COPY (SELECT * FROM delta_scan('TABLE')) TO 'text.parquet' (iceberg_scan for Iceberg)";
    Error::data(format!("this is {format}: {advice}")).at(folder)
}

/// Rejects files that were named or matched individually and belong to a table.
///
/// # Errors
/// Fails when a file is in the folder of a Delta, Hudi or Iceberg table.
pub(super) fn reject_files_of_tables(files: &[PathBuf]) -> Result<()> {
    let mut folders: Vec<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    folders.dedup();
    for folder in folders {
        // Look above partition folders (`year=2020`).
        let is_partition =
            |folder: &&Path| folder.file_name().is_some_and(|name| name.to_string_lossy().contains('='));
        let above = folder.ancestors().find(|folder| !is_partition(folder)).unwrap_or(folder);
        reject_table(above)?;
        // Iceberg keeps its files in `data`.
        if above.file_name().is_some_and(|name| name == "data") {
            reject_table(above.parent().unwrap_or(above))?;
        }
    }
    Ok(())
}

/// Returns the absolute path of a name that may not exist yet, with links resolved in the existing part.
pub(super) fn real_path(path: &Path) -> PathBuf {
    let path: Cow<'_, Path> = std::path::absolute(path).map_or(Cow::Borrowed(path), Cow::Owned);
    let existing = path.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)));
    let Some((part, real)) = existing else { return path.into_owned() };
    path.strip_prefix(part).map_or(real.clone(), |rest| real.join(rest))
}

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
        // If the pattern with plain brackets is invalid, only the result of the first attempt is reported.
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
    // `**` at the end matches all files below.
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
    match (rest.is_empty(), is_folder(&path)?) {
        (true, false) => walk.found.push(path),
        (false, true) => matching(&path, rest, walk)?,
        _ => {}
    }
    Ok(())
}

/// Returns whether a pattern begins with the same character as a name, such as the `_` for which the name would be
/// skipped.
pub(super) fn begins_alike(pattern: &str, name: &OsStr) -> bool {
    pattern.as_bytes().first() == name.as_encoded_bytes().first()
}
