//! `bert inspect` shows the instances and statistics of a data folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bert_storage::is_url;
use clap::Args as ClapArgs;

use crate::output::files::{check_writable, write_file};
use crate::output::stdout::{print, print_json};
use crate::output::table::{FormatArgs, print_table};

/// Show instances and statistics of a data folder.
///
/// Prints instances as text with masks marked, counts, frequent tokens and digests. The table of --format has the counts
/// only.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Data folder made by make-pretrain-data, or its URL.
    data: PathBuf,

    /// Number of instances to show; default: 3, or 20 on a page.
    #[arg(long, value_name = "N")]
    instances: Option<usize>,

    /// Show only the instance with this index, counted from 0 over all shards.
    #[arg(long, value_name = "N", conflicts_with_all = ["instances", "format"])]
    index: Option<u64>,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    format: FormatArgs,

    /// Write a self-contained HTML page instead; the default is DATA.html next to the folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "format", "index"])]
    html: Option<Option<PathBuf>>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(index) = args.index {
        let instance = bert_data::inspect::instance(&args.data, index)?;
        return match args.json {
            true => print_json(&serde_json::json!({ "index": index, "instance": instance })),
            false => print(&instance),
        };
    }
    if let Some(file) = &args.html {
        let file = file.clone().map_or_else(|| default_page(&args.data), Ok)?;
        // Reading the rows takes long, so everything else is checked first.
        bert_data::DataSet::open(&args.data)?;
        check_writable(&file)?;
        let page = bert_data::inspect::page::page(&args.data, args.instances.unwrap_or(20))?;
        write_file(&file, &page)?;
        return print(&file.display().to_string());
    }
    let inspection = bert_data::inspect(&args.data, args.instances.unwrap_or(3))?;
    print_table(args.json, args.format, &inspection, ToString::to_string)
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
