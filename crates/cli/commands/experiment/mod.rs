//! `bert experiment` repeats an experiment of a course report and writes one page and one table.

mod args;
mod definition;
mod estimate;
mod forgetting;
mod held_out_text;
mod masking;
mod plan;
mod probe;
mod scored;
mod table;
mod train;

use std::collections::BTreeMap;

use bert_pages::{Head, chart_page};
use bert_storage::{commit, write_json_atomic};
use bert_tasks::Task;
use maud::{Markup, html};
use serde::Serialize;

pub use crate::commands::experiment::args::Args;
use crate::commands::experiment::definition::Experiment;
use crate::commands::experiment::table::{Report, Results};
use crate::output::files::write_own_file;
use crate::output::progress::{duration, print_note_unless};
use crate::output::table::{Column, Table, as_table, print_table};
use crate::process::signals::stop_on_signals;

/// Returns the names of the experiments.
pub(super) fn names() -> Vec<&'static str> {
    definition::names().collect()
}

/// An experiment in the list.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
    tasks: Vec<Task>,
    settings: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(name) = &args.name else { return list(args) };
    let experiment = Experiment::named(name)?;
    args.check(name)?;
    args.threads.start_pool();
    let stop = stop_on_signals()?;
    let report = match name.as_str() {
        "masking" => Some(masking::run(args, &experiment)?),
        "forgetting" => forgetting::run(args, &experiment, &stop)?,
        "probe" => probe::run(args, &experiment, &stop)?,
        _ => scored::run(args, &experiment, &stop)?,
    };
    let Some(Report { results, body }) = report else { return Ok(()) };
    if let Some(output) = &args.output {
        write_own_file(&output.join("experiment.html"), &page(&results, &body))?;
        write_own_file(&output.join("experiment.md"), &markdown(&results))?;
        write_json_atomic(&output.join("experiment.json"), &results)?;
        let page = output.join("experiment.html");
        print_note_unless(args.run.quiet, format!("page: {}", page.display()));
    }
    print_table(args.format, &results, results.table(), as_table)
}

/// Returns the page in Markdown.
fn markdown(results: &Results) -> String {
    format!("# {}\n\n{}\n\n{}", results.title, results.about, results.table().markdown())
}

/// Prints the list of the experiments.
fn list(args: &Args) -> anyhow::Result<()> {
    let listed = Experiment::all()?.into_iter().map(|experiment| Listed {
        name: experiment.name,
        title: experiment.title,
        tasks: experiment.tasks,
        settings: experiment.settings.into_iter().map(|setting| setting.name).collect(),
    });
    let experiments = listed.collect::<Vec<_>>();
    let value = BTreeMap::from([("experiments", &experiments)]);
    print_table(args.format, &value, list_table(&experiments), |_| {
        let line = |one: &Listed| format!("{:<16}{}", one.name, one.title);
        experiments.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

/// Returns a table with a row for each experiment.
fn list_table(experiments: &[Listed]) -> Table {
    let row = |one: &Listed| {
        let tasks: Vec<String> = one.tasks.iter().map(ToString::to_string).collect();
        vec![one.name.to_string(), one.title.clone(), tasks.join(", "), one.settings.join(", ")]
    };
    Table {
        columns: ["experiment", "title", "tasks", "settings"].map(Column::text).into(),
        rows: experiments.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Renders the page.
fn page(results: &Results, body: &Markup) -> String {
    let estimate = results.estimated_seconds.map(|seconds| format!(", estimated {}", duration(seconds)));
    let started = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let about = [
        format!("Experiment {}", results.experiment),
        results.checkpoints.join(", "),
        started.replace('T', " ").replace('Z', " UTC"),
        format!("{}{}", duration(results.seconds), estimate.unwrap_or_default()),
        format!("commit {}", commit().get(..7).unwrap_or(commit())),
    ];
    let page = html! {
        (results.table().section(body))
        details { summary { "About this experiment" } p { (results.about) } }
    };
    chart_page(&Head { title: &results.title, about: &about }, &page)
}
