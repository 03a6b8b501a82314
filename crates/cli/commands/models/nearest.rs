//! `bert nearest` prints the words or sentences nearest to a query, of several models next to each other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bert_inference::{DEVICE_HELP, DeviceName, ModelOptions, NeighbourSearch, Neighbours, builtin_model};
use bert_task_files::TextLines;
use clap::Args as ClapArgs;
use serde::Serialize;

use crate::commands::{at_least, model_folder, selected_device};
use crate::output::progress::print_warning;
use crate::output::table::{Column, FormatArgs, Table, as_table, print_table};
use crate::process::threads::ThreadArgs;

/// Find the words or sentences nearest to a query, by cosine.
///
/// Without --input, the neighbours of a word are words of the vocabulary, compared by their word embeddings. A word that
/// the vocabulary has in pieces is the mean of its pieces. With --input, the neighbours of a sentence are lines of a
/// file, compared by their pooled hidden states.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Pre-training run, checkpoint, fine-tuned model or Hugging Face folder; several separated by commas.
    #[arg(long, value_name = "DIR,...", value_delimiter = ',', default_value = builtin_model::NAME)]
    checkpoint: Vec<PathBuf>,

    /// Words, or sentences with --input.
    #[arg(required = true, value_name = "QUERY")]
    queries: Vec<String>,

    /// Search among sentences: a file with one text per line. Each is pooled as the model states, else by the mean of
    /// its last hidden states.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Number of neighbours of each query.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least(1))]
    top_k: usize,

    /// Maximum sequence length of --input, including special tokens; longer texts are truncated [default: as the model was
    /// trained; at most 128 if that is not known].
    #[arg(long, value_name = "N", value_parser = at_least(5), requires = "input")]
    max_seq_length: Option<usize>,

    /// Compute device.
    #[arg(long, requires = "input", value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,
}

/// The neighbours that one model finds.
#[derive(Serialize)]
struct ModelNeighbours {
    checkpoint: PathBuf,
    queries: Vec<Neighbours>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let options = ModelOptions::default().with_max_length(args.max_seq_length);
    let options = options.with_device(selected_device(args.device)?);
    let models = args.checkpoint.iter().map(|checkpoint| {
        let folder = model_folder(checkpoint)?;
        let search = match &args.input {
            Some(input) => NeighbourSearch::among_texts(&folder, &TextLines::trimmed(input), options)?,
            None => NeighbourSearch::among_words(&folder)?,
        };
        search.messages().iter().for_each(print_warning);
        let queries = args.queries.iter().map(|query| search.nearest(query, args.top_k));
        anyhow::Ok(ModelNeighbours {
            checkpoint: checkpoint.clone(),
            queries: queries.collect::<Result<_, _>>()?,
        })
    });
    let models = models.collect::<anyhow::Result<Vec<_>>>()?;
    print_table(args.format, &BTreeMap::from([("models", &models)]), table(&models), as_table)
}

/// Returns a table with a row for each query and rank.
fn table(models: &[ModelNeighbours]) -> Table {
    let mut columns = vec![Column::text("query"), Column::number("rank")];
    let mut notes = Vec::new();
    for model in models {
        let name = model.checkpoint.display();
        columns.push(Column::text(name.to_string()));
        columns.push(Column::number(format!("cosine in {name}")).with_priority(1));
        let in_pieces = model.queries.iter().filter(|found| !found.pieces.is_empty());
        notes.extend(in_pieces.map(|found| format!("{} in {name}: {}", found.query, found.pieces.join(" "))));
    }
    let mut rows = Vec::new();
    for (at, query) in models[0].queries.iter().enumerate() {
        let found = models.iter().map(|model| model.queries[at].neighbours.len()).max().unwrap_or(0);
        for rank in 0..found {
            let mut row = vec![query.query.clone(), (rank + 1).to_string()];
            for model in models {
                let near = model.queries[at].neighbours.get(rank);
                row.push(near.map_or(String::new(), |near| near.text.clone()));
                row.push(near.map_or(String::new(), |near| format!("{:.4}", near.cosine)));
            }
            rows.push(row);
        }
    }
    Table { columns, rows, notes, ..Table::default() }
}
