//! `bert` parses its command line and runs a command: a module of [`commands`], or one of the three main programs.

use std::ffi::OsString;

use clap::{Args as _, CommandFactory, FromArgMatches as _, Parser, Subcommand};

use crate::commands;
use crate::commands::data::make_pretrain_data;
use crate::commands::training::{finetune, pretrain};
use crate::options::help::{arranged, examples_and_exit_codes};
use crate::options::hub_data::with_local_data;
use crate::options::saved_config::{self, Program};
use crate::options::version::long_version;
use crate::options::{command_line, numbers};
use crate::output::clock::with_clock;
use crate::process::signals;

const EXAMPLES: &str = "Examples:
  bert quickstart
  bert fill-mask --checkpoint run 'The river flows into the [MASK].'";

/// BERT from raw text to a scored task.
///
/// The commands data, pretrain and finetune are also the programs make-pretrain-data, pretrain and finetune.
#[derive(Parser)]
#[command(name = "bert", version, long_version = long_version())]
#[command(after_help = EXAMPLES, after_long_help = examples_and_exit_codes(EXAMPLES))]
struct Cli {
    #[command(subcommand)]
    tool: Tool,
}

/// A command that is not a main program.
#[derive(Subcommand)]
enum Tool {
    Quickstart(commands::quickstart::Args),
    MakeVocab(commands::data::make_vocab::Args),
    Launch(commands::training::launch::Args),
    Init(commands::models::init::Args),
    Import(commands::models::import::Args),
    ExtendVocab(commands::models::extend_vocab::Args),
    Merge(commands::models::merge::Args),
    Inspect(commands::models::inspect::Args),
    Verify(commands::data::verify::Args),
    Devices(commands::devices::Args),
    Evaluate(commands::evaluation::evaluate::Args),
    FillMask(commands::models::fill_mask::Args),
    MinimalPairs(commands::evaluation::minimal_pairs::Args),
    Nearest(commands::models::nearest::Args),
    Attention(commands::models::attention::Args),
    Predict(commands::evaluation::predict::Args),
    Features(commands::models::features::Args),
    Probe(commands::evaluation::probe::Args),
    Projector(commands::models::projector::Args),
    Recipes(commands::recipes::Args),
    Report(commands::evaluation::report::Args),
    Watch(commands::evaluation::watch::Args),
    Scores(commands::evaluation::scores::Args),
    Glue(commands::training::glue::Args),
    Multitask(commands::training::multitask::Args),
    Experiment(commands::experiment::Args),
    #[cfg(feature = "translation")]
    Translate(commands::translation::Args),
    Export(commands::models::export::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
}

/// Runs `bert` with the arguments of this process. Exits the process on a usage error.
pub fn run() -> anyhow::Result<()> {
    let line: Vec<OsString> = command_line::arguments();
    if let Some(result) = run_main_program(&line) {
        return result;
    }
    signals::ignore_checkpoint_requests()?;
    let line = with_local_data(&command(), line)?;
    let matches = numbers::parse(command(), line).unwrap_or_else(|error| error.exit());
    run_tool(Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).tool)
}

/// Runs a main program if the first argument names one. Its flags are parsed without [`Cli`], because `--config` may
/// give the required flags.
fn run_main_program(line: &[OsString]) -> Option<anyhow::Result<()>> {
    Some(match line.get(1)?.to_str()? {
        "data" | "make-pretrain-data" => parse("data", line).and_then(make_pretrain_data::run),
        "pretrain" => parse("pretrain", line).and_then(pretrain::run),
        "finetune" => parse("finetune", line).and_then(finetune::run),
        _ => return None,
    })
}

/// Parses the command line of a main program that is called as `bert NAME ...`.
fn parse<A: Program>(name: &'static str, line: &[OsString]) -> anyhow::Result<A> {
    let command = A::command().name(name);
    let command = command.bin_name(format!("bert {name}")).display_name(format!("bert-{name}"));
    saved_config::parse_line(command, line[1..].to_vec())
}

fn run_tool(tool: Tool) -> anyhow::Result<()> {
    match tool {
        Tool::Quickstart(args) => commands::quickstart::run(&args),
        Tool::MakeVocab(args) => commands::data::make_vocab::run(&args),
        Tool::Launch(args) => commands::training::launch::run(&args),
        Tool::Init(args) => commands::models::init::run(&args),
        Tool::Import(args) => commands::models::import::run(&args),
        Tool::ExtendVocab(args) => commands::models::extend_vocab::run(&args),
        Tool::Merge(args) => commands::models::merge::run(&args),
        Tool::Inspect(args) => with_clock("inspect", || commands::models::inspect::run(&args)),
        Tool::Verify(args) => commands::data::verify::run(&args),
        Tool::Devices(args) => commands::devices::run(&args),
        Tool::Evaluate(args) => with_clock("evaluate", || commands::evaluation::evaluate::run(&args)),
        Tool::FillMask(args) => with_clock("fill-mask", || commands::models::fill_mask::run(&args)),
        Tool::MinimalPairs(args) => {
            with_clock("minimal-pairs", || commands::evaluation::minimal_pairs::run(&args))
        }
        Tool::Nearest(args) => with_clock("nearest", || commands::models::nearest::run(&args)),
        Tool::Attention(args) => with_clock("attention", || commands::models::attention::run(&args)),
        Tool::Predict(args) => with_clock("predict", || commands::evaluation::predict::run(&args)),
        Tool::Features(args) => with_clock("features", || commands::models::features::run(&args)),
        Tool::Probe(args) => with_clock("probe", || commands::evaluation::probe::run(&args)),
        Tool::Projector(args) => with_clock("projector", || commands::models::projector::run(&args)),
        Tool::Recipes(args) => commands::recipes::run(&args),
        Tool::Report(args) => with_clock("report", || commands::evaluation::report::run(&args)),
        Tool::Watch(args) => commands::evaluation::watch::run(&args),
        Tool::Scores(args) => with_clock("scores", || commands::evaluation::scores::run(&args)),
        Tool::Glue(args) => commands::training::glue::run(&args),
        Tool::Multitask(args) => commands::training::multitask::run(&args),
        Tool::Experiment(args) => commands::experiment::run(&args),
        #[cfg(feature = "translation")]
        Tool::Translate(args) => commands::translation::run(&args),
        Tool::Export(args) => with_clock("export", || commands::models::export::run(&args)),
        Tool::Completions(args) => commands::completions::run(&args, programs()),
        Tool::Man(args) => commands::man::run(&args, programs()),
    }
}

/// The headings of the help, in their order.
const HEADINGS: [&str; 5] = ["Data", "Training", "Models", "Results", "Shell"];

/// The commands in the order of the help: the heading, the name, and an example, which is empty for the commands that have
/// their own.
const COMMANDS: [(&str, &str, &str); 34] = [
    ("Data", "data", ""),
    ("Data", "make-vocab", "bert make-vocab --input corpus/ --vocab-size 8000 --output vocab.txt"),
    ("Data", "extend-vocab", "bert extend-vocab --checkpoint bert/ --input text/ --add 500 --output larger/"),
    ("Data", "merge", "bert merge parts/"),
    ("Data", "inspect", "bert inspect data/ --html\n  bert inspect run/"),
    ("Data", "verify", "bert verify data/\n  bert verify run/"),
    ("Training", "quickstart", "bert quickstart --output first/"),
    ("Training", "recipes", "bert recipes\n  bert recipes laptop"),
    ("Training", "pretrain", ""),
    ("Training", "finetune", ""),
    ("Training", "glue", "bert glue --data glue/ --checkpoint run/ --output scores/"),
    ("Training", "multitask", "bert multitask --tasks rte,mrpc --data glue/ --output both/"),
    (
        "Training",
        "experiment",
        "bert experiment\n  bert experiment small-models --data glue/ --output small/",
    ),
    ("Training", "launch", ""),
    ("Training", "devices", "bert devices --check"),
    ("Models", "init", "bert init --model tiny --data data/ --output initial/"),
    ("Models", "import", "bert import pytorch_model.bin bert/"),
    ("Models", "export", "bert export run/ model/\n  bert export run/ model/ --format onnx"),
    ("Models", "fill-mask", "bert fill-mask --checkpoint run/ 'The river flows into the [MASK].'"),
    ("Models", "nearest", "bert nearest river\n  bert nearest --checkpoint tiny-en,mini-en king queen"),
    ("Models", "predict", "bert predict --checkpoint sst-2/ --input reviews.txt"),
    ("Models", "features", "bert features --checkpoint run/ --input texts.txt"),
    ("Models", "probe", "bert probe --checkpoint sst-2/ 'a great film .' --replace great=dull,fine"),
    ("Models", "attention", "bert attention 'the cat sat on the mat . ||| it was tired .'"),
    ("Models", "projector", "bert projector --checkpoint run/"),
    ("Models", "translate", ""),
    ("Results", "evaluate", "bert evaluate --checkpoint run/ --data data/held-out --top-k 5"),
    ("Results", "minimal-pairs", "bert minimal-pairs --input corpora/minimal-pairs --by phenomenon"),
    ("Results", "scores", "bert scores tuned/ frozen/ --paired"),
    ("Results", "report", "bert report run/\n  bert report run/ other-run/"),
    ("Results", "watch", "bert watch run/\n  bert watch run/ --tui"),
    ("Shell", "completions", "source <(bert completions bash)"),
    ("Shell", "man", "bert man ~/.local/share/man/man1"),
    ("Shell", "help", ""),
];

/// Returns `bert` with all its commands.
fn command() -> clap::Command {
    let data = make_pretrain_data::Args::command().name("data").alias("make-pretrain-data");
    let main = [data, pretrain::Args::command(), finetune::Args::command()];
    let command = Cli::augment_args(clap::Command::new("bert").subcommands(main));
    let command = arranged(command.mut_subcommands(with_example));
    let groups = HEADINGS.map(|heading| {
        let below = COMMANDS.iter().filter(|(above, ..)| *above == heading);
        let lines = below.filter_map(|(_, name, _)| {
            let about = match command.find_subcommand(name) {
                Some(found) => found.get_about().map(ToString::to_string).unwrap_or_default(),
                None if *name == "help" => "Print the help of a command".to_owned(),
                // The command belongs to a feature that this build does not have.
                None => return None,
            };
            Some(format!("  {name:<14}{about}\n"))
        });
        format!("{heading}:\n{}", lines.collect::<String>())
    });
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}",
        groups.concat()
    );
    command.help_template(template)
}

/// Returns a command with its example added to the help.
fn with_example(command: clap::Command) -> clap::Command {
    match COMMANDS.iter().find(|(_, name, _)| *name == command.get_name()) {
        Some((.., example)) if !example.is_empty() => command.after_help(format!("Examples:\n  {example}")),
        _ => command,
    }
}

/// Returns the commands of the four programs: `bert`, `make-pretrain-data`, `pretrain` and `finetune`.
#[must_use]
pub fn programs() -> Vec<clap::Command> {
    let main = [make_pretrain_data::Args::command(), pretrain::Args::command(), finetune::Args::command()];
    [command()].into_iter().chain(main.map(arranged)).collect()
}
