//! Commands that score a model or show the results of runs.

pub mod evaluate;
pub mod minimal_pairs;
pub mod predict;
pub mod probe;
pub mod report;
pub mod scores;
pub mod watch;

use std::path::{Path, PathBuf};

use bert_inference::Error;
use bert_task_files::{NewTexts, TextColumns};
use bert_text::TextFormat;

/// Flags for the texts of `--input`.
#[derive(clap::Args, Debug)]
pub struct InputArgs {
    /// Input format [default: from the file extension: .tsv; .csv; .jsonl, .ndjson, .json; .parquet; else text].
    #[arg(long = "format", value_name = "FORMAT", value_enum)]
    input_format: Option<TextFormat>,

    /// Table columns or JSON keys of the text and of the second text of a pair [default: as in the fine-tuning, else
    /// text and text_b, or question and context].
    #[arg(long, value_name = "TEXT[,TEXT_B]", value_delimiter = ',')]
    columns: Vec<String>,
}

impl InputArgs {
    /// Returns the texts of a file; `id` is the column that identifies them.
    ///
    /// # Errors
    /// Fails when there are more than two columns, or when columns are named and the file is plain text.
    fn texts<'a>(&self, source: &'a Path, id: Option<&str>) -> Result<NewTexts<'a>, Error> {
        if self.columns.len() > 2 {
            let reason = "takes one name, or two for a pair of texts".to_string();
            return Err(Error::option("columns", reason));
        }
        let is_text = self.input_format.unwrap_or_else(|| TextFormat::from_path(source)) == TextFormat::Text;
        let named = [("columns", !self.columns.is_empty()), ("id", id.is_some())];
        if let Some((flag, _)) = named.into_iter().find(|(_, is_given)| *is_given && is_text) {
            let reason =
                "applies to tables and JSON Lines; plain text has no columns (see --format)".to_string();
            return Err(Error::option(flag, reason));
        }
        let columns = TextColumns { texts: self.columns.clone(), id: id.map(str::to_string) };
        Ok(NewTexts { source, format: self.input_format, columns })
    }
}

/// Returns the runs in a folder: its subfolders that are runs, or the folder itself if it is a run or has no such
/// subfolder.
pub(crate) fn runs_in(path: &Path) -> Vec<PathBuf> {
    let is_run =
        |path: &Path| ["run.json", "report.json", ".runs"].iter().any(|name| path.join(name).exists());
    if is_run(path) {
        return vec![path.to_path_buf()];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut inside: Vec<PathBuf> = entries.filter(|path| is_run(path)).collect();
    inside.sort();
    if inside.is_empty() { vec![path.to_path_buf()] } else { inside }
}
