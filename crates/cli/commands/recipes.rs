//! `bert recipes` lists the recipes of `--recipe`, or shows one.

use clap::Parser;

use crate::exit::print;
use crate::recipe::{Recipe, known, names, text};

/// List the recipes of `make-pretrain-data --recipe` and `pretrain --recipe`, or show one.
#[derive(Parser, Debug)]
pub struct Args {
    /// The recipe to show; a copy of it is a start for one of your own.
    #[arg(value_name = "NAME|FILE", value_parser = known)]
    name: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When stdout is closed, or a file is no recipe.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        Recipe::read(name)?;
        return print(text(name)?.trim_end());
    }
    let lines = names().map(|name| Ok(format!("{name:<12}{}", Recipe::read(name)?.title)));
    print(&lines.collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
}
