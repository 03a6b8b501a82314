//! `bert inspect` shows the instances and statistics of a data folder, or the uses of a model folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_inference::builtin_model;
use bert_inference::hub_model::hub_name;
use bert_model::{WeightsFiles, find_config};
use bert_reports::{FolderUses, folder_uses};
use bert_storage::is_url;
use clap::Args as ClapArgs;

use crate::commands::model_folder;
use crate::output::files::{OverwriteArgs, write_text};
use crate::output::stdout::{print, print_json};
use crate::output::table::{Column, FormatArgs, Table, data_report_table, print_table};

/// Show the contents of a data folder or of a model folder.
///
/// For data: instances as text with masks marked, counts, frequent tokens and digests; the table of --format has the
/// counts only. For a model: the form of its weights, its class, and the commands that accept it.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Data folder made by make-pretrain-data, or its URL; or a folder with a published or trained model.
    data: PathBuf,

    /// Number of instances to show; default: 3, or 20 on a page.
    #[arg(long, value_name = "N")]
    instances: Option<usize>,

    /// Show only the instance with this index, counted from 0 over all shards.
    #[arg(long, value_name = "N", conflicts_with_all = ["instances", "format"])]
    index: Option<u64>,

    #[command(flatten)]
    format: FormatArgs,

    /// Write a self-contained HTML page instead; the default is DATA.html next to the folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "format", "index"])]
    html: Option<Option<PathBuf>>,

    #[command(flatten)]
    overwrite: OverwriteArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if is_model(&args.data) {
        let is_of_data = args.instances.is_some() || args.index.is_some() || args.html.is_some();
        anyhow::ensure!(!is_of_data, "{}: this is a model; it has no instances to show", args.data.display());
        let uses = folder_uses(&model_folder(&args.data)?)?;
        return print_table(args.format, &uses, table(&uses), |_| uses.to_string());
    }
    if let Some(index) = args.index {
        let instance = bert_data::inspect_instance(&args.data, index)?;
        return if args.format.is_json() {
            print_json(&serde_json::json!({ "index": index, "instance": instance }))
        } else {
            print(&instance)
        };
    }
    if let Some(file) = &args.html {
        let file = file.clone().map_or_else(|| default_page(&args.data), Ok)?;
        // Reading the rows takes a long time, so everything else is checked first.
        bert_data::DataSet::open(&args.data)?;
        let output = args.overwrite.output(&file)?;
        let page = bert_data::page::page(&args.data, args.instances.unwrap_or(20))?;
        write_text(&output, &page)?;
        return print(&file.display().to_string());
    }
    let inspection = bert_data::inspect(&args.data, args.instances.unwrap_or(3))?;
    print_table(args.format, &inspection, data_report_table(&inspection.manifest.report), |_| {
        inspection.to_string()
    })
}

/// Returns a table with a row for each use of a model folder.
fn table(uses: &FolderUses) -> Table {
    let rows = uses.uses.iter().map(|row| vec![row.commands.to_string(), row.state.clone()]);
    let columns = ["commands", "state"].map(Column::text).to_vec();
    Table { columns, rows: rows.collect(), ..Table::default() }
}

/// Returns whether a path is a built-in model, a model folder or a run rather than a data folder.
fn is_model(path: &Path) -> bool {
    let is_run = || path.join("checkpoints").is_dir() || path.join("model/config.json").exists();
    !is_url(path)
        && !path.join("manifest.json").exists()
        && (builtin_model::meant(path).is_some()
            || hub_name(path).is_some()
            || bert_hub::snapshot(path).is_some()
            || find_config(path).is_some()
            || is_run()
            || matches!(WeightsFiles::find(path), Ok(Some(_))))
}

/// Returns the path `DATA.html` next to the data folder, if the folder is on a local disk.
fn default_page(data: &Path) -> anyhow::Result<PathBuf> {
    if is_url(data) {
        anyhow::bail!("--html needs a file name, because the data folder is a URL: --html FILE");
    }
    let data = data.canonicalize().with_context(|| format!("cannot open {}", data.display()))?;
    let mut name =
        data.file_name().context("--html needs a file name for this folder: --html FILE")?.to_owned();
    name.push(".html");
    Ok(data.with_file_name(name))
}
