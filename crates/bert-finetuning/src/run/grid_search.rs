//! Trains one run per seed for every configuration of a grid, and keeps the runs of the best configuration. A run starts
//! from the checkpoint's weights or from new ones (`--random-init`).

use std::borrow::Cow;
use std::path::Path;

use bert_data::DataSet;
use bert_inference::{ModelTokenizer, StopFlag};
use bert_model::{Architecture, BertConfig, LoadPolicy, load_named_tensors, read_pretrained_tensors};
use bert_training::{DataLoader, Error, ForgettingTest, FreshWeights, InitializationChoice, damaged};

use crate::config::FinetuneConfig;
use crate::config::grid::{Cell, CellReport, GridReport};
use crate::events::FinetuneEvent;
use crate::kinds::FinetuneTask;
use crate::run::resume::{SavedRun, SavedRuns};
use crate::run::run_report::{FinishedRun, is_better};
use crate::run::step::{TrainSettings, num_train_steps};
use crate::run::training::Training;
use crate::setup::{BaseCheckpoint, Setup};

/// The finished runs of a configuration.
pub(crate) struct CellRuns<'a, T: FinetuneTask> {
    pub(crate) cell: &'a Cell,
    /// Index of the configuration in the grid.
    number: usize,
    /// All runs, in the order of the seeds; only the best run has its model in memory.
    pub(crate) finished: Vec<FinishedRun<T>>,
    pub(crate) model_config: BertConfig,
    /// Index of the best run.
    best: usize,
    /// The scores of all configurations; `None` if there is only one configuration.
    pub(crate) grid: Option<GridReport>,
}

impl<'a, T: FinetuneTask> CellRuns<'a, T> {
    /// Returns the runs of the only configuration, which has one run.
    pub(crate) fn single(cell: &'a Cell, run: FinishedRun<T>, model_config: BertConfig) -> Self {
        Self { cell, number: 0, finished: vec![run], model_config, best: 0, grid: None }
    }

    /// Returns the best run's model.
    ///
    /// # Errors
    /// Fails when an earlier process saved the model and its file is missing now.
    pub(crate) fn model(&self, output: &Path) -> Result<&T::Model, Error> {
        let best = &self.finished[self.best];
        best.model.as_ref().ok_or_else(|| missing_model(output, best.report.seed))
    }

    /// Returns the model of any run, which is read from the saved runs unless it is in memory (`--keep-seeds`).
    ///
    /// # Errors
    /// Fails as [`Self::model`] does, or when the file of the model cannot be read.
    pub(crate) fn model_of<'r>(
        &self,
        run: &'r FinishedRun<T>,
        saved: &SavedRuns<'_>,
        output: &Path,
    ) -> Result<Cow<'r, T::Model>, Error> {
        if let Some(model) = &run.model {
            return Ok(Cow::Borrowed(model));
        }
        let read = saved.run(self.number, run.report.seed).model(self.model(output)?.clone())?;
        read.map(Cow::Owned).ok_or_else(|| missing_model(output, run.report.seed))
    }
}

fn missing_model(output: &Path, seed: u64) -> Error {
    let reason = format!(
        "the model of seed {seed} is missing, although its run is complete; train it again without `.resume`"
    );
    damaged(output, reason)
}

/// A search for the best configuration of a task.
pub(crate) struct GridSearch<'a, T> {
    pub(crate) task: &'a T,
    /// Number of configurations.
    pub(crate) cells: usize,
    /// The runs finished by an earlier process.
    pub(crate) saved: &'a SavedRuns<'a>,
    pub(crate) stop: &'a StopFlag,
}

impl<T: FinetuneTask> GridSearch<'_, T> {
    /// Trains every configuration and keeps the runs of the one that is best on the held-out part of train (ties go to the
    /// first); keeps only the scores of the others. `first` is the first run's model, loaded before the output folder was
    /// created.
    pub(crate) fn train<'c>(
        &self,
        cells: &'c [Cell],
        first: InitialModel<T::Model>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<CellRuns<'c, T>, Error> {
        let metric = cells[0].config.task.spec().primary;
        let mut first = Some(first);
        let mut reports: Vec<CellReport> = Vec::new();
        let mut best: Option<CellRuns<'_, T>> = None;
        for (number, cell) in cells.iter().enumerate() {
            // Loading messages are the same for every cell, so report them once.
            let mut silent = |event| match event {
                FinetuneEvent::Warning(_) if number > 0 => {}
                event => on_event(event),
            };
            let runs = self.train_seeds(number, cell, &mut first, &mut silent)?;
            let scores = runs.finished.iter().map(|run| run.report.selection_score(metric));
            let report = CellReport::new(cell, &scores.collect::<Vec<f64>>());
            if cells.len() > 1 {
                on_event(FinetuneEvent::CellDone {
                    cell: number + 1,
                    cells: cells.len(),
                    report: report.clone(),
                });
            }
            let mean = report.statistics.mean;
            reports.push(report);
            let is_best =
                best.as_ref().is_none_or(|best| is_better(mean, reports[best.number].statistics.mean));
            let worse = if is_best { best.replace(runs) } else { Some(runs) };
            if let Some(CellRuns { number, finished, .. }) = worse {
                finished.iter().try_for_each(|run| self.saved.run(number, run.report.seed).remove_model())?;
            }
        }
        let mut runs = best.expect("there is at least one cell");
        reports[runs.number].chosen = true;
        let held_out_examples = self.task.sets().training.held_out;
        runs.grid = (cells.len() > 1).then_some(GridReport { metric, held_out_examples, cells: reports });
        Ok(runs)
    }

    /// Trains one configuration with every seed. Keeps the model of the best run in memory; with `--keep-seeds`, the
    /// models of all runs are on disk.
    fn train_seeds<'c>(
        &self,
        number: usize,
        cell: &'c Cell,
        first: &mut Option<InitialModel<T::Model>>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<CellRuns<'c, T>, Error> {
        let metric = cell.config.task.spec().primary;
        let keep_seeds = cell.config.keep_seeds;
        let mut finished: Vec<FinishedRun<T>> = Vec::new();
        let mut best: Option<usize> = None;
        let mut model_config = None;
        for &seed in cell.config.seeds.iter() {
            let initial = match first.take() {
                Some(first) => first,
                None => initial_model(self.task, seed, on_event)?,
            };
            model_config = Some(initial.config);
            let mut saved = self.saved.run(number, seed);
            let earlier = saved.finished::<T>(&initial.model, on_event)?;
            let is_new = earlier.is_none();
            let mut run = match earlier {
                Some(run) => run,
                None => self.train_seed(number, cell, initial.model, &mut saved, on_event)?,
            };
            let score = run.report.selection_score(metric);
            let is_best = best
                .is_none_or(|best: usize| is_better(score, finished[best].report.selection_score(metric)));
            if is_new {
                saved.finish(&run, is_best || keep_seeds)?;
            }
            if !is_best {
                run.model = None;
            } else if let Some(worse) = best.replace(finished.len()) {
                let worse = &mut finished[worse];
                worse.model = None;
                if !keep_seeds {
                    self.saved.run(number, worse.report.seed).remove_model()?;
                }
            }
            finished.push(run);
        }
        let (best, model_config) = best.zip(model_config).expect("there is at least one seed");
        Ok(CellRuns { cell, number, finished, model_config, best, grid: None })
    }

    /// Trains `model` with the seed of `saved` and the cell's settings, or continues from `saved`, and scores it.
    ///
    /// # Errors
    /// Fails when the loss or gradient is not finite, when a file cannot be read or written, or when a stop is
    /// requested; before a stop, a checkpoint is written.
    fn train_seed(
        &self,
        number: usize,
        Cell { config, resolved }: &Cell,
        model: T::Model,
        saved: &mut SavedRun<'_>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<FinishedRun<T>, Error> {
        let Self { task, cells, stop, .. } = *self;
        let steps = num_train_steps(task.items(), resolved);
        let settings = TrainSettings {
            cell: (cells > 1).then_some(number + 1),
            ..TrainSettings::new(config, resolved, saved.seed, steps)
        };
        let state = settings.state(model, task.setup().checkpoint);
        let tasks = std::slice::from_ref(task);
        let mut training =
            Training::new(tasks, settings, resolved, |model: &T::Model, _| model.clone(), None);
        let state = training.start(state, saved, stop, on_event)?;
        training.forgetting = forgetting_test(task)?;
        let state = training.train(state, saved, stop, on_event)?;
        let finished = training.finish(0, &state.model, stop);
        finished.or_else(|error| training.pause(error, &state, saved, stop))
    }
}

/// Opens the test of `--forgetting-data`.
fn forgetting_test<T: FinetuneTask>(task: &T) -> Result<Option<ForgettingTest>, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
    let Some(data) = &config.forgetting_data else { return Ok(None) };
    let model = BertConfig { compute: checkpoint.compute, ..checkpoint.model_config.clone() };
    ForgettingTest::open(&checkpoint.folder, &model, data, &checkpoint.inference_device()).map(Some)
}

/// Prefixes of all tensors that a fine-tuning adds to an encoder.
const TUNED_HEADS: [&str; 3] = ["classifier.", "head.", "qa_outputs."];

/// Creates the initial weights for `--random-init`; returns `None` without this flag.
fn fresh_weights(
    config: &FinetuneConfig,
    text: &ModelTokenizer,
    model: &BertConfig,
    seed: u64,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<Option<FreshWeights>, Error> {
    if !config.random_init {
        return Ok(None);
    }
    let choice = config.initialization.unwrap_or(InitializationChoice::Reference);
    let Some(data) = &config.initialization_data else {
        return FreshWeights::uncounted(choice).map(Some);
    };
    let data = DataSet::open(data)?;
    DataLoader::new(data.clone(), 0)?.check_fits(model, Some(text))?;
    let mut on_event = |event| on_event(FinetuneEvent::Counting(event));
    choice.weights(&[(data, 1.0)], model, seed, &StopFlag::new(), &mut on_event).map(Some)
}

/// The model that a run starts from, and its configuration.
pub(crate) struct InitialModel<M> {
    pub(crate) model: M,
    pub(crate) config: BertConfig,
}

/// Returns the initial model of the run with this seed.
pub(crate) fn initial_model<T: FinetuneTask>(
    task: &T,
    seed: u64,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<InitialModel<T::Model>, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
    let BaseCheckpoint { folder, tokenizer, device, .. } = checkpoint;
    let mut model_config = task.model_config(checkpoint.model_config.clone());
    model_config.compute = checkpoint.compute;
    let model = match fresh_weights(config, tokenizer, &model_config, seed, on_event)? {
        Some(fresh) => T::Model::initialized(&model_config, fresh.initialization(), seed, device)?,
        None => {
            let model = T::Model::new(&model_config, seed, device);
            let is_first = seed == config.seeds[0];
            let mut warn = |text: String| {
                if is_first {
                    on_event(FinetuneEvent::Warning(text));
                }
            };
            let (model, fresh) = load_encoder(model, folder, &mut warn)?;
            task.prepared(model, &fresh.iter().collect::<Vec<_>>(), seed)?
        }
    };
    let model = config.with_trained_layers(model, model_config.num_hidden_layers)?;
    Ok(InitialModel { model, config: model_config })
}

/// Returns the model with the encoder of a checkpoint and a new head, and the names of the encoder's tensors that the
/// checkpoint lacks.
fn load_encoder<M: Architecture>(
    model: M,
    checkpoint: &Path,
    warn: &mut dyn FnMut(String),
) -> Result<(M, Vec<String>), Error> {
    let mut tensors = read_pretrained_tensors(checkpoint)?;
    // Discard the heads of an earlier fine-tuning: their outputs belong to another task, even if the shapes match.
    let is_head = |name: &String| TUNED_HEADS.iter().any(|head| name.starts_with(head));
    if tensors.extract_if(.., |name, _| is_head(name)).count() > 0 {
        let text = "the head of the checkpoint is from an earlier fine-tuning; it is replaced by a new head";
        warn(text.to_string());
    }
    let (model, loaded) = load_named_tensors(model, tensors, LoadPolicy::FreshHeads)?;
    let fresh: Vec<String> = loaded.missing.into_iter().filter(|name| name.starts_with("bert.")).collect();
    if !fresh.is_empty() {
        warn(format!("not in the checkpoint, so initialized at random: {fresh:?}"));
    }
    Ok((model, fresh))
}
