//! Lists the files named by the inputs: paths, folders, patterns and URLs.

mod walk;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use bert_hub::name_of_cached;
use bert_storage::checksummed_json::MAX_BYTES;
use bert_storage::{Class, if_found, is_url, objects, on_disk, shown, size, with_lower_scheme};
use glob::{MatchOptions, Pattern};

use crate::each_file;
use crate::error::{Error, Result, no_input};
use crate::files::walk::{
    Walk, begins_alike, is_folder, is_iceberg_metadata, is_pattern, is_skipped, real_path,
    reject_files_of_tables, table,
};
use crate::reading::TEXT_COLUMN;
use crate::recognize::has_table_name;
use crate::table::InputReader;

/// Size in bytes of a file's entry in a manifest, excluding its name.
const ENTRY: u64 = 224;
/// Maximum size in bytes of a manifest without the entries of its files.
const REST: u64 = 32 << 20;

/// Rejects more files than a manifest can list; returns the size of their list in bytes.
pub fn reject_too_many(files: usize, bytes_of_names: u64) -> Result<u64> {
    let bytes = bytes_of_names + ENTRY * files as u64;
    if bytes > MAX_BYTES - REST {
        Err(Error::usage(format!(
            "{files} input files: the list of their names and digests is too long for a manifest; join them into \
             fewer files (text with a blank line between documents, JSON Lines or Parquet), which are also read \
             faster"
        )))
    } else {
        Ok(bytes)
    }
}

/// Finds the files named by the inputs. The arguments keep their order; the files of each argument are in bytewise
/// order.
///
/// A folder means all files below it whose names do not begin with `.` or `_`; links are followed. An existing
/// name is used literally, never as a pattern or a list; an argument that does not exist is read as a comma-separated
/// list of names. A URL stands for an object, or for all objects below its name.
///
/// # Errors
/// Fails when the list is empty, when an input names no file or belongs to a table that keeps deleted rows, or when a
/// folder cannot be read; the error names the path.
pub fn expand(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    Ok(find(inputs)?.into_iter().flat_map(|walk| walk.found).collect())
}

/// Finds the files of each argument.
fn find(inputs: &[PathBuf]) -> Result<Vec<Walk>> {
    if inputs.is_empty() {
        return Err(Error::usage("no input: name at least one file, folder or pattern"));
    }
    let find_one = |input: PathBuf| {
        let mut walk = Walk::default();
        expand_one(&input, &mut walk)?;
        walk.found.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
        // `**` may reach a file in more than one way.
        walk.found.dedup();
        Ok(walk)
    };
    split_lists(inputs).into_iter().map(find_one).collect()
}

/// Finds the files to read, and the tables that are skipped. With the default `text_column`, these are the CSV and TSV
/// files of a folder that do not have this column, unless all files of the folder are such tables.
fn find_texts(inputs: &[PathBuf], text_column: &str) -> Result<[Vec<PathBuf>; 2]> {
    let [mut to_read, mut skipped_tables] = [Vec::new(), Vec::new()];
    for walk in find(inputs)? {
        let may_skip = walk.is_folder && text_column == TEXT_COLUMN;
        let is_table = if may_skip && walk.found.iter().any(|file| has_table_name(file)) {
            each_file(&walk.found, is_table_without_text)?
        } else {
            vec![false; walk.found.len()]
        };
        let has_others = is_table.contains(&false);
        for (file, is_table) in walk.found.into_iter().zip(is_table) {
            let files = if is_table && has_others { &mut skipped_tables } else { &mut to_read };
            files.push(file);
        }
    }
    Ok([to_read, skipped_tables])
}

/// Returns whether a file has the name of a CSV or TSV table and no column [`TEXT_COLUMN`].
fn is_table_without_text(path: &Path) -> Result<bool> {
    if !has_table_name(path) {
        return Ok(false);
    }
    match InputReader::open(path, 0, TEXT_COLUMN) {
        Ok(_) => Ok(false),
        Err(error) if error.class() == Class::Data && error.is_absent() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Finds the files to read: as [`expand`], but without the tables that [`skipped_tables_warning`] names.
pub fn files_to_read(inputs: &[PathBuf], text_column: &str) -> Result<Vec<PathBuf>> {
    find_texts(inputs, text_column).map(|[to_read, _]| to_read)
}

/// Returns a warning about skipped tables: files in an input folder that have the name of a CSV or TSV table but not
/// the default text column. A table that is named directly or by a pattern is never skipped, and neither are the tables
/// of a folder that has only such tables; they are rejected when they are read. If `text_column` is not the default, no
/// table is skipped.
///
/// # Errors
/// Fails as [`expand`] does, and when a table cannot be opened.
pub fn skipped_tables_warning(inputs: &[PathBuf], text_column: &str) -> Result<Option<String>> {
    let [_, tables] = find_texts(inputs, text_column)?;
    Ok(tables.first().map(|first| {
        format!(
            "{} CSV or TSV file(s) in input folders are skipped, {} first: they have no column {TEXT_COLUMN:?}; name the \
             column of their text with --text-column, or leave them out of the folder",
            tables.len(),
            shown(first)
        )
    }))
}

/// Returns a note about the names beginning with `_` that were skipped in folders and patterns, except the files that
/// known programs write for themselves.
///
/// # Errors
/// Fails as [`expand`] does.
pub fn skipped_names_note(inputs: &[PathBuf]) -> Result<Option<String>> {
    let left_out: Vec<PathBuf> = find(inputs)?.into_iter().flat_map(|walk| walk.left_out).collect();
    Ok(left_out.iter().min().map(|first| {
        let count = left_out.len();
        format!(
            "{count} input name(s) that begin with _ are left out, {} first: name them to read them",
            shown(first)
        )
    }))
}

/// Returns the names of all inputs; an argument that does not exist and contains commas is a list.
pub fn split_lists(inputs: &[PathBuf]) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for input in inputs {
        match input.to_str() {
            Some(text) if text.contains(',') => split_list(text, &mut names),
            _ => names.push(input.clone()),
        }
    }
    names
}

/// Maximum number of bytes of a file name.
const MAX_NAME: usize = 255;

/// Splits a list at its commas, but not inside an existing name; the longest existing name wins.
fn split_list(list: &str, names: &mut Vec<PathBuf>) {
    let mut rest = Some(list);
    while let Some(text) = rest {
        let end = if is_url(Path::new(text)) { end_of_url(text) } else { end_of_name(text) };
        if end > 0 {
            names.push(text[..end].into());
        }
        rest = text.get(end + 1..);
    }
}

/// Returns the end of the URL with which a list begins. Object stores are not queried: a URL ends at a comma that is
/// followed by another existing name.
fn end_of_url(list: &str) -> usize {
    let is_name =
        |part: &str| part.is_empty() || is_url(Path::new(part)) || fs::symlink_metadata(part).is_ok();
    let mut end = 0;
    for (number, part) in list.split(',').enumerate() {
        if number > 0 && is_name(part) {
            break;
        }
        end += part.len() + usize::from(number > 0);
    }
    end
}

/// Returns the end of the name with which a list begins: the longest that exists or is a pattern with a match, else the
/// first. A name with commas is no longer than a file name may be, so the time does not grow with the length of the list.
fn end_of_name(list: &str) -> usize {
    let first = list.find(',').unwrap_or(list.len());
    let component = list[..first].rfind('/').map_or(0, |at| at + 1);
    let limit = list[component..].find('/').map_or(list.len(), |at| component + at);
    let is_folder = limit - component <= MAX_NAME && fs::symlink_metadata(&list[..limit]).is_ok();
    let last = if is_folder { list.len() } else { limit.min(component + MAX_NAME) };
    // Only a name with a comma can match a pattern with one.
    let may_match = |end: usize| end == first || is_folder || has_name_with_comma(&list[..component]);
    let commas = list.match_indices(',').map(|(at, _)| at).chain([list.len()]);
    let ends: Vec<usize> = commas.take_while(|&end| end <= last || end == first).collect();
    let names_something = |end: &&usize| {
        let path = on_disk(Path::new(&list[..**end])).into_owned();
        let pattern = path.to_str().filter(|path| is_pattern(path));
        let matches = |pattern| may_match(**end) && walk::collect(pattern, &mut Walk::default()).is_ok();
        fs::symlink_metadata(&path).is_ok() || pattern.is_some_and(matches)
    };
    *ends.iter().rev().find(names_something).unwrap_or(&first)
}

/// Returns whether a folder contains a name with a comma, which a pattern with a comma could match.
fn has_name_with_comma(folder: &str) -> bool {
    let folder = if folder.is_empty() { "." } else { folder };
    let names = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    names.map(|name| name.file_name()).any(|name| name.to_string_lossy().contains(','))
}

/// Returns the first file that is named more than once, if any.
pub fn first_duplicate(files: &[PathBuf]) -> Option<&PathBuf> {
    let mut seen = HashSet::new();
    // In the cache of the Hub, files with the same content are links to one file.
    let real = |file: &PathBuf| match name_of_cached(file) {
        Some(name) => name.into(),
        None => fs::canonicalize(file).unwrap_or_else(|_| file.clone()),
    };
    files.iter().find(|file| !seen.insert(real(file)))
}

/// Rejects an output inside an input folder, and an output folder that contains an input: a later command would read
/// the output as text.
///
/// # Errors
/// Fails when the output is inside an input folder or contains an input, or when [`expand`] fails.
pub fn reject_output_inside(inputs: &[PathBuf], output: &Path) -> Result<()> {
    let real = |path: &Path| if is_url(path) { with_lower_scheme(path) } else { real_path(&on_disk(path)) };
    let output_is = real(output);
    for input in split_lists(inputs) {
        let rest = output_is.strip_prefix(real(&input)).ok();
        let is_read = rest.is_some_and(|rest| !rest.iter().any(is_skipped));
        // A pattern is not a folder, but its files are in folders.
        let matched =
            if is_url(&input) || is_read { Vec::new() } else { expand(std::slice::from_ref(&input))? };
        let mut folders: Vec<&Path> = matched.iter().filter_map(|file| file.parent()).collect();
        folders.dedup();
        if is_read || folders.iter().any(|folder| real(folder).starts_with(&output_is)) {
            return Err(Error::usage(format!(
                "this output and the input {} contain each other, so the output would be read as text: choose \
                 another folder",
                shown(&input)
            ))
            .at(output));
        }
    }
    Ok(())
}

/// Rejects a vocabulary that is among the inputs.
///
/// # Errors
/// Fails when the vocabulary is among the inputs.
pub fn reject_vocabulary(files: &[PathBuf], vocabulary: &Path) -> Result<()> {
    let vocabulary = &*on_disk(vocabulary);
    let real = real_path(vocabulary);
    let may_be = |file: &&PathBuf| file.file_name() == vocabulary.file_name() || file.is_symlink();
    match files.iter().filter(may_be).find(|file| *file == vocabulary || real_path(file) == real) {
        Some(file) => Err(Error::usage(
            "this file is the vocabulary, but it is also among the inputs and would be read as text: move it out of \
             the input folder",
        )
        .at(file)),
        None => Ok(()),
    }
}

fn expand_one(input: &Path, walk: &mut Walk) -> Result<()> {
    if is_url(input) {
        return expand_url(input, walk);
    }
    let input = &*on_disk(input);
    match (is_folder(input), input.to_str()) {
        (Ok(true), _) => {
            reject_files_of_tables(&[input.join("any")])?;
            walk.is_folder = true;
            walk.collect(input)?;
            if walk.found.is_empty() {
                return Err(Error::usage(
                    "this input folder has no files (names that begin with . or _ are skipped)",
                )
                .at(input));
            }
            Ok(())
        }
        (Ok(false), _) => {
            walk.found.push(input.to_owned());
            reject_files_of_tables(&walk.found)
        }
        (Err(error), Some(text)) if error.class() == Class::Usage && error.is_absent() => {
            if is_pattern(text) {
                walk::collect(text, walk)?;
                return reject_files_of_tables(&walk.found);
            }
            if text.starts_with('~') {
                let text = "this input does not exist: a shell expands ~ only at the beginning of a word; write $HOME";
                return Err(error.with_text(text));
            }
            Err(error)
        }
        (Err(error), _) => Err(error),
    }
}

/// Finds the objects that a URL names: one object, all objects below a name, or those that match a pattern.
fn expand_url(url: &Path, walk: &mut Walk) -> Result<()> {
    let url = &*with_lower_scheme(url);
    let failed = || Error::io("read", url);
    let text = url.to_string_lossy();
    let is_web = text.starts_with("http://") || text.starts_with("https://");
    if !text.ends_with('/') {
        if if_found(size(url)).map_err(failed())?.is_some() {
            walk.found.push(url.to_owned());
            return Ok(());
        }
        if is_web {
            return Err(no_input().at(url));
        }
    }
    let invalid = |source| Error::usage("this input pattern is not valid").because(source).at(url);
    let pattern = text.find(['*', '?', '[']).map(|at| Ok((at, Pattern::new(&text).map_err(invalid)?)));
    let pattern = pattern.transpose()?;
    walk.is_folder = pattern.is_none();
    let folder = pattern
        .as_ref()
        .map_or(&*text, |(at, _)| text[..*at].rsplit_once('/').map_or("", |(folder, _)| folder));
    let objects = objects::list(Path::new(folder)).map_err(failed())?;
    let options = MatchOptions { require_literal_separator: true, ..Default::default() };
    let is_named = |name: &Path| match &pattern {
        Some((_, pattern)) => pattern.matches_path_with(name, options),
        None => name.starts_with(url),
    };
    let is_meant = |part: &OsStr| pattern.is_some() && text.split('/').any(|of| begins_alike(of, part));
    for (name, bytes) in &objects {
        let below = name.strip_prefix(folder).unwrap_or(name);
        let hidden = below.iter().find(|part| is_skipped(part) && !is_meant(part));
        match hidden {
            _ if !is_named(name) || (*bytes == 0 && is_marker(name)?) => {}
            Some(part) => walk.leave_out(part, name.clone()),
            None => walk.found.push(name.clone()),
        }
    }
    reject_tables_of_store(&objects, &walk.found)?;
    let problem =
        if pattern.is_some() { Error::usage("this input pattern matches no file") } else { no_input() };
    if walk.found.is_empty() { Err(problem.at(url)) } else { Ok(()) }
}

/// Returns whether an empty object in a listing is a folder marker: its real name ends with a slash.
fn is_marker(name: &Path) -> Result<bool> {
    if_found(size(name)).map(|found| found.is_none()).map_err(Error::io("read", name))
}

/// Applies [`crate::files::walk::reject_table`] to the folders of an object store.
fn reject_tables_of_store(objects: &[(PathBuf, u64)], found: &[PathBuf]) -> Result<()> {
    for (name, _) in objects {
        let part = |of: &str| name.ancestors().find(|path| path.file_name().is_some_and(|part| part == of));
        let is_iceberg = || is_iceberg_metadata(&name.file_name().unwrap_or_default().to_string_lossy());
        let (format, log) = match (part("_delta_log"), part(".hoodie"), part("metadata")) {
            (Some(log), ..) => ("a Delta table", log),
            (_, Some(log), _) => ("a Hudi table", log),
            (_, _, Some(log)) if is_iceberg() => ("an Iceberg table", log),
            _ => continue,
        };
        let root = log.parent().unwrap_or(log);
        if found.iter().any(|file| file.starts_with(root)) {
            return Err(table(format, root));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::{Format, InputEntry};

    /// An entry has about [`ENTRY`] bytes without its path, and one file more than a manifest can list is rejected.
    #[test]
    fn as_many_inputs_are_accepted_as_a_manifest_can_name() {
        let entry = |path: &str| InputEntry {
            path: path.to_owned(),
            bytes: u64::from(u32::MAX),
            format: Format::Parquet,
            lines: u64::from(u32::MAX),
            dump: None,
            blake3: "0".repeat(64),
        };
        #[derive(Serialize)]
        struct Inputs {
            inputs: Vec<InputEntry>,
        }
        let path = "text/0000001.txt";
        let json_bytes =
            |files| serde_json::to_string_pretty(&Inputs { inputs: vec![entry(path); files] }).unwrap().len();
        let each = (json_bytes(1001) - json_bytes(1)) as u64 / 1000;
        assert!((ENTRY - 30..=ENTRY).contains(&(each - path.len() as u64)), "{each} bytes an entry");
        let most = ((MAX_BYTES - REST) / (ENTRY + path.len() as u64)) as usize;
        assert!(most > 900_000, "{most}");
        reject_too_many(most, (most * path.len()) as u64).unwrap();
        let error = reject_too_many(most + 1, ((most + 1) * path.len()) as u64).unwrap_err();
        assert!(error.to_string().contains("join them") && error.exit_code() == 2, "{error}");
    }
}
