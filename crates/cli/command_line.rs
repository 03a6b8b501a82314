//! Reads the command line and converts `file://` URLs to paths.

use std::ffi::OsString;
use std::path::Path;

use bert_storage::on_disk;

/// Returns the arguments of this program, its name first. `file://` URLs are converted, so every flag that takes a path
/// also accepts a `file://` URL.
pub fn arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os().map(|argument| with_path(&argument))
}

/// Converts an argument, or the value after the `=` of a flag, to a path if it is a `file://` URL.
fn with_path(argument: &OsString) -> OsString {
    let flag = argument.to_str().filter(|text| text.starts_with("--")).and_then(|text| text.split_once('='));
    let path = |text: &Path| on_disk(text).into_owned().into_os_string();
    match flag {
        Some((flag, value)) => {
            [OsString::from(format!("{flag}=")), path(Path::new(value))].into_iter().collect()
        }
        None => path(Path::new(argument)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_files_are_paths() {
        for (given, taken) in [
            ("file:///a/b%20c", "/a/b c"),
            ("--data=file:///a", "--data=/a"),
            ("--data", "--data"),
            ("a=file:///b", "a=file:///b"),
            ("s3://a/b", "s3://a/b"),
        ] {
            assert_eq!(with_path(&OsString::from(given)), OsString::from(taken));
        }
    }
}
