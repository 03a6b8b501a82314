//! Estimates the time of a plan from short runs, which measure a step, an evaluation and the preparation of each kind
//! of fine-tuning.

use bert_training::Resume;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use bert_finetuning::{Choices, FinetuneConfig, FinetuneEvent, Seeds, Selection, finetune};
use bert_inference::StopFlag;

use super::plan::{PlannedRun, Work, train_examples};

/// Numbers of batches of the two short runs. The difference shows how the preparation time grows with the number of
/// examples.
const BATCHES: [usize; 2] = [3, 12];

/// The durations of the parts of a run, in seconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Reading files and weights.
    preparation: f64,
    /// Preparation per training example: tokenization, and the features of a frozen encoder.
    per_example: f64,
    step: f64,
    /// Scoring dev, and the masked LM with `--forgetting-data`.
    evaluation: f64,
    /// Scoring test and writing the files.
    end: f64,
    batch_size: f64,
}

/// An estimator that measures short runs and keeps their costs.
pub(super) struct Estimator<'a> {
    scratch: tempfile::TempDir,
    stop: &'a StopFlag,
    /// The cost of each kind of run, and the folder of its last short run.
    costs: HashMap<String, (Cost, PathBuf)>,
    /// The folder of the short run for each output folder, for runs that start from the model in that folder.
    trials: HashMap<PathBuf, PathBuf>,
}

impl<'a> Estimator<'a> {
    /// Creates an estimator with a scratch folder.
    ///
    /// # Errors
    /// Fails when the folder cannot be created.
    pub(super) fn new(stop: &'a StopFlag) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir().context("cannot create a folder for the short runs")?;
        Ok(Self { scratch, stop, costs: HashMap::new(), trials: HashMap::new() })
    }

    /// Returns the estimated duration of the unfinished runs of a plan, in seconds.
    ///
    /// # Errors
    /// Fails as [`finetune`] does.
    pub(super) fn seconds(&mut self, plan: &[PlannedRun]) -> anyhow::Result<f64> {
        let mut total = 0.0;
        for run in plan {
            let seconds = match &run.work {
                _ if run.is_finished() => 0.0,
                Work::Single(config) => self.single(config)?,
                Work::Together(config) => self.together(&config.tasks)?,
            };
            total += seconds;
        }
        Ok(total)
    }

    fn single(&mut self, config: &FinetuneConfig) -> anyhow::Result<f64> {
        let cost = self.cost(config)?;
        let examples = train_examples(config)? as f64;
        let epochs = epochs(config)?;
        let evaluations = match config.select {
            Selection::Last if config.forgetting_data.is_none() => 1.0,
            _ => epochs.ceil(),
        };
        let seeds = config.seeds.len() as f64;
        let steps = (examples * epochs / cost.batch_size.min(examples)).floor().max(1.0);
        let tables = if config.freeze_encoder { seeds } else { 1.0 };
        let per_seed = steps * cost.step + evaluations * cost.evaluation + cost.end;
        Ok(cost.preparation + tables * examples * cost.per_example + seeds * per_seed)
    }

    /// Returns the estimated duration of a multi-task run in seconds. Each of its steps has a batch of one task.
    fn together(&mut self, tasks: &[FinetuneConfig]) -> anyhow::Result<f64> {
        let mut total = 0.0;
        for config in tasks {
            let cost = self.cost(config)?;
            let examples = train_examples(config)? as f64;
            let epochs = epochs(config)?;
            let steps = examples * epochs / cost.batch_size;
            total += cost.preparation + examples * cost.per_example + steps * cost.step;
            total += epochs.ceil() * cost.evaluation + cost.end;
        }
        Ok(total)
    }

    /// Returns the cost of a kind of run. The first call for a kind measures the cost in two short runs.
    fn cost(&mut self, config: &FinetuneConfig) -> anyhow::Result<Cost> {
        let key = format!(
            "{} {} {} {:?} {:?} {} {:?} {:?}",
            self.existing(&config.checkpoint).display(),
            config.task,
            config.freeze_encoder,
            config.head,
            config.adapters.adapter,
            config.adapters.fusion.len(),
            config.forgetting_data,
            (&config.max_seq_length, &config.train_batch_size, config.compute),
        );
        if let Some((cost, trial)) = self.costs.get(&key) {
            self.trials.insert(config.output.clone(), trial.clone());
            return Ok(*cost);
        }
        let [short, long] = BATCHES;
        let (first, few, _) = self.trial(config, short)?;
        let (second, many, output) = self.trial(config, long)?;
        let more = many - few;
        let growth = if more > 0.0 { (second.preparation - first.preparation) / more } else { 0.0 };
        let per_example = growth.max(0.0);
        let preparation = (first.preparation - per_example * few).max(0.0);
        let cost = Cost { preparation, per_example, ..second };
        self.trials.insert(config.output.clone(), output.clone());
        self.costs.insert(key, (cost, output));
        Ok(cost)
    }

    /// Returns the folder, or the folder of its short run if the run itself is not finished.
    fn existing(&self, folder: &Path) -> PathBuf {
        let trial = self.trials.get(folder).filter(|_| !folder.join("report.json").exists());
        trial.cloned().unwrap_or_else(|| folder.to_owned())
    }

    /// Runs a configuration for one epoch of a few batches. Returns the cost, with the whole preparation in
    /// `preparation`, the number of examples and the output folder.
    fn trial(&mut self, config: &FinetuneConfig, batches: usize) -> anyhow::Result<(Cost, f64, PathBuf)> {
        let output = self.scratch.path().join(format!("{}-{}", self.costs.len(), batches));
        let usual = config.train_batch_size.as_ref().map(|choices| choices.values()[0]);
        let batch_size = usual.unwrap_or(config.task.spec().defaults.train_batch_size);
        let examples = (batches * batch_size).min(train_examples(config)?);
        let mut short = FinetuneConfig {
            output: output.clone(),
            seeds: Seeds(vec![1]),
            num_train_epochs: Some(Choices::Single(1.0)),
            max_train_examples: Some(examples),
            select: Selection::Last,
            checkpoint: self.existing(&config.checkpoint),
            ..config.clone()
        };
        for folder in &mut short.adapters.fusion {
            *folder = self.existing(folder);
        }
        let mut clock = Clock::start();
        finetune(&short, Resume::No, self.stop, &mut |event| clock.note(&event))?;
        Ok((clock.cost(batch_size), examples as f64, output))
    }
}

/// Returns the number of epochs of a planned fine-tuning.
fn epochs(config: &FinetuneConfig) -> anyhow::Result<f64> {
    let choices = config.num_train_epochs.as_ref().context("the experiment states no epochs")?;
    Ok(choices.values()[0])
}

/// The times of the events of a short run.
struct Clock {
    started: Instant,
    steps: Vec<f64>,
    evaluated: f64,
}

impl Clock {
    fn start() -> Self {
        Self { started: Instant::now(), steps: Vec::new(), evaluated: 0.0 }
    }

    fn note(&mut self, event: &FinetuneEvent) {
        let now = self.started.elapsed().as_secs_f64();
        match event {
            FinetuneEvent::Step { .. } => self.steps.push(now),
            FinetuneEvent::Evaluated { .. } | FinetuneEvent::MaskedLm { .. } => self.evaluated = now,
            _ => {}
        }
    }

    fn cost(self, batch_size: usize) -> Cost {
        let first = self.steps[0];
        let last = self.steps[self.steps.len() - 1];
        let mut each: Vec<f64> = self.steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        each.sort_by(f64::total_cmp);
        // Use the mean of the middle half, because the first steps fill caches and other programs slow down some steps.
        let middle = &each[each.len() / 4..each.len() - each.len() / 4];
        let step = match middle.len() {
            0 => first,
            some => middle.iter().sum::<f64>() / some as f64,
        };
        Cost {
            preparation: (first - step).max(0.0),
            per_example: 0.0,
            step,
            evaluation: self.evaluated - last,
            end: self.started.elapsed().as_secs_f64() - self.evaluated,
            batch_size: batch_size as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_half_of_the_steps_counts() {
        let clock = Clock { started: Instant::now(), steps: vec![5.0, 6.0, 7.0, 8.0, 17.0], evaluated: 19.0 };
        let cost = clock.cost(32);
        assert_eq!((cost.step, cost.preparation, cost.evaluation), (1.0, 4.0, 2.0));
    }
}
