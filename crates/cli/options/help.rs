//! The layout of the help texts. `-h` fits on a screen: it has the first sentence about each flag and leaves out rare
//! flags. `--help` has everything.

use clap::builder::{Resettable, StyledStr};
use clap::{Arg, Command};

/// Flags that several programs have. They come before the headings.
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

/// Maximum width of a usage line.
const USAGE_WIDTH: usize = 80;
/// Text before the first usage line; the other lines are indented by its width.
const USAGE: &str = "Usage: ";

/// Returns a program with the flag `--color` and with shorter texts of `-h`.
/// [`arguments`](crate::options::command_line::arguments) reads the flag before the command line is parsed.
#[must_use]
pub fn arranged(program: Command) -> Command {
    let color = Arg::new("color").long("color").value_name("WHEN").value_parser(["auto", "always", "never"]);
    let help = "When to use colours: auto means on a terminal, unless NO_COLOR is set";
    let color = color.default_value("auto").global(true).hide_short_help(true).display_order(1000).help(help);
    let program = with_short_help(program.arg(color));
    // Only a built program has the full names of its commands. It also has a help command for each of them, so only
    // its usage lines are used.
    let mut built = program.clone();
    built.build();
    with_wrapped_usage(program, &built)
}

/// Returns a command in which usage lines wider than [`USAGE_WIDTH`] are broken, also in its subcommands.
fn with_wrapped_usage(command: Command, built: &Command) -> Command {
    let command = command.mut_subcommands(|inner| match built.find_subcommand(inner.get_name()) {
        Some(built) => with_wrapped_usage(inner, built),
        None => inner,
    });
    let usage = built.clone().render_usage().to_string();
    let usage = usage.trim_start_matches(USAGE);
    if usage.contains('\n') || usage.len() + USAGE.len() <= USAGE_WIDTH {
        command
    } else {
        command.override_usage(wrapped(usage))
    }
}

/// Returns a usage line broken between arguments.
fn wrapped(usage: &str) -> String {
    let mut lines = vec![String::new()];
    for argument in arguments(usage) {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            *last = argument;
        } else if USAGE.len() + last.len() + 1 + argument.len() > USAGE_WIDTH {
            lines.push(argument);
        } else {
            *last += " ";
            *last += &argument;
        }
    }
    lines.join(&format!("\n{}", " ".repeat(USAGE.len())))
}

/// Returns the arguments of a usage line; spaces inside `<>` and `[]`, and between a flag and its value, do not
/// separate arguments.
fn arguments(usage: &str) -> Vec<String> {
    let mut all = Vec::<String>::new();
    let mut depth = 0i32;
    for word in usage.split(' ') {
        let is_value = word.starts_with('<')
            && all.last().is_some_and(|last| last.starts_with("--") && !last.contains('<'));
        match all.last_mut() {
            Some(last) if depth > 0 || is_value => *last += &format!(" {word}"),
            _ => all.push(word.to_owned()),
        }
        depth += word.chars().map(|c| i32::from("<[".contains(c)) - i32::from(">]".contains(c))).sum::<i32>();
    }
    all
}

/// Returns a command in which the texts of `-h` are reduced to their first sentences, also in its subcommands.
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
    parts are not tokenized yet, a store or the Hub is unavailable, or another rank is lost), 130/143 stopped by SIGINT/SIGTERM";

/// Returns the end of `--help`: the examples and the exit codes.
pub fn examples_and_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_usage_is_broken_between_arguments() {
        let usage = "pretrain [OPTIONS] --data <DIR|URL> --output <DIR> <--model <SIZE|FILE>|--init-checkpoint <DIR>> <--steps <N>|--budget <TIME>>";
        assert_eq!(
            wrapped(usage).split("\n       ").collect::<Vec<_>>(),
            [
                "pretrain [OPTIONS] --data <DIR|URL> --output <DIR>",
                "<--model <SIZE|FILE>|--init-checkpoint <DIR>>",
                "<--steps <N>|--budget <TIME>>"
            ]
        );
    }

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
