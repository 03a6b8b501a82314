//! Reads parallel text: two files whose lines correspond, or two columns of a table.

use std::path::{Path, PathBuf};

use bert_task_files::{read_file, read_lines};
use bert_tasks::{Example, TableDescription, Task};
use serde::Serialize;

use bert_storage::Error;

/// The name of the label column. No header contains it, because these tables have no labels.
const NO_LABEL: &str = "\u{0}";

/// Flags for the parallel text.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize)]
pub struct ParallelArgs {
    /// Source text, one sentence per line.
    #[arg(long, value_name = "FILE", requires = "target", required_unless_present = "table")]
    pub source: Option<PathBuf>,

    /// Target text; line N translates line N of --source.
    #[arg(long, value_name = "FILE", requires = "source")]
    pub target: Option<PathBuf>,

    /// Table with both texts (TSV, CSV, JSON Lines or Parquet), in place of --source and --target.
    #[arg(long, value_name = "FILE", requires = "columns", conflicts_with = "source")]
    pub table: Option<PathBuf>,

    /// Columns of the source and of the target in --table.
    #[arg(
        long,
        value_name = "SOURCE,TARGET",
        value_delimiter = ',',
        requires = "table",
        conflicts_with = "source"
    )]
    pub columns: Vec<String>,
}

/// A sentence and its translation.
#[derive(Clone, Debug, PartialEq)]
pub struct SentencePair {
    /// The sentence.
    pub source: String,
    /// The translation of the sentence.
    pub target: String,
}

/// Parallel text.
#[derive(Clone, Debug, PartialEq)]
pub struct ParallelText {
    /// The pairs, in the order of the files.
    pub pairs: Vec<SentencePair>,
    /// Number of pairs that were dropped because a side is empty.
    pub dropped: usize,
}

impl ParallelArgs {
    /// Reads the text and drops pairs with an empty side.
    ///
    /// # Errors
    /// Fails when a flag is missing, when a file cannot be read or is not UTF-8, when the two files have different
    /// numbers of lines, when the table lacks a column, or when no pair has text on both sides.
    pub fn read(&self) -> Result<ParallelText, Error> {
        let (path, mut pairs) = match (&self.table, &self.source, &self.target) {
            (Some(table), ..) => (table, self.read_table(table)?),
            (None, Some(source), Some(target)) => (source, read_files(source, target)?),
            _ => {
                let reason = "give `.source` and `.target`, or `.table` and `.columns`";
                return Err(Error::option("source", reason));
            }
        };
        let all = pairs.len();
        pairs.retain(|pair| !pair.source.trim().is_empty() && !pair.target.trim().is_empty());
        let dropped = all - pairs.len();
        if pairs.is_empty() {
            Err(Error::data(format!("no lines with text{}", if dropped > 0 { " on both sides" } else { "" }))
                .at(path))
        } else {
            Ok(ParallelText { pairs, dropped })
        }
    }

    fn read_table(&self, table: &Path) -> Result<Vec<SentencePair>, Error> {
        let [source, target] = self.columns.as_slice() else {
            return Err(Error::option("columns", "give two columns: SOURCE,TARGET"));
        };
        let columns = vec![source.clone(), target.clone(), NO_LABEL.to_string()];
        let task = Task::table(TableDescription { columns, ..TableDescription::default() })?;
        let pair = |example: Example| SentencePair {
            source: example.text_a,
            target: example.text_b.unwrap_or_default(),
        };
        Ok(read_file(&task, table, false)?.into_iter().map(pair).collect())
    }
}

fn read_files(source: &Path, target: &Path) -> Result<Vec<SentencePair>, Error> {
    let sources = read_lines(source)?;
    let targets = read_lines(target)?;
    check_lines((source, sources.len()), (target, targets.len()))?;
    let pair = |(source, target)| SentencePair { source, target };
    Ok(sources.into_iter().zip(targets).map(pair).collect())
}

/// Rejects two texts with different numbers of lines.
///
/// # Errors
/// Fails when the numbers of lines differ.
pub fn check_lines(source: (&Path, usize), target: (&Path, usize)) -> Result<(), Error> {
    if source.1 == target.1 {
        Ok(())
    } else {
        Err(Error::data(format!(
            "{} has {} lines, but {} has {}: line N of one must translate line N of the other",
            source.0.display(),
            source.1,
            target.0.display(),
            target.1
        )))
    }
}
