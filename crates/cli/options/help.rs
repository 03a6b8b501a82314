//! The layout of the help texts. `-h` fits on a screen: it has the first sentence about each flag and leaves out rare
//! flags. `--help` has everything.

use clap::builder::{Resettable, StyledStr};
use clap::{Arg, Command};

/// Flags that several programs have. They stand before the headings.
const WITHOUT_HEADING: [&str; 11] = [
    "checkpoint",
    "output",
    "threads",
    "config_file",
    "recipe",
    "resume",
    "dry_run",
    "format",
    "json",
    "quiet",
    "color",
];

/// Adds `--color` to a program and shortens the texts of its `-h`. [`arguments`](crate::options::command_line::arguments) reads
/// the flag before the command line is parsed.
#[must_use]
pub fn arranged(program: Command) -> Command {
    let color = Arg::new("color").long("color").value_name("WHEN").value_parser(["auto", "always", "never"]);
    let help = "When to use colours: auto means on a terminal, unless NO_COLOR is set";
    let color = color.default_value("auto").global(true).hide_short_help(true).display_order(1000).help(help);
    with_short_help(program.arg(color))
}

/// Shortens the texts of `-h` to their first sentences, in a command and its subcommands.
fn with_short_help(command: Command) -> Command {
    let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
    let command = match (command.get_long_about().is_some(), first_sentence(&about)) {
        (false, Some(first)) => command.about(first.to_owned()).long_about(about),
        _ => command,
    };
    command.mut_args(with_short_text).mut_subcommands(with_short_help)
}

fn with_short_text(mut flag: Arg) -> Arg {
    if WITHOUT_HEADING.contains(&flag.get_id().as_str()) {
        flag = flag.help_heading(Resettable::Reset);
    }
    let text = flag.get_help().map(StyledStr::to_string).unwrap_or_default();
    match (flag.get_long_help().is_some(), first_sentence(&text)) {
        (false, Some(first)) => flag.help(first.to_owned()).long_help(text),
        _ => flag,
    }
}

/// Returns the first sentence without its period, if another sentence follows.
fn first_sentence(text: &str) -> Option<&str> {
    text.match_indices(". ").map(|(at, _)| at).find_map(|at| {
        let next = text[at + 2..].chars().next()?;
        (next.is_uppercase() || next == '-').then_some(&text[..at])
    })
}

/// Documented exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 error, 2 usage, 3 bad or corrupt data, 4 checkpoint invalid or of \
    another shape, 5 numerical failure, 6 output in use by another process, 7 not enough memory, 75 retry later (other \
    parts are not tokenized yet, a store is unavailable, or another rank is lost), 130/143 stopped by SIGINT/SIGTERM";

/// Returns the end of `--help`: the examples and the exit codes.
pub fn examples_and_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_ends_with_the_first_sentence() {
        for (text, first) in [
            ("One sentence", None),
            ("Names such as e.g. this", None),
            ("A file or config.json. Another sentence", Some("A file or config.json")),
            ("One. Two. Three", Some("One")),
        ] {
            assert_eq!(first_sentence(text), first);
        }
        let command = Command::new("a")
            .about("Do this. In this way")
            .arg(Arg::new("output").long("output").help_heading("Other").help("A folder. It must be new"));
        let command = with_short_help(command);
        assert_eq!(command.get_about().unwrap().to_string(), "Do this");
        let output = command.get_arguments().next().unwrap();
        assert_eq!(output.get_help().unwrap().to_string(), "A folder");
        assert_eq!(output.get_long_help().unwrap().to_string(), "A folder. It must be new");
        assert_eq!(output.get_help_heading(), None);
    }
}
