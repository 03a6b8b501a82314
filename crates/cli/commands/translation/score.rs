//! `bert translate score` computes BLEU and chrF of translations.

use std::fmt::Write as _;
use std::path::PathBuf;

use bert_tasks::read_lines;
use bert_tasks::translation_metrics::TranslationMetric;
use bert_tasks::translation_metrics::bootstrap::{ScoreSummary, summarize};
use bert_translation::text::parallel::check_lines;
use clap::Args as ClapArgs;

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

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let read = |paths: &[PathBuf]| -> anyhow::Result<Vec<Vec<String>>> {
        paths.iter().map(|path| Ok(read_lines(path)?)).collect()
    };
    let (runs, references) = (read(&args.hypotheses)?, read(&args.references)?);
    let (first_path, first) = (args.references[0].as_path(), &references[0]);
    if first.is_empty() {
        let path = first_path.to_path_buf();
        return Err(bert_translation::Error::NoText { path, dropped: 0 }.into());
    }
    let files = args.hypotheses.iter().zip(&runs).chain(args.references.iter().zip(&references));
    for (path, lines) in files {
        check_lines((first_path, first.len()), (path, lines.len()))?;
    }
    let of_sentence = |at: usize| references.iter().map(|file| file[at].clone()).collect();
    let references: Vec<Vec<String>> = (0..first.len()).map(of_sentence).collect();
    let scores = TranslationMetric::ALL.map(|metric| summarize(metric, &runs, &references));
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
