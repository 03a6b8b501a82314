//! `bert recipes` lists the recipes of `--recipe`, or shows one.

use std::collections::BTreeMap;

use clap::Parser;
use serde::Serialize;

use crate::options::recipe::{Recipe, names, parse_name, text};
use crate::output::stdout::{print, print_json};
use crate::output::table::{Column, FormatArgs, Table, print_table};

/// List the recipes of --recipe, or show one.
///
/// Each line has the name, the programs that it has options for, and the result.
#[derive(Parser, Debug)]
pub struct Args {
    /// Recipe to show; save a copy to start a custom recipe.
    #[arg(value_name = "NAME|FILE", value_parser = parse_name, conflicts_with = "format")]
    name: Option<String>,

    #[command(flatten)]
    format: FormatArgs,
}

/// A recipe of the list.
#[derive(Serialize)]
struct ListedRecipe {
    name: &'static str,
    programs: Vec<&'static str>,
    title: String,
}

/// Returns a table with a row for each recipe.
fn table(recipes: &[ListedRecipe]) -> Table {
    let row = |recipe: &ListedRecipe| {
        vec![recipe.name.to_string(), recipe.programs.join(", "), recipe.title.clone()]
    };
    Table {
        columns: ["recipe", "programs", "result"].map(Column::text).into(),
        rows: recipes.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        let recipe = Recipe::read(name)?;
        return if args.format.is_json() { print_json(&recipe) } else { print(text(name)?.trim_end()) };
    }
    let recipes = names().map(|name| {
        let recipe = Recipe::read(name)?;
        Ok(ListedRecipe { name, programs: recipe.programs(), title: recipe.title })
    });
    let recipes = recipes.collect::<anyhow::Result<Vec<_>>>()?;
    print_table(args.format, &BTreeMap::from([("recipes", &recipes)]), table(&recipes), |_| {
        let programs = |recipe: &ListedRecipe| recipe.programs.join(", ");
        let name = recipes.iter().map(|recipe| recipe.name.len()).max().unwrap_or(0);
        let program = recipes.iter().map(|recipe| programs(recipe).len()).max().unwrap_or(0);
        let line = |recipe: &ListedRecipe| {
            format!("{:<name$}  {:<program$}  {}", recipe.name, programs(recipe), recipe.title)
        };
        recipes.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
