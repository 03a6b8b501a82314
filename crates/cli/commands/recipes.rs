//! `bert recipes` lists the recipes of `--recipe`, or shows one.

use clap::Parser;
use serde::Serialize;

use crate::options::recipe::{Recipe, names, parse_name, text};
use crate::output::stdout::{print, print_json};
use crate::output::table::{Column, FormatArgs, Table, Tabular, print_table};

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

/// The list as JSON.
#[derive(Serialize)]
struct Listed {
    recipes: Vec<ListedRecipe>,
}

/// A recipe of the list.
#[derive(Serialize)]
struct ListedRecipe {
    name: &'static str,
    programs: Vec<&'static str>,
    title: String,
}

impl Tabular for Listed {
    fn table(&self) -> Table {
        let row = |recipe: &ListedRecipe| {
            vec![recipe.name.to_string(), recipe.programs.join(", "), recipe.title.clone()]
        };
        Table {
            columns: ["recipe", "programs", "result"].map(Column::text).into(),
            rows: self.recipes.iter().map(row).collect(),
            ..Table::default()
        }
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
    let list = Listed { recipes: recipes.collect::<anyhow::Result<_>>()? };
    print_table(args.format, &list, |list| {
        let programs = |recipe: &ListedRecipe| recipe.programs.join(", ");
        let name = list.recipes.iter().map(|recipe| recipe.name.len()).max().unwrap_or(0);
        let program = list.recipes.iter().map(|recipe| programs(recipe).len()).max().unwrap_or(0);
        let line = |recipe: &ListedRecipe| {
            format!("{:<name$}  {:<program$}  {}", recipe.name, programs(recipe), recipe.title)
        };
        list.recipes.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
