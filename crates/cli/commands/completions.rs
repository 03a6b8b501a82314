//! `bert completions` prints a completion script for a shell.

use bert_data::languages;
use bert_inference::builtin_model;
use bert_model::Preset;
use bert_tasks::Task;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args as ClapArgs, Command};
use clap_complete::{Shell, generate};

use crate::commands::experiment;
use crate::options::recipe;
use crate::output::stdout::print;

/// Print the completion script of a shell, for all programs.
///
/// Load it in the start-up file of the shell: `source <(bert completions bash)` in ~/.bashrc,
/// `source <(bert completions zsh)` in ~/.zshrc after compinit, `bert completions fish | source` in
/// ~/.config/fish/config.fish, `bert completions powershell | Out-String | Invoke-Expression` in $PROFILE.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Shell that the script is for.
    shell: Shell,
}

/// Names that a shell offers for some flags and arguments.
struct Names {
    /// The flags and arguments: their ids, and the prefixes of their value names.
    arguments: &'static [(&'static str, &'static str)],
    names: fn() -> Vec<&'static str>,
    /// Whether the value may also be a path.
    or_path: bool,
}

const NAMES: [Names; 6] = [
    Names {
        arguments: &[
            ("checkpoint", "DIR"),
            ("init_checkpoint", "DIR"),
            ("encoder", "DIR"),
            ("compare", "DIR"),
        ],
        names: || builtin_model::NAMES.to_vec(),
        or_path: true,
    },
    Names {
        arguments: &[("model", "SIZE")],
        names: || Preset::ALL.map(Preset::name).to_vec(),
        or_path: true,
    },
    Names {
        arguments: &[("recipe", "NAME|FILE"), ("name", "NAME|FILE")],
        names: || recipe::names().collect(),
        or_path: true,
    },
    Names { arguments: &[("language", "CODE")], names: languages, or_path: false },
    Names {
        arguments: &[("task", "TASK"), ("tasks", "TASK")],
        names: || Task::ALL.iter().map(|task| task.spec().name).chain(["table"]).collect(),
        or_path: false,
    },
    Names { arguments: &[("name", "EXPERIMENT")], names: experiment::names, or_path: false },
];

/// Returns a command whose flags and arguments have the names in [`NAMES`] as possible values, in its subcommands
/// too.
fn with_names(command: Command) -> Command {
    command.mut_args(with_own_names).mut_subcommands(with_names)
}

fn with_own_names(argument: Arg) -> Arg {
    let value = argument.get_value_names().and_then(|names| names.first());
    let is_meant = |(id, begin): &(&str, &str)| {
        argument.get_id() == id && value.is_some_and(|value| value.starts_with(begin))
    };
    match NAMES.iter().find(|names| names.arguments.iter().any(is_meant)) {
        Some(Names { names, .. }) => argument.value_parser(PossibleValuesParser::new(names())),
        None => argument,
    }
}

/// Returns the script with paths added to the names of values that may be paths. `clap_complete` offers only the
/// names.
fn with_paths(script: String, shell: Shell) -> String {
    NAMES.iter().filter(|names| names.or_path).fold(script, |script, names| {
        let all = (names.names)().join(" ");
        let first = (names.names)()[0];
        let (only, both) = match shell {
            Shell::Bash => (format!("compgen -W \"{all}\""), format!("compgen -f -W \"{all}\"")),
            Shell::Zsh => (format!(":({all})'"), format!(":{{_files; compadd -- {all}}}'")),
            Shell::Fish => (format!("-r -f -a \"{first}\\t"), format!("-r -F -a \"{first}\\t")),
            _ => return script,
        };
        script.replace(&only, &both)
    })
}

/// Runs the command for these programs.
pub fn run(args: &Args, programs: Vec<Command>) -> anyhow::Result<()> {
    let count = programs.len();
    let mut script = Vec::new();
    for program in programs {
        let mut program = with_names(program);
        let name = program.get_name().to_owned();
        generate(args.shell, &mut program, name, &mut script);
    }
    let script = with_paths(String::from_utf8(script)?, args.shell);
    // In PowerShell, `using` is allowed at the beginning of a script only.
    let (using, rest): (Vec<&str>, Vec<&str>) =
        script.lines().partition(|line| line.starts_with("using namespace"));
    let using = using.iter().take(using.len() / count);
    print(&using.chain(&rest).copied().collect::<Vec<_>>().join("\n"))
}
