//! `bert quickstart` runs every stage on the embedded corpus in a few minutes.
//!
//! It makes a vocabulary and shards, pre-trains, fine-tunes with and without the pre-training, and writes HTML reports.
//! Then it prints a table of the results next to the baselines. The results show that the programs work, not how good a
//! BERT can be: the corpus has 420 short articles.
//!
//! Every setting that affects the table is explicit, so that new defaults of the programs do not change it.

mod progress;
mod results;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use bert_data::{BuildConfig, DataSet, Layout, VocabConfig, build, train_vocabulary};
use bert_finetuning::{Choices, FinetuneConfig, Seeds, Selection, TableArgs, finetune};
use bert_inference::{ComputeArgs, PrecisionChoice, StopFlag};
use bert_reports::report;
use bert_storage::{Class, Disk, Error, LOCK, OutputLock, StagedFolder, write_atomic};
use bert_training::{
    DataLoader, Evaluation, InitializationChoice, PretrainConfig, PretrainEvent, Resume, baselines, pretrain,
};
use clap::Args as ClapArgs;

use crate::commands::quickstart::progress::{Stage, StageProgress};
use crate::commands::quickstart::results::{Summary, pages, summary_table, table};
use crate::output::files::write_own_file;
use crate::output::progress::duration;
use crate::output::table::{FormatArgs, print_table};
use crate::process::signals::stop_on_signals;
use crate::process::threads::ThreadArgs;

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
                include_str!(concat!("../../../../corpora/almanac/train/", $name, ".txt")),
                include_str!(concat!("../../../../corpora/yearbook/train/", $name, ".txt")),
            ],
            held_out: [
                include_str!(concat!("../../../../corpora/almanac/held_out/", $name, ".txt")),
                include_str!(concat!("../../../../corpora/yearbook/held_out/", $name, ".txt")),
            ],
        }
    };
}

/// Maximum sequence length of the pre-training and of the fine-tuning.
const SEQ_LENGTH: usize = 64;

const SUBJECTS: [Subject; 3] = [subject!("nature"), subject!("science"), subject!("culture")];

/// Index of the labelled sentence of each training article. The first sentence is not used, because it names the
/// subject.
const LABELLED_SENTENCE: usize = 3;

/// Names of the files and folders that this command writes in its output folder.
const WRITTEN: [&str; 7] =
    ["corpus", "topics", "vocab.txt", "data", PRETRAINED, TUNED, "finetune-without-pretraining"];
const PRETRAINED: &str = "pretrain";
const TUNED: &str = "finetune";

/// Run every stage on the embedded corpus, in a few minutes.
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

    /// Replace the results of an earlier quickstart in --output.
    #[arg(long)]
    overwrite: bool,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    format: FormatArgs,

    /// Hide the progress on stderr.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    run_stages(args).map_err(|error| match error.downcast_ref().map(Error::class) {
        Some(class @ Class::Stopped(_)) => Error::new(class, "stopped; repeat it with --overwrite").into(),
        _ => error,
    })
}

fn run_stages(args: &Args) -> anyhow::Result<()> {
    args.threads.start_pool();
    let started = Instant::now();
    let stop = stop_on_signals()?;
    let at = |name: &str| args.output.join(name);
    // Check the settings now, not after minutes of pre-training.
    let with_pretraining = tuning(args, TUNED, false)?;
    let without = tuning(args, "finetune-without-pretraining", true)?;
    let _lock = open_output(args)?;
    let mut progress = StageProgress::new(args.steps, args.seeds.len() as u64, args.quiet);

    build_data(args, &mut progress)?;
    progress.begin(Stage::Pretraining);
    let (before, after) = pretrain_tiny(args, &mut progress, &stop)?;
    let baselines = baselines(
        &[(DataSet::open(&at("data/train"))?, 1.0)],
        &mut DataLoader::open(&at("data/held_out"), 0)?,
        None,
    )?;
    progress.begin(Stage::Finetuning);
    let tuned = finetune(&with_pretraining, Resume::No, &stop, &mut |event| progress.finetune(&event))?;
    let fresh = finetune(&without, Resume::No, &stop, &mut |event| progress.finetune(&event))?;
    progress.begin(Stage::Pages);
    for folder in [PRETRAINED, TUNED] {
        write_own_file(&at(folder).join("report.html"), &report(&at(folder), &[])?.html)?;
    }
    write_own_file(&at("data/train.html"), &bert_data::page::page(&at("data/train"), 20)?)?;
    drop(progress);

    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary {
        output: &args.output,
        seconds,
        before,
        after,
        baselines,
        finetuned: tuned.dev,
        finetuned_without_pretraining: fresh.dev,
        pages: pages(&args.output),
    };
    print_table(args.format, &summary, summary_table(&summary), |_| {
        let table = table(&summary);
        let pages = listed(&args.output);
        format!("{table}\n\n{pages}\ntime: {}\n{}", duration(seconds), next(&args.output))
    })
}

/// Creates and locks the output folder. With `--overwrite`, removes the results of an earlier quickstart from it.
fn open_output(args: &Args) -> anyhow::Result<OutputLock> {
    let folder = StagedFolder::new(&Disk, &args.output);
    folder.check_not_in_use()?;
    let in_use = [PRETRAINED, TUNED, "finetune-without-pretraining"];
    in_use.into_iter().try_for_each(|name| folder.inside(name).check_not_in_use())?;
    let names = folder.names()?;
    let visible = || names.iter().filter(|name| !name.starts_with('.'));
    let exists = |what, hint| bert_training::output_exists(&args.output, what, hint);
    if visible().any(|name| !WRITTEN.contains(&name.as_str())) {
        return Err(exists("other files", "choose another --output").into());
    }
    if !args.overwrite && visible().next().is_some() {
        let hint = "repeat it with --overwrite, or choose another --output";
        return Err(exists("an earlier quickstart", hint).into());
    }
    folder.create()?;
    let lock = folder.lock(LOCK)?;
    folder.clear(|name| WRITTEN.contains(&name))?;
    Ok(lock)
}

/// Returns the list of the pages as text.
fn listed(output: &Path) -> String {
    format!("pages:{}", pages(output).map(|page| format!("\n  {}", page.display())).concat())
}

/// Returns commands that use the results; each works when it is pasted into a shell.
fn next(output: &Path) -> String {
    let at = |name: &str| shell_word(&output.join(name).to_string_lossy());
    let pretrained = at(PRETRAINED);
    let tuned = at(TUNED);
    let held_out = at("data/held_out");
    format!(
        "next:
  bert fill-mask --checkpoint {pretrained} \\
      'The river flows into the [MASK].'
  echo 'The leaves of this tree turn red in autumn.' |
      bert predict --checkpoint {tuned} --input -
  bert evaluate --checkpoint {pretrained} \\
      --data {held_out} --top-k 5"
    )
}

/// Returns a text as one word of a shell command, quoted if necessary.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Writes the corpus and the task, and makes the vocabulary and both data sets.
fn build_data(args: &Args, progress: &mut StageProgress) -> anyhow::Result<()> {
    let at = |name: &str| args.output.join(name);
    progress.begin(Stage::Vocabulary);
    write_corpus(&args.output)?;
    write_topics(&at("topics"))?;
    make_vocabulary(&at("corpus/train"), &at("vocab.txt"), args.threads)?;
    progress.begin(Stage::Data);
    // The corpus is small: new pairs and masks in every epoch keep the model from memorizing it.
    let documents =
        data_config(&args.output, "train").with_layout(Layout::Documents).with_threads(args.threads.count());
    build(&documents, &mut |_| {})?;
    // The held-out instances are fixed; many passes reduce the variance of the losses and accuracies.
    let held_out =
        data_config(&args.output, "held_out").with_dupe_factor(40).with_threads(args.threads.count());
    build(&held_out, &mut |at| progress.build(at))?;
    Ok(())
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
            write_own_file(&output.join(format!("corpus/{part}/{name}.txt")), text)?;
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
            let sentence =
                article.lines().nth(LABELLED_SENTENCE).context("an article has fewer than four sentences")?;
            let _ = writeln!(train, "{sentence}\t{name}");
        }
        for sentence in held_out.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty()) {
            let _ = writeln!(dev, "{sentence}\t{name}");
        }
    }
    write_own_file(&folder.join("train.tsv"), train)?;
    write_own_file(&folder.join("dev.tsv"), dev)
}

fn make_vocabulary(corpus: &Path, vocab: &Path, threads: ThreadArgs) -> anyhow::Result<()> {
    let config = VocabConfig::default().with_vocab_size(4000).with_threads(threads.count());
    let words = train_vocabulary(&[corpus.to_path_buf()], &config, &mut |_, _| {})?.tokens;
    write_atomic(vocab, |out| words.iter().try_for_each(|word| writeln!(out, "{word}")))?;
    Ok(())
}

/// Returns the build configuration of one part of the corpus.
fn data_config(folder: &Path, part: &str) -> BuildConfig {
    let at = |name: &str| folder.join(name);
    BuildConfig::new([at("corpus").join(part)], at("vocab.txt"), at("data").join(part))
        .with_max_seq_length(SEQ_LENGTH)
}

/// Pre-trains BERT-tiny; returns the evaluations before the first and after the last step.
fn pretrain_tiny(
    args: &Args,
    progress: &mut StageProgress,
    stop: &StopFlag,
) -> anyhow::Result<(Evaluation, Evaluation)> {
    let at = |name: &str| args.output.join(name);
    let config = PretrainConfig::new(at("data/train"), at(PRETRAINED), args.steps)
        .with_model("tiny")
        .with_initialization(InitializationChoice::Bigram)
        .with_eval_data(at("data/held_out"))
        .with_learning_rate(5e-4)
        .with_warmup_steps(args.steps / 10)
        .with_adam_beta2(0.98)
        .with_compute(ComputeArgs::default().with_precision(PrecisionChoice::F32))
        .with_save_every(500);
    let mut evaluations = Vec::new();
    pretrain(&config, Resume::No, stop, &mut |event| {
        if let PretrainEvent::Evaluated { evaluation, .. } = &event {
            evaluations.push(evaluation.clone());
        }
        progress.pretrain(&event);
    })?;
    let last = evaluations.last().cloned().context("pre-training made no evaluation")?;
    Ok((evaluations.swap_remove(0), last))
}

/// Returns the fine-tuning configuration, with pre-trained or with random weights.
fn tuning(args: &Args, folder: &str, random_init: bool) -> anyhow::Result<FinetuneConfig> {
    let at = |name: &str| args.output.join(name);
    let config = FinetuneConfig::new("table".parse()?, at(PRETRAINED), at(folder))
        .with_table(TableArgs::default().with_columns(["text", "label"].map(String::from)))
        .with_data(at("topics"))
        .with_seeds(Seeds(args.seeds.to_vec()))
        .with_num_train_epochs(Choices::Single(10.0))
        .with_train_batch_size(Choices::Single(16))
        .with_max_seq_length(SEQ_LENGTH)
        .with_learning_rate(Choices::Single(1e-3))
        .with_compute(ComputeArgs::default().with_precision(PrecisionChoice::F32))
        .with_select(Selection::Last)
        .with_random_init(random_init);
    config.resolve()?;
    Ok(config)
}
