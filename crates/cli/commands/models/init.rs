//! `bert init` writes a folder of initial weights, for `--init-checkpoint` or another trainer.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, PartialSettings};
use bert_inference::{ModelTokenizer, StopFlag};
use bert_reports::{check_export_folder, export_fresh};
use bert_training::{FreshWeights, InitializationChoice, data_tokenizer, named_model};
use clap::{ArgGroup, Args as ClapArgs};
use serde::Serialize;

use crate::output::counting::CountingView;
use crate::output::progress::print_note;
use crate::output::stdout::print_result;
use crate::process::threads::ThreadArgs;

/// Write initial weights as a Hugging Face folder.
///
/// Any BERT trainer can start from it.
#[derive(ClapArgs, Debug)]
#[command(group(ArgGroup::new("source").args(["data", "vocab"]).required(true)))]
pub struct Args {
    /// Initialization: as in the paper (reference); with attention heads that attend to the previous and next token
    /// (previous-next); or with these heads and word embeddings from bigram counts of the text (bigram; needs --data)
    /// [default: bigram with --data, previous-next with --vocab].
    #[arg(long, value_enum)]
    initialization: Option<InitializationChoice>,

    /// Data folder made by make-pretrain-data; supplies the vocabulary and the text for the bigram counts.
    #[arg(long, value_name = "DIR", conflicts_with = "vocab")]
    data: Option<PathBuf>,

    /// Vocabulary of the model, if no --data is given: vocab.txt, tokenizer.json or a model folder.
    #[arg(long, value_name = "FILE|DIR")]
    vocab: Option<PathBuf>,

    /// Whether the tokenizer lower-cases, with --vocab [default: from the tokenizer files next to the vocabulary, else
    /// true unless the vocabulary is cased].
    #[arg(long, value_name = "BOOL", conflicts_with = "data")]
    do_lower_case: Option<bool>,

    /// Whether the tokenizer strips accents, with --vocab [default: from the tokenizer files, else as --do-lower-case].
    #[arg(long, value_name = "BOOL", conflicts_with = "data")]
    strip_accents: Option<bool>,

    /// Whether the tokenizer splits Chinese characters into separate words, with --vocab [default: from the tokenizer
    /// files, else true].
    #[arg(long, value_name = "BOOL", conflicts_with = "data")]
    tokenize_chinese_chars: Option<bool>,

    /// Model size (tiny, mini, small, medium, base, large) or path of a config.json.
    #[arg(long, value_name = "SIZE|FILE")]
    model: String,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,

    /// Output folder, empty or new.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Initialized<'a> {
    initialization: InitializationChoice,
    parameters: usize,
    seed: u64,
    output: &'a Path,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    // Check this first, because counting the text takes long.
    check_export_folder(&args.output)?;
    let note = &mut |note: String| print_note(note);
    let stated = PartialSettings {
        do_lower_case: args.do_lower_case,
        strip_accents: args.strip_accents,
        tokenize_chinese_chars: args.tokenize_chinese_chars,
        ..PartialSettings::default()
    };
    let (fresh, model, text) = match (&args.data, &args.vocab) {
        (Some(data), _) => {
            let data = DataSet::open(data)?;
            let model = named_model(&args.model, data.manifest().vocabulary.size, note)?;
            let choice = args.initialization.unwrap_or_default();
            let mut view = CountingView::new(false);
            let show = &mut |event| view.show(&event);
            let fresh = choice.weights(&[(data.clone(), 1.0)], &model, args.seed, &StopFlag::new(), show)?;
            (fresh, model, data_tokenizer(&data))
        }
        (None, vocab) => {
            let vocab = vocab.as_deref().expect("clap asks for one of both");
            let text = ModelTokenizer::from_vocabulary(vocab, stated)?;
            let model = named_model(&args.model, text.vocabulary.len(), note)?;
            let choice = args.initialization.unwrap_or(InitializationChoice::PreviousNext);
            (FreshWeights::uncounted(choice)?, model, text)
        }
    };
    export_fresh(&fresh, &model, args.seed, &text, &args.output)?;
    let result = Initialized {
        initialization: fresh.choice(),
        parameters: model.pretraining_parameter_count(),
        seed: args.seed,
        output: &args.output,
    };
    print_result(args.json, &result, |result| {
        format!("{} -> {}", result.initialization.name(), result.output.display())
    })
}
