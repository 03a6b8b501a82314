//! `bert recipes` lists the recipes of `--recipe`, or shows one.

use clap::Parser;

use crate::exit::print;
use crate::recipe::{Recipe, names, parse_name, text};

/// List the recipes of `make-pretrain-data --recipe` and `pretrain --recipe`, or show one.
#[derive(Parser, Debug)]
pub struct Args {
    /// Recipe to show; save a copy to start a custom recipe.
    #[arg(value_name = "NAME|FILE", value_parser = parse_name)]
    name: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Fails if stdout cannot be written or a file is not a recipe.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        Recipe::read(name)?;
        return print(text(name)?.trim_end());
    }
    let lines = names().map(|name| Ok(format!("{name:<12}{}", Recipe::read(name)?.title)));
    print(&lines.collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
}
