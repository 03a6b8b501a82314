//! `bert probe` changes one word of a text and shows which predictions flip.

use std::path::PathBuf;

use bert_inference::model_dir::builtin_model;
use bert_inference::{DEVICE_HELP, DeviceName, Error};
use bert_inference::{Prediction, Probe, Prober, Replacement, Saliency, WordSaliency};
use bert_pages::{Head, colored_words, page, verdict};
use bert_task_files::{NewTexts, TextColumns};
use bert_text::table::TextFormat;
use bert_training::evaluation::probed_instances::probe_instances;
use clap::{ArgGroup, Args as ClapArgs};
use maud::{Markup, html};
use serde::Serialize;

use crate::commands::hub::pinned;
use crate::commands::{selected_device, text_or_pair, tuned_folder};
use crate::output::table::{Column, OutputFormatArgs, Table, Tabular, print_table};
use crate::process::threads::ThreadArgs;

/// Change one word of a text and show which predictions flip.
///
/// Every prediction is shown with its probability before and after the change.
/// A fine-tuned model predicts the class; a pre-trained model predicts the word at every `[MASK]`.
#[derive(ClapArgs, Debug)]
#[command(group(ArgGroup::new("texts").args(["text", "input", "data"]).required(true)))]
#[command(group(ArgGroup::new("method").args(["replace", "saliency"]).required(true)))]
pub struct Args {
    /// Pre-training run, checkpoint, output folder of finetune, or Hugging Face folder.
    #[arg(long, value_name = "DIR", default_value = builtin_model::NAME)]
    checkpoint: PathBuf,

    /// Checkpoint on which an adapter was trained [default: the one named in the adapter folder].
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,

    /// Input text; `A ||| B` is a sentence pair.
    #[arg(conflicts_with_all = ["input", "data"])]
    text: Option<String>,

    /// Input file, or - for standard input.
    #[arg(long, value_name = "FILE|-", conflicts_with = "data")]
    input: Option<PathBuf>,

    /// Input format [default: from the file extension: .tsv; .csv; .jsonl, .ndjson, .json; .parquet; else text].
    #[arg(long, value_enum, requires = "input")]
    format: Option<TextFormat>,

    /// Data folder made by make-pretrain-data; its masked instances are the input.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Number of instances from --data [default: 100].
    #[arg(long, value_name = "N", requires = "data", value_parser = clap::value_parser!(u64).range(1..))]
    instances: Option<u64>,

    /// Word to replace, given by its number (from 1) or as text, and its replacement; each replacement is tested
    /// separately.
    #[arg(long, value_name = "WORD=WORD,...")]
    replace: Vec<Replacement>,

    /// Show the effect of every word of the text on its predictions: gradient times input, and the fall of the probability
    /// without the word.
    #[arg(long, conflicts_with_all = ["replace", "input", "data"])]
    saliency: bool,

    /// Compute device.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Flex, help = DEVICE_HELP)]
    device: DeviceName,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    output_format: OutputFormatArgs,

    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Probes {
    changes: usize,
    predictions: usize,
    flips: usize,
    probes: Vec<Probe>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let encoder = args.encoder.as_deref().map(|path| pinned(path, false)).transpose()?;
    let folder = tuned_folder(&args.checkpoint)?;
    let prober = Prober::open(&folder, encoder.as_deref(), selected_device(args.device)?)?;
    if args.saliency {
        return show_saliency(args, &prober);
    }
    let probes = match (&args.text, &args.input, &args.data) {
        (_, _, Some(data)) => {
            probe_instances(&prober, &folder, data, args.instances.unwrap_or(100), &args.replace)?
        }
        (_, Some(source), _) => {
            let texts = NewTexts { source, format: args.format, columns: TextColumns::default() };
            prober.source(&texts, &args.replace)?
        }
        (text, ..) => prober.text(text_or_pair(text.as_deref().unwrap_or_default()), &args.replace)?,
    };
    let all = || probes.iter().flat_map(|probe| &probe.predictions);
    let predictions = all().count();
    let flips = all().filter(|prediction| prediction.flips).count();
    if predictions == 0 {
        let reason = match (probes.is_empty(), &args.text) {
            (true, Some(text)) => {
                format!("the text has none of these words; its words are: {}", prober.words_of(text_or_pair(text)).join(" "))
            }
            (true, None) => "none of these words is in any of the texts".to_string(),
            (false, _) => {
                "the model has no classifier and the text no [MASK], so nothing is predicted: add a [MASK] to the text"
                    .to_string()
            }
        };
        return Err(Error::Configuration { flag: "replace", reason }.into());
    }
    let probes = Probes { changes: probes.len(), predictions, flips, probes };
    print_table(args.json, args.output_format.into(), &probes, |result| {
        let lines: Vec<String> = result.probes.iter().map(Probe::to_string).collect();
        format!("{}\n\n{}", lines.join("\n"), result.totals())
    })
}

/// The result of `--saliency` as JSON.
#[derive(Serialize)]
struct SaliencyMaps {
    saliency: Vec<Saliency>,
}

impl Tabular for SaliencyMaps {
    /// Returns a row for each prediction and word.
    fn table(&self) -> Table {
        let row = |map: &Saliency, word: &WordSaliency| {
            let probability = map.probability.map_or("-".to_string(), |value| format!("{value:.4}"));
            let left_out = word.leave_one_out.map_or("-".to_string(), |value| format!("{value:.4}"));
            let gradient = format!("{:.4}", word.gradient_times_input);
            let prediction = [map.of.clone(), map.answer.clone(), probability];
            let about_word = [word.position.to_string(), word.word.clone(), gradient, left_out];
            prediction.into_iter().chain(about_word).collect()
        };
        let rows = self.saliency.iter().flat_map(|map| map.words.iter().map(move |word| row(map, word)));
        let columns = vec![
            Column::text("prediction of"),
            Column::text("answer"),
            Column::count("p"),
            Column::count("position"),
            Column::text("word"),
            Column::number("gradient x input"),
            Column::number("leave one out"),
        ];
        Table { title: TITLE.into(), columns, rows: rows.collect(), ..Table::default() }
    }

    /// Returns a page with the text of each prediction, its words coloured by their effects.
    fn html(&self) -> String {
        let words = |map: &Saliency, value: fn(&WordSaliency) -> Option<f32>| {
            let effect = |word| f64::from(value(word).unwrap_or(0.0));
            colored_words(
                &map.words.iter().map(|word| (word.word.as_str(), effect(word))).collect::<Vec<_>>(),
            )
        };
        let body = html! {
            @for map in &self.saliency {
                (verdict("plain", &result(map), ""))
                h2 { "Without the word: the fall of the probability" }
                (words(map, |word| word.leave_one_out))
                h2 { "Gradient times input" }
                (words(map, |word| Some(word.gradient_times_input)))
            }
            p.note { "Blue words support the answer, orange words speak against it." }
            details { summary { "All values" } (self.table().section(&Markup::default())) }
        };
        page(&Head { title: TITLE, about: &[] }, &body)
    }
}

/// The title of the page of word effects.
const TITLE: &str = "Words that support the answer";

/// Returns a prediction and its most important word in a sentence.
fn result(map: &Saliency) -> String {
    let probability = map.probability.map_or(String::new(), |value| format!(" ({:.1} %)", 100.0 * value));
    let effect = |word: &&WordSaliency| word.leave_one_out.unwrap_or(f32::MIN);
    let most = map.words.iter().max_by(|a, b| effect(a).total_cmp(&effect(b)));
    let most = most.and_then(|word| {
        Some(format!("; without \u{201c}{}\u{201d} it falls by {:.3}", word.word, word.leave_one_out?))
    });
    format!("{}: {}{probability}{}.", map.of, map.answer, most.unwrap_or_default())
}

/// Prints the effect of every word.
fn show_saliency(args: &Args, prober: &Prober) -> anyhow::Result<()> {
    let saliency = prober.saliency(text_or_pair(args.text.as_deref().unwrap_or_default()))?;
    print_table(args.json, args.output_format.into(), &SaliencyMaps { saliency }, |maps| {
        maps.saliency.iter().map(Saliency::to_string).collect::<Vec<String>>().join("\n\n")
    })
}

impl Probes {
    fn totals(&self) -> String {
        format!("changes {}, predictions {}, flips {}", self.changes, self.predictions, self.flips)
    }
}

impl Tabular for Probes {
    /// Returns a row for each prediction.
    fn table(&self) -> Table {
        let probability = |value: Option<f32>| value.map_or("-".to_string(), |value| format!("{value:.4}"));
        let mut rows = Vec::new();
        for Probe { source, text, position, word, replaced_by, predictions } in &self.probes {
            for Prediction { of, truth, before, after, before_now, flips } in predictions {
                let change =
                    [source.clone(), text.clone(), position.to_string(), word.clone(), replaced_by.clone()];
                let guesses =
                    [before, after].map(|guess| [guess.answer.clone(), probability(guess.probability)]);
                let truth = truth.clone().unwrap_or_default();
                let rest = [probability(*before_now), flips.to_string(), truth];
                let cells = [of.clone()].into_iter().chain(guesses.into_iter().flatten()).chain(rest);
                rows.push(change.into_iter().chain(cells).collect());
            }
        }
        let columns = vec![
            Column::text("source").with_priority(5),
            Column::text("text").with_priority(2),
            Column::count("position").with_priority(4),
            Column::text("word"),
            Column::text("replaced by"),
            Column::text("prediction of").with_priority(3),
            Column::text("before"),
            Column::number("p before"),
            Column::text("after"),
            Column::number("p after"),
            Column::number("p of the earlier answer after").with_priority(3),
            Column::text("flips"),
            Column::text("truth").with_priority(1),
        ];
        let percent = 100.0 * self.flips as f64 / self.predictions.max(1) as f64;
        let verdict = format!("{} of {} predictions flip ({percent:.1} %).", self.flips, self.predictions);
        Table {
            title: "Replaced words".into(),
            verdict,
            columns,
            rows,
            notes: vec![self.totals()],
            ..Table::default()
        }
    }
}
