//! The tool `bert`: everything except the three main programs.

use std::process::ExitCode;

use bert_allocator::ExitOnOom;
use bert_cli::{command_line, commands, exit, signals, threads};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ExitOnOom<MiMalloc> = bert_cli::training_allocator();

/// The main programs, which are not commands of `bert`.
const PROGRAMS: [&str; 3] = ["make-pretrain-data", "pretrain", "finetune"];

const EXAMPLES: &str = "Examples:
  bert quickstart
  bert make-vocab --input corpus/ --output vocab.txt
  bert fill-mask --checkpoint run 'The river flows into the [MASK].'
  bert report run";

/// BERT from raw text to a scored task: the tools that complement make-pretrain-data, pretrain and finetune.
#[derive(Parser)]
#[command(name = "bert", version, after_help = EXAMPLES)]
#[command(after_long_help = commands::examples_and_exit_codes(EXAMPLES))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Quickstart(commands::quickstart::Args),
    MakeVocab(commands::make_vocab::Args),
    Init(commands::init::Args),
    Merge(commands::merge::Args),
    Inspect(commands::inspect::Args),
    Verify(commands::verify::Args),
    Evaluate(commands::evaluate::Args),
    FillMask(commands::fill_mask::Args),
    Attention(commands::attention::Args),
    Predict(commands::predict::Args),
    Features(commands::features::Args),
    Probe(commands::probe::Args),
    Recipes(commands::recipes::Args),
    Report(commands::report::Args),
    Scores(commands::scores::Args),
    Glue(commands::glue::Args),
    Multitask(commands::multitask::Args),
    Export(commands::export::Args),
}

/// Returns the error for `bert pretrain` and the like: the main programs are not commands of `bert`.
fn separate_program(error: &clap::Error) -> Option<clap::Error> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let program = PROGRAMS.into_iter().find(|program| *program == name.replace('_', "-"))?;
    let text = format!("{program} is a separate program: run `{program}` instead of `bert {name}`");
    Some(Cli::command().error(ErrorKind::InvalidSubcommand, text))
}

fn main() -> ExitCode {
    threads::compute_on_this_thread();
    if let Err(error) = signals::ignore_checkpoint_requests() {
        return exit::finish(Err(error));
    }
    let cli = Cli::try_parse_from(command_line::arguments()).unwrap_or_else(|error| {
        match separate_program(&error) {
            Some(error) => error.exit(),
            None => error.exit(),
        }
    });
    exit::finish(match cli.command {
        Command::Quickstart(args) => commands::quickstart::run(&args),
        Command::MakeVocab(args) => commands::make_vocab::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Evaluate(args) => commands::evaluate::run(&args),
        Command::FillMask(args) => commands::fill_mask::run(&args),
        Command::Attention(args) => commands::attention::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Features(args) => commands::features::run(&args),
        Command::Probe(args) => commands::probe::run(&args),
        Command::Recipes(args) => commands::recipes::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Scores(args) => commands::scores::run(&args),
        Command::Glue(args) => commands::glue::run(&args),
        Command::Multitask(args) => commands::multitask::run(&args),
        Command::Export(args) => commands::export::run(&args),
    })
}
