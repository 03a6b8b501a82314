//! A custom training loop around `BertForPreTraining`: sample order, losses and updates.
//!
//! `cargo run --example training_loop [-- DATA]`, where DATA was made by `make-pretrain-data`.

use std::path::{Path, PathBuf};

use bert::prelude::*;

const SEED: u64 = 1;
const BATCH: usize = 16;
const STEPS: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let folder = match std::env::args().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => small(scratch.path())?,
    };
    let mut loader = DataLoader::new(DataSet::open(&folder)?, SEED)?;
    let device = DeviceName::Flex.open()?.autodiff();
    let config = BertConfig::preset(Preset::Tiny, loader.vocabulary().len());
    let mut model = BertForPreTraining::new(&config, SEED, &device);
    let mut optimizer = Optimizer::new(OptimizerConfig::default(), &model);
    let schedule = Schedule { kind: ScheduleKind::Bert, peak: 1e-3, total_steps: STEPS, warmup_steps: 2.0 };

    for step in 0..STEPS {
        // Sample i is a function of (seed, i), so a resumed loop requests the samples from the next index on.
        let batch = loader.batch(step * BATCH as u64, BATCH)?;
        // The losses of micro-batches are sums that are divided by the number of targets of the whole batch, so the
        // gradient does not depend on the number of micro-batches.
        let normalizer = LossNormalizer {
            masked_lm: batch.num_predictions() as f64,
            next_sentence: Some(batch.batch_size() as f64),
        };
        let micro_batches = batch.split(2);
        let (trained, report) = train_step(
            model,
            &mut optimizer,
            &micro_batches,
            |model, batch, mode| {
                let loss = model.loss(batch.input(&device), batch.targets(&device), normalizer, mode);
                MicroBatchLoss::new(loss.total, vec![loss.masked_lm, loss.next_sentence])
            },
            StepSettings { seed: SEED, step, learning_rate: schedule.learning_rate(step) },
        );
        model = trained;
        let report = report.map_err(|problem| format!("step {step} is not finite: {problem:?}"))?;
        println!("step {step}: loss {:.3}, of it next sentence {:.3}", report.loss, report.parts[1]);
    }
    Ok(())
}

/// Builds a data set of the almanac's documents; the loader makes new pairs and masks in every epoch.
fn small(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ","].map(String::from);
    let letters = ('a'..='z').flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    let vocabulary: Vec<String> = special.into_iter().chain(letters).collect();
    std::fs::write(folder.join("vocab.txt"), vocabulary.join("\n"))?;
    std::fs::write(folder.join("text.txt"), include_str!("../corpora/almanac/train/science.txt"))?;
    let output = folder.join("data");
    let config = BuildConfig::new([folder.join("text.txt")], folder.join("vocab.txt"), &output);
    build(&config.with_layout(Layout::Documents).with_max_seq_length(64), &mut |_| {})?;
    Ok(output)
}
