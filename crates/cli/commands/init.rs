//! `bert init` writes a folder of fresh weights, for `--init-checkpoint` or another trainer.

use std::path::PathBuf;

use bert_data::DataSet;
use bert_trainer::export::{check_export_folder, export_fresh};
use bert_trainer::initialization::{FreshWeights, InitializationChoice, named_model};
use bert_trainer::text::Text;
use clap::{ArgAction, Args as ClapArgs};

use crate::exit::print;

/// Write fresh weights as a Hugging Face folder that any trainer of BERT can start from.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// As in the paper (reference), with heads that look at neighbours (neighbours), or these and word embeddings from
    /// counts of the text (counts; needs --data) [default: counts with --data, neighbours with --vocab].
    #[arg(long, value_enum)]
    initialization: Option<InitializationChoice>,

    /// Data folder made by make-pretrain-data: its vocabulary, and the text that is counted.
    #[arg(long, value_name = "DIR", required_unless_present = "vocab", conflicts_with = "vocab")]
    data: Option<PathBuf>,

    /// Vocabulary of the model, where no text is counted.
    #[arg(long, value_name = "FILE")]
    vocab: Option<PathBuf>,

    /// Whether the tokenizer lower-cases, with --vocab.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, conflicts_with = "data")]
    do_lower_case: bool,

    /// Model size (tiny, mini, small, medium, base, large) or a config.json.
    #[arg(long, value_name = "SIZE|FILE")]
    model: String,

    /// Seed of the random values.
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,

    /// Folder to write, empty or new.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When data or vocabulary cannot be read, the shape has no room for the initialization, or the folder cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    // Counting the text takes long.
    check_export_folder(&args.output)?;
    let (fresh, model, text) = match (&args.data, &args.vocab) {
        (Some(data), _) => {
            let data = DataSet::open(data)?;
            let model = named_model(&args.model, data.manifest().vocabulary.size)?;
            let choice = args.initialization.unwrap_or_default();
            let fresh = FreshWeights::new(choice, &data, &model, args.seed)?;
            (fresh, model, Text::of_data(&data))
        }
        (None, vocab) => {
            let vocab = vocab.as_deref().expect("clap asks for one of both");
            let text = Text::of_vocabulary(vocab, args.do_lower_case)?;
            let model = named_model(&args.model, text.vocabulary.len())?;
            let choice = args.initialization.unwrap_or(InitializationChoice::Neighbours);
            (FreshWeights::uncounted(choice)?, model, text)
        }
    };
    export_fresh(&fresh, &model, args.seed, &text, &args.output)?;
    print(&format!("{} -> {}", fresh.choice().name(), args.output.display()))
}
