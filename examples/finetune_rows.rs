//! Fine-tunes a classifier on rows in memory and asks the model for the class of a new text.
//!
//! `cargo run --example finetune_rows [-- CHECKPOINT]`, where CHECKPOINT is a run of `pretrain` or a Hugging Face
//! folder; the default is the built-in `tiny-en`.

use std::path::Path;

use bert::prelude::*;

const WORDS: [(&str, &str); 4] =
    [("beautiful", "good"), ("lovely", "good"), ("dirty", "bad"), ("ugly", "bad")];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let checkpoint = std::env::args().nth(1).unwrap_or_else(|| "tiny-en".to_string());
    // The rows may come from a database or from another program.
    let train = rows(&["river", "lake", "hill", "road"]);
    let dev = rows(&["garden", "town", "street"]);

    let config = FinetuneConfig::new("table".parse()?, checkpoint, folder.path().join("tuned"))
        .with_num_train_epochs(Choices::Single(10.0))
        .with_train_batch_size(Choices::Single(4))
        .with_learning_rate(Choices::Single(1e-3))
        .with_max_seq_length(16);
    let all = TrainingRows { train: &train, dev: &dev };
    let report = finetune_rows(&config, all, Resume::No, &StopFlag::default(), &mut |_| {})?;
    println!("{} rows to train on, {} of dev", train.len(), dev.len());
    for metric in &report.dev.metrics {
        println!("{}: {:.3}", metric.metric, metric.statistics.mean);
    }
    answer(&report.model, "a lovely day")
}

/// Returns a labelled row for each word of [`WORDS`] and each place.
fn rows(places: &[&str]) -> Vec<TextRow> {
    let of_place = |place: &&str| WORDS.map(|(word, label)| TextRow::new(format!("a {word} {place}"), label));
    places.iter().flat_map(of_place).collect()
}

/// Prints the class of a new text with its probability.
fn answer(model: &Path, text: &str) -> Result<(), Box<dyn std::error::Error>> {
    let classifier = Classifier::open(model, ModelOptions::default())?;
    for answer in classifier.answer(&[Example::from_text(text)])? {
        if let Answer::Class { label, probabilities } = answer {
            println!("{text}: {label} ({:.3})", probabilities[&label]);
        }
    }
    Ok(())
}
