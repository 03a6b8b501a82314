//! Suggests a file for a path on the command line that does not exist.

use std::path::{Path, PathBuf};

use bert_inference::model_dir::builtin_model;
use bert_storage::most_similar;

/// Maximum number of files of a folder that are compared.
const MAX_NAMES: usize = 10_000;

/// Flags whose values are names of columns.
const COLUMN_FLAGS: [&str; 2] = ["columns", "text-column"];

/// Returns a file with a similar name in the same folder, for an argument that an error message quotes and that names no
/// file. Arguments may be paths, lists of paths with commas, and flags with `=` and one of these.
pub(crate) fn similar_file(message: &str, arguments: impl Iterator<Item = String>) -> Option<PathBuf> {
    let mut flag = String::new();
    arguments.take_while(|argument| argument != "--").find_map(|argument| {
        let of_flag = argument.strip_prefix("--");
        let (name, value) = match of_flag.map(|text| text.split_once('=')) {
            Some(Some((name, value))) => (name.to_owned(), value),
            Some(None) => {
                of_flag.unwrap_or_default().clone_into(&mut flag);
                return None;
            }
            None => (std::mem::take(&mut flag), argument.as_str()),
        };
        if value.starts_with('-') || COLUMN_FLAGS.contains(&name.as_str()) || Path::new(value).exists() {
            return None;
        }
        let paths = value.split(',').map(|path| path.trim_end_matches('/'));
        paths.filter(|path| is_quoted(message, path)).find_map(similar_path)
    })
}

/// Returns whether a message contains a path, and not only as a part of a word or of another path.
fn is_quoted(message: &str, path: &str) -> bool {
    let is_in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    !path.is_empty()
        && message.match_indices(path).any(|(at, _)| {
            let before = message[..at].chars().next_back();
            let after = message[at + path.len()..].chars().next();
            !before.is_some_and(|c| is_in_word(c) || matches!(c, '.' | '/')) && !after.is_some_and(is_in_word)
        })
}

/// Returns a path that exists instead of one that does not: its first missing name is replaced by the most similar name
/// of the same folder. Without a folder, the built-in model is similar too.
fn similar_path(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let named = path.ancestors().filter(|path| !path.as_os_str().is_empty());
    let missing = named.take_while(|path| !path.exists()).last()?;
    let similar = sibling(missing)?;
    let rest = path.strip_prefix(missing).ok().filter(|rest| !rest.as_os_str().is_empty());
    match rest.map(|rest| similar.join(rest)) {
        Some(whole) => Some(whole).filter(|path| path.exists()),
        None => Some(similar),
    }
}

/// Returns the file whose name is most like the last name of a path that does not exist.
fn sibling(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let read = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(read).ok()?.take(MAX_NAMES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    // A command that reports a built-in model as missing does not take built-in models.
    if folder.as_os_str().is_empty() && builtin_model::meant(path).is_none() {
        names.extend(builtin_model::NAMES.map(str::to_owned));
    }
    // The order of a folder is arbitrary.
    names.sort_unstable();
    let name = most_similar(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_argument_gets_a_sibling() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["train.txt", "held-out.txt", "run"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let similar = |message: &str, argument: String| similar_file(message, [argument].into_iter());
        let missing = at("trian.txt");
        for argument in [missing.clone(), format!("--input={missing}"), format!("{},{missing}", at("run"))] {
            assert_eq!(
                similar(&format!("{missing}: no such file"), argument),
                Some(folder.path().join("train.txt"))
            );
        }
        assert_eq!(similar("another error", missing.clone()), None);
        assert_eq!(similar(&format!("{missing}s: no such file"), missing), None);
        for name in ["train.txt", "zebra", "none/train.txt"] {
            assert_eq!(similar(&at(name), at(name)), None, "{name}");
        }
        assert_eq!(similar("tiny-en: this folder does not exist", "tiny-en".into()), None);
        for (missing, name) in [("tiny-eng", "tiny-en"), ("mini", "mini-en")] {
            assert_eq!(
                similar(&format!("{missing}: this folder does not exist"), missing.into()),
                Some(name.into())
            );
        }
    }

    #[test]
    fn first_missing_folder_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("almanac/train")).unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let similar = |path: String| similar_file(&format!("{path}: no such file"), [path].into_iter());
        assert_eq!(similar(at("almanc/train")), Some(folder.path().join("almanac/train")));
        assert_eq!(similar(at("almanc/")), Some(folder.path().join("almanac")));
        assert_eq!(similar(at("almanc/dev")), None);
    }

    #[test]
    fn column_names_are_not_suggested_as_paths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train").display().to_string();
        std::fs::write(&path, "").unwrap();
        let missing = format!("{path}s");
        for arguments in
            [vec!["--columns".to_string(), missing.clone()], vec![format!("--columns={missing}")]]
        {
            assert_eq!(similar_file(&format!("no column {missing}"), arguments.into_iter()), None);
        }
    }
}
