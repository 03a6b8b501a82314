//! Fine-tunes a classifier on your own table (TSV with the columns `text` and `label`) with three seeds.
//!
//! `cargo run --example finetune_table [-- CHECKPOINT]`, where CHECKPOINT is a run of `pretrain` or a Hugging Face
//! folder; the default is the built-in `tiny-en`.

use bert::prelude::*;

const ROWS: &str = "text\tlabel\nthe sun is warm today\tgood\nthe rain is cold today\tbad\n\
                    a warm and sunny day\tgood\na cold and rainy day\tbad\n";
const DEV: &str = "text\tlabel\ntoday is warm and sunny\tgood\ntoday is cold and rainy\tbad\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let checkpoint = std::env::args().nth(1).unwrap_or_else(|| "tiny-en".to_string());
    std::fs::write(at("train.tsv"), ROWS)?;
    std::fs::write(at("dev.tsv"), DEV)?;

    let config = FinetuneConfig::new("table".parse()?, checkpoint, at("tuned"))
        .with_table(TableArgs::default().with_columns(["text", "label"].map(String::from)))
        .with_data(folder.path())
        .with_seeds(Seeds(vec![1, 2, 3]))
        .with_num_train_epochs(Choices::Single(20.0))
        .with_train_batch_size(Choices::Single(4))
        .with_learning_rate(Choices::Single(1e-3))
        .with_max_seq_length(16);
    let report = finetune(&config, Resume::No, &StopFlag::default(), &mut |_| {})?;
    for metric in &report.dev.metrics {
        let figures = &metric.statistics;
        println!(
            "{}: {:.3}, standard deviation {:.3}",
            metric.metric,
            figures.mean,
            figures.sd.unwrap_or(0.0)
        );
    }
    println!("the best run's model is in {}", report.model.display());
    Ok(())
}
