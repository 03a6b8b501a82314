//! Reads the command line and converts `file://` URLs to paths.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anstream::ColorChoice;
use bert_storage::on_disk;

/// Returns the arguments of this program, its name first. `file://` URLs are converted, so every flag that takes a path
/// also accepts a `file://` URL. Also applies `--color`, so that it holds for usage errors too.
pub fn arguments() -> Vec<OsString> {
    let arguments: Vec<OsString> = std::env::args_os().map(|argument| with_path(&argument)).collect();
    let choice = match color_choice(&arguments) {
        // If the environment has `CI`, the automatic choice shows colours on any terminal, even on one that cannot
        // display them.
        ColorChoice::Auto if is_dumb() => ColorChoice::Never,
        choice => choice,
    };
    choice.write_global();
    arguments
}

/// Returns whether the terminal does not support control sequences. `CLICOLOR_FORCE` overrides this check.
fn is_dumb() -> bool {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    !forced && std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Returns the choice of `--color`; clap checks its value later.
fn color_choice(arguments: &[OsString]) -> ColorChoice {
    let before_rest = arguments.iter().take_while(|argument| *argument != "--");
    let texts: Vec<&str> = before_rest.filter_map(|argument| argument.to_str()).collect();
    let joined = texts.iter().filter_map(|text| text.strip_prefix("--color="));
    let separate = texts.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1]);
    match joined.chain(separate).last() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

/// Returns an argument in which a `file://` URL, also after the `=` of a flag, is replaced by its path.
fn with_path(argument: &OsString) -> OsString {
    with_value(argument, |text| on_disk(Path::new(text)).into_owned().into_os_string())
}

/// Returns an argument with `change` applied to it, or to the value after the `=` of a flag.
pub fn with_value(argument: &OsString, change: impl Fn(&OsStr) -> OsString) -> OsString {
    let flag = argument.to_str().filter(|text| text.starts_with("--")).and_then(|text| text.split_once('='));
    match flag {
        Some((flag, value)) => {
            [OsString::from(format!("{flag}=")), change(OsStr::new(value))].into_iter().collect()
        }
        None => change(argument),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_flag_is_found() {
        for (line, choice) in [
            ("bert man", ColorChoice::Auto),
            ("bert --color always man", ColorChoice::Always),
            ("bert man --color=never", ColorChoice::Never),
            ("bert glue -- --color=never", ColorChoice::Auto),
        ] {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(color_choice(&line), choice, "{line:?}");
        }
    }

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
