//! `bert man` writes man pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::Resettable;
use clap::{Args as ClapArgs, Command};

use crate::output::stdout::print;

/// Write the man pages of all programs and commands.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folder, for instance ~/.local/share/man/man1. Pages of the same names are replaced.
    dir: PathBuf,
}

/// Runs the command for these programs.
pub fn run(args: &Args, programs: Vec<Command>) -> anyhow::Result<()> {
    let folder = args.dir.display();
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {folder}"))?;
    for program in programs {
        let program = short_version(program).mut_subcommands(short_version);
        clap_mangen::generate_to(program, &args.dir)
            .with_context(|| format!("cannot write the man pages to {folder}"))?;
    }
    print(&format!("man pages of bert, make-pretrain-data, pretrain and finetune: {folder}"))
}

/// Removes the commit and the processor from the version, so that every machine writes the same pages.
fn short_version(command: Command) -> Command {
    command.long_version(Resettable::Reset)
}
