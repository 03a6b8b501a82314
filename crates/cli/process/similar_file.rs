//! Suggests a file for a path on the command line that does not exist.

use std::path::{Path, PathBuf};

use bert_storage::most_similar;

/// Maximum number of files of a folder that are compared.
const MAX_NAMES: usize = 10_000;

/// Returns a file with a similar name in the same folder, for an argument that an error message quotes and that names no
/// file. Arguments may be paths, lists of paths with commas, and flags with `=` and one of these.
pub(crate) fn similar_file(message: &str, arguments: impl Iterator<Item = String>) -> Option<PathBuf> {
    arguments.take_while(|argument| argument != "--").find_map(|argument| {
        let flag = argument.strip_prefix("--").and_then(|flag| flag.split_once('='));
        let value = flag.map_or(argument.as_str(), |(_, value)| value);
        if value.starts_with('-') || Path::new(value).exists() {
            return None;
        }
        value.split(',').filter(|path| is_quoted(message, path)).find_map(sibling)
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

/// Returns the file whose name is most like the last name of a path that does not exist.
fn sibling(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    if path.exists() {
        return None;
    }
    let folder = path.parent()?;
    let read = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = std::fs::read_dir(read).ok()?.take(MAX_NAMES);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
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
    }
}
