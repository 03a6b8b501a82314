//! `bert quickstart` runs every stage on the embedded corpus in a few minutes.
//!
//! It makes a vocabulary and shards, pre-trains, fine-tunes with and without the pre-training, and writes HTML reports.
//! Then it prints a table of the results next to the baselines. The figures show that the programs work, not how good a
//! BERT can be: the corpus has 420 short articles.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use bert_data::make_vocab::{VocabConfig, train_vocabulary};
use bert_data::{BuildConfig, Layout, build};
use bert_storage::write_atomic;
use bert_trainer::baselines::{Baselines, baselines};
use bert_trainer::data_loader::DataLoader;
use bert_trainer::evaluation::Evaluation;
use bert_trainer::finetune::{Choices, FinetuneConfig, FinetuneReport, Seeds, Selection};
use bert_trainer::pretrain::{PretrainEvent, pretrain};
use bert_trainer::report::report;
use bert_trainer::tasks::Metric;
use bert_trainer::{PretrainConfig, StopFlag};
use clap::Args as ClapArgs;

use crate::commands::finetune::tune;
use crate::commands::make_pretrain_data::shown;
use crate::commands::pretrain::View as PretrainView;
use crate::commands::write_file;
use crate::exit::print;
use crate::progress::{duration, say};
use crate::signals::stop_on_signals;

/// A subject of the embedded articles: its label, its training articles and its held-out articles.
struct Subject {
    name: &'static str,
    train: [&'static str; 2],
    held_out: [&'static str; 2],
}

macro_rules! subject {
    ($name:literal) => {
        Subject {
            name: $name,
            train: [
                include_str!(concat!("../../../corpora/almanac/train/", $name, ".txt")),
                include_str!(concat!("../../../corpora/yearbook/train/", $name, ".txt")),
            ],
            held_out: [
                include_str!(concat!("../../../corpora/almanac/held_out/", $name, ".txt")),
                include_str!(concat!("../../../corpora/yearbook/held_out/", $name, ".txt")),
            ],
        }
    };
}

const SUBJECTS: [Subject; 3] = [subject!("nature"), subject!("science"), subject!("culture")];

/// Index of the labelled sentence of each training article. The first sentence is not used, because it names the
/// subject.
const LABELLED: usize = 3;

/// Run every stage on the embedded corpus and show the results (a few minutes).
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Output folder, empty or new.
    #[arg(long, value_name = "DIR", default_value = "out/quickstart")]
    output: PathBuf,

    /// Number of pre-training steps.
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,

    /// Random seeds of the fine-tuning runs.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Results of the stages.
struct Found {
    before: Evaluation,
    after: Evaluation,
    counting: Baselines,
    tuned: FinetuneReport,
    fresh: FinetuneReport,
}

/// Runs the command.
///
/// # Errors
/// Returns the error of the first stage that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let stop = stop_on_signals()?;
    let at = |name: &str| args.output.join(name);
    if std::fs::read_dir(&args.output).is_ok_and(|mut entries| entries.next().is_some()) {
        let (what, hint) = ("other files", "choose another --output");
        return Err(bert_trainer::Error::output_exists(&args.output, what, hint).into());
    }
    let with_pretraining = tuning(args, "finetune", false)?;
    let without = tuning(args, "finetune-without-pretraining", true)?;
    let stage = |name: &str| {
        if !args.quiet {
            say(&format!("[{}] {name}", duration(started.elapsed().as_secs_f64())));
        }
    };

    stage("1/5 vocabulary");
    write_corpus(&args.output)?;
    write_topics(&at("topics"))?;
    make_vocabulary(&at("corpus/train"), &at("vocab.txt"))?;
    stage("2/5 pre-training data");
    // The corpus is small: new pairs and masks in every epoch keep the model from memorizing it.
    let documents = data_config(&args.output, "train").with_layout(Layout::Documents);
    shown(args.quiet, |tell| build(&documents, tell))?;
    // The held-out instances are fixed; many passes reduce the variance of the figures.
    let held_out = data_config(&args.output, "held_out").with_dupe_factor(40);
    shown(args.quiet, |tell| build(&held_out, tell))?;
    stage("3/5 pre-training");
    let (before, after) = pretrain_tiny(args, &stop)?;
    let counting = baselines(
        &DataLoader::open(&at("data/train"), 0)?,
        &mut DataLoader::open(&at("data/held_out"), 0)?,
        None,
    )?;
    stage("4/5 fine-tuning on sentences of three subjects, with and without the pre-training");
    let tuned = tune(&with_pretraining, false, args.quiet, &stop)?;
    let fresh = tune(&without, false, args.quiet, &stop)?;
    stage("5/5 pages");
    for folder in ["pretrain", "finetune"] {
        write_file(&at(folder).join("report.html"), &report(&at(folder), &[])?.html)?;
    }
    write_file(&at("data/train.html"), &bert_data::inspect::page::page(&at("data/train"), 20)?)?;

    print(&table(&Found { before, after, counting, tuned, fresh }))?;
    print(&format!(
        "everything is in {}; pages: {}, {}, {}; {} in all\ntry: bert fill-mask --checkpoint {} 'The river flows into the [MASK].'",
        args.output.display(),
        at("data/train.html").display(),
        at("pretrain/report.html").display(),
        at("finetune/report.html").display(),
        duration(started.elapsed().as_secs_f64()),
        at("pretrain").display()
    ))
}

/// Writes the articles, one file per subject and collection.
fn write_corpus(output: &Path) -> anyhow::Result<()> {
    for subject in SUBJECTS {
        let name = subject.name;
        let [first, second] = subject.train;
        let files = [("train", name.to_string(), first), ("train", format!("{name}-2"), second)];
        // The held-out articles of the second collection are used only for the task.
        let held_out = [("held_out", name.to_string(), subject.held_out[0])];
        for (part, name, text) in files.into_iter().chain(held_out) {
            write_file(&output.join(format!("corpus/{part}/{name}.txt")), text)?;
        }
    }
    Ok(())
}

/// Writes the classification task (predict the subject of a sentence): one sentence of every training article, and all
/// held-out sentences.
fn write_topics(folder: &Path) -> anyhow::Result<()> {
    let mut rows = [String::from("text\tlabel\n"), String::from("text\tlabel\n")];
    let [train, dev] = &mut rows;
    for Subject { name, train: articles, held_out } in SUBJECTS {
        for article in articles.iter().flat_map(|text| text.trim().split("\n\n")) {
            let sentence = article.lines().nth(LABELLED).context("an article of four sentences")?;
            let _ = writeln!(train, "{sentence}\t{name}");
        }
        for sentence in held_out.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty()) {
            let _ = writeln!(dev, "{sentence}\t{name}");
        }
    }
    write_file(&folder.join("train.tsv"), train)?;
    write_file(&folder.join("dev.tsv"), dev)
}

fn make_vocabulary(corpus: &Path, vocab: &Path) -> anyhow::Result<()> {
    let config = VocabConfig::default().with_vocab_size(4000);
    let words = train_vocabulary(&[corpus.to_path_buf()], &config, &mut |_, _| {})?.tokens;
    write_atomic(vocab, |out| words.iter().try_for_each(|word| writeln!(out, "{word}")))?;
    Ok(())
}

/// Returns the build configuration of one part of the corpus.
fn data_config(folder: &Path, part: &str) -> BuildConfig {
    let at = |name: &str| folder.join(name);
    BuildConfig::new([at("corpus").join(part)], at("vocab.txt"), at("data").join(part))
        .with_max_seq_length(64)
}

fn pretrain_tiny(args: &Args, stop: &StopFlag) -> anyhow::Result<(Evaluation, Evaluation)> {
    let at = |name: &str| args.output.join(name);
    let config = PretrainConfig::new(at("data/train"), at("pretrain"), args.steps)
        .with_model("tiny")
        .with_eval_data(at("data/held_out"))
        .with_learning_rate(5e-4)
        .with_adam_beta2(0.98)
        .with_save_every(500);
    let mut view = PretrainView::new(args.steps, args.quiet);
    let mut evaluations = Vec::new();
    let outcome = pretrain(&config, false, stop, &mut |event| {
        if let PretrainEvent::Evaluated { evaluation, .. } = &event {
            evaluations.push(evaluation.clone());
        }
        view.show(event);
    });
    drop(view);
    outcome?;
    let last = evaluations.last().cloned().context("no evaluation was made")?;
    Ok((evaluations.swap_remove(0), last))
}

/// Returns the fine-tuning configuration, with pre-trained or with random weights.
fn tuning(args: &Args, folder: &str, random_init: bool) -> anyhow::Result<FinetuneConfig> {
    let at = |name: &str| args.output.join(name);
    let config = FinetuneConfig {
        columns: vec!["text".to_owned(), "label".to_owned()],
        ..FinetuneConfig::new("table".parse()?, at("pretrain"), at(folder))
    };
    let config = config
        .with_data(at("topics"))
        .with_seeds(Seeds(args.seeds.to_vec()))
        .with_num_train_epochs(Choices::One(10.0))
        .with_train_batch_size(Choices::One(16))
        .with_learning_rate(Choices::One(1e-3))
        .with_select(Selection::Last)
        .with_random_init(random_init);
    // Check now, not after minutes of pre-training.
    config.resolve()?;
    Ok(config)
}

fn table(found: &Found) -> String {
    let accuracy = |report: &FinetuneReport| {
        let metric = report.dev.metrics.iter().find(|m| m.metric == Metric::Accuracy);
        metric.map_or(f64::NAN, |m| m.statistics.mean)
    };
    let majority = found.tuned.dev.majority_baseline.get(Metric::Accuracy).unwrap_or(f64::NAN);
    let row = |name: &str, guess: f64, counting: Option<f64>, before: f64, after: f64| {
        let counting = counting.map_or_else(String::new, |figure| format!("{figure:.3}"));
        format!("{name:<34}{guess:>10.3}{counting:>10}{before:>10.3}{after:>10.3}")
    };
    let (before, after) = (&found.before, &found.after);
    let Baselines { word_frequencies: words, neighbours, .. } = found.counting;
    let chance = before.random_next.max(1.0 - before.random_next);
    [
        format!("{:<34}{:>10}{:>10}{:>10}{:>10}", "on held-out text", "guessing", "counting", "before", "after"),
        row(
            "masked LM loss (nats)",
            words.masked_lm_loss,
            Some(neighbours.masked_lm_loss),
            before.masked_lm_loss,
            after.masked_lm_loss,
        ),
        row(
            "masked LM accuracy",
            words.masked_lm_accuracy,
            Some(neighbours.masked_lm_accuracy),
            before.masked_lm_accuracy,
            after.masked_lm_accuracy,
        ),
        row("next sentence accuracy", chance, None, before.next_sentence_accuracy, after.next_sentence_accuracy),
        row("subject of a sentence, accuracy", majority, None, accuracy(&found.fresh), accuracy(&found.tuned)),
        String::new(),
        "guessing: word frequencies for the masked LM, the larger class otherwise. counting: how often each token".into(),
        "stood beside the same neighbours in the training text. before: the weights that pre-training begins with, which".into(),
        "know such counts (for the subject: fine-tuned from random weights). after: pre-trained (for the subject: and".into(),
        "fine-tuned).".into(),
        format!(
            "subject: mean of {} seeds on {} sentences, standard error of one accuracy {:.3}.",
            found.tuned.runs.len(),
            found.tuned.dev.examples,
            found.tuned.dev.binomial_standard_error.unwrap_or(f64::NAN)
        ),
    ]
    .join("\n")
}
