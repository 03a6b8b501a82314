//! `bert translate score` computes BLEU and chrF of translations.

use std::fmt::Write as _;
use std::path::PathBuf;

use bert_storage::Error;
use bert_task_files::read_lines;
use bert_tasks::{BleuTokenizer, ScoreSummary, TranslationMetric, summarize};
use bert_translation::{check_lines, is_wide};
use clap::Args as ClapArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::output::progress::print_note;
use crate::output::stdout::print_result;

/// Compute BLEU and chrF of translations, as sacreBLEU does.
///
/// With several files of translations, such as one for each seed, it prints every score, their mean, and a bootstrap
/// interval over sentences and runs.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Translations, one per line; a file for each run.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    hypotheses: Vec<PathBuf>,

    /// References, one per line; several files are alternatives.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    references: Vec<PathBuf>,

    /// Tokenizer of BLEU, as in sacreBLEU: zh for Chinese, char for other languages without spaces.
    #[arg(long, value_name = "NAME", default_value = BleuTokenizer::default().name(), value_parser = tokenizers())]
    tokenize: BleuTokenizer,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Returns the parser of `--tokenize`.
fn tokenizers() -> impl TypedValueParser<Value = BleuTokenizer> {
    let named = |name: String| BleuTokenizer::ALL.into_iter().find(|tokenizer| tokenizer.name() == name);
    PossibleValuesParser::new(BleuTokenizer::ALL.map(BleuTokenizer::name))
        .map(move |name| named(name).expect("one of the names"))
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let read = |paths: &[PathBuf]| -> anyhow::Result<Vec<Vec<String>>> {
        paths.iter().map(|path| Ok(read_lines(path)?)).collect()
    };
    let runs = read(&args.hypotheses)?;
    let references = read(&args.references)?;
    let first_path = args.references[0].as_path();
    let first = &references[0];
    if first.is_empty() {
        let path = first_path.to_path_buf();
        return Err(Error::data("no lines with text").at(path).into());
    }
    let files = args.hypotheses.iter().zip(&runs).chain(args.references.iter().zip(&references));
    for (path, lines) in files {
        check_lines((first_path, first.len()), (path, lines.len()))?;
    }
    let alternatives = |at: usize| references.iter().map(|file| file[at].clone()).collect();
    let references: Vec<Vec<String>> = (0..first.len()).map(alternatives).collect();
    let wide = references.iter().filter(|lines| lines[0].contains(is_wide)).count();
    if args.tokenize == BleuTokenizer::V13a && 2 * wide > references.len() {
        print_note(
            "BLEU counts words between spaces, and the references are Chinese or Japanese: use --tokenize zh or char",
        );
    }
    let metrics = TranslationMetric::all(args.tokenize);
    let scores = metrics.map(|metric| summarize(metric, &runs, &references));
    print_result(args.json, &scores, |scores| table(scores, references.len()))
}

fn table(scores: &[ScoreSummary], sentences: usize) -> String {
    let mut text = format!("{sentences} sentences");
    for ScoreSummary { metric, runs, mean, low, high } in scores {
        let _ = write!(text, "\n{}: {mean:.2} (95 % interval {low:.2} to {high:.2})", metric.name());
        if runs.len() > 1 {
            let all: Vec<String> = runs.iter().map(|score| format!("{score:.2}")).collect();
            let _ = write!(text, ", runs {}", all.join(", "));
        }
    }
    text
}
