//! `bert man` writes man pages.

use std::path::PathBuf;

use bert_storage::OutputFile;
use clap::builder::Resettable;
use clap::{Args as ClapArgs, Command};
use clap_mangen::Man;

use crate::output::files::{OverwriteArgs, with_remedy};
use crate::output::stdout::print;

/// Write the man pages of all programs and commands.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folder, for instance ~/.local/share/man/man1.
    dir: PathBuf,

    #[command(flatten)]
    overwrite: OverwriteArgs,
}

/// Runs the command for these programs.
pub fn run(args: &Args, programs: Vec<Command>) -> anyhow::Result<()> {
    let mut pages: Vec<(Man, OutputFile)> = Vec::new();
    for program in programs {
        // Prepare the program as `clap_mangen::generate_to` does.
        let mut program = short_version(program).mut_subcommands(short_version).disable_help_subcommand(true);
        program.build();
        for page in with_subcommands(program).into_iter().map(Man::new) {
            let output = args.overwrite.output(&args.dir.join(page.get_filename()))?;
            pages.push((page, output));
        }
    }
    for (page, output) in &pages {
        output.write(|out| page.render(out)).map_err(with_remedy)?;
    }
    let folder = args.dir.display();
    print(&format!("man pages of bert, make-pretrain-data, pretrain and finetune: {folder}"))
}

/// Returns a command and all commands below it.
fn with_subcommands(command: Command) -> Vec<Command> {
    let below: Vec<Command> = command.get_subcommands().cloned().flat_map(with_subcommands).collect();
    below.into_iter().chain([command]).collect()
}

/// Returns a command whose version lacks the commit and the processor, so that every machine writes the same pages.
fn short_version(command: Command) -> Command {
    command.long_version(Resettable::Reset)
}
