//! Trains one run of a fine-tuning: a single seed, from the initial model to a scored model.

use bert_inference::Error;
use bert_inference::compute::stop_flag::{StopFlag, StopRequested};
use bert_model::{BertConfig, Mode};
use bert_tasks::Scores;
use bert_training::evaluation::forgetting::{ForgettingTest, encoder_of};
use burn::module::Module;

use crate::config::Selection;
use crate::config::grid::Cell;
use crate::data::datasets::Part;
use crate::events::FinetuneEvent;
use crate::run::resume::{Progress, RestoredRun, RunSnapshot, SavedRun};
use crate::run::run_report::{EpochReport, FinishedRun, RunReport};
use crate::run::sample_order::SampleOrder;
use crate::run::step::{TrainSettings, TrainState, num_train_steps};
use crate::scoring::{PartAnswers, ScoredAnswers, TaskScoring};
use crate::setup::Setup;

/// A run has diverged if its training loss exceeds the loss of a uniform prediction by this factor.
const DIVERGENCE_FACTOR: f64 = 3.0;

/// A model and its answers to one part.
pub(crate) struct ScoredModel<T: TaskScoring> {
    /// The model, without autodiff.
    model: T::Model,
    scored: ScoredAnswers<T::Answers>,
    /// Epochs trained.
    epoch: f64,
}

impl<T: TaskScoring> ScoredModel<T> {
    /// Scores a model on a part.
    pub(crate) fn new(
        task: &T,
        model: T::Model,
        epoch: f64,
        part: Part,
        stop: &StopFlag,
    ) -> Result<Self, StopRequested> {
        let scored = task.answer_and_score(&model, part, stop)?;
        Ok(Self { model, scored, epoch })
    }
}

/// A run in progress, without its model and optimizer.
struct SeedTraining<'a, T: TaskScoring> {
    task: &'a T,
    settings: TrainSettings<'a>,
    /// Training items in an epoch.
    items: u64,
    batch_size: u64,
    progress: Progress,
    /// The best model so far.
    best: Option<ScoredModel<T>>,
}

/// Trains `model` from `seed` with the cell's settings, or continues from `saved`, and scores it.
///
/// # Errors
/// [`Error::NotFinite`], [`Error::Stopped`] after a checkpoint when a stop was requested, and errors of writing one.
pub(crate) fn train_seed<T: TaskScoring>(
    task: &T,
    Cell { config, resolved }: &Cell,
    seed: u64,
    model: T::Model,
    saved: &mut SavedRun<'_>,
    stop: &StopFlag,
    on_event: &mut dyn FnMut(FinetuneEvent),
) -> Result<FinishedRun<T>, Error> {
    let (items, checkpoint) = (task.items(), task.setup().checkpoint);
    let settings = TrainSettings::new(config, resolved, seed, num_train_steps(items, resolved));
    let state = settings.state(model, checkpoint);
    let RestoredRun { mut state, progress, best } = saved.restore(state, &checkpoint.device, on_event)?;
    let restored = progress.step;
    let best = best.map(|best| ScoredModel::new(task, best.model, best.epoch, task.selection_part(), stop));
    let best = best.transpose().map_err(|stopped| stopped.after(restored))?;
    let frozen = task.frozen_outputs(&state.model.clone().valid(), stop);
    let frozen = frozen.map_err(|stopped| stopped.after(restored))?;
    let loss = |model: &T::Model, batch: &T::Batch, targets: usize, mode: Mode| {
        task.loss(model, frozen.as_ref(), batch, targets, mode)
    };
    let mut forgetting = forgetting_test(task)?;
    let mut order = SampleOrder::new(seed, items);
    let batch_size = resolved.batch_of(items);
    let mut run =
        SeedTraining { task, settings, items: items as u64, batch_size: batch_size as u64, progress, best };
    // A stop during the evaluation at the end of an epoch leaves the losses of the epoch.
    let mut evaluation_pending = !run.progress.losses.is_empty() && run.ends_epoch();
    while evaluation_pending || !run.is_over() {
        if !evaluation_pending {
            let done = run.progress.step;
            let batch = order.batch(done * run.batch_size, batch_size);
            let loss_of_step;
            (state, loss_of_step) = run.settings.step(state, done, task, &batch, loss, on_event)?;
            run.progress.step += 1;
            run.progress.losses.push(loss_of_step);
        }
        evaluation_pending = false;
        let epoch_ends = run.ends_epoch();
        if epoch_ends {
            if let Err(stopped) = run.end_epoch(&state.model, stop, on_event) {
                saved.pause(stop, true, run.snapshot(&state))?;
                return Err(stopped.after(run.progress.step));
            }
            run.measure_forgetting(&state.model, forgetting.as_mut(), on_event)?;
        }
        if !run.is_over() {
            saved.pause(stop, epoch_ends, run.snapshot(&state))?;
        }
    }
    run.finish(stop).or_else(|stopped| {
        saved.pause(stop, true, run.snapshot(&state))?;
        Err(stopped.after(run.progress.step))
    })
}

impl<T: TaskScoring> SeedTraining<'_, T> {
    fn is_last_step(&self) -> bool {
        self.progress.step == self.settings.schedule.total_steps
    }

    /// Returns whether an epoch ends after the last finished step.
    fn ends_epoch(&self) -> bool {
        let seen = self.progress.step * self.batch_size;
        self.is_last_step() || seen / self.items != (seen - self.batch_size) / self.items
    }

    fn is_patience_over(&self) -> bool {
        let patience = self.settings.config.patience;
        patience.is_some_and(|patience| self.progress.epochs_without_improvement >= patience)
    }

    /// Returns whether no further step is taken.
    fn is_over(&self) -> bool {
        self.is_last_step() || self.is_patience_over()
    }

    fn snapshot<'s>(&'s self, state: &'s TrainState<T::Model>) -> RunSnapshot<'s, T::Model, Progress> {
        let best = self.best.as_ref().map(|best| &best.model);
        RunSnapshot { step: self.progress.step, progress: &self.progress, state, best }
    }

    /// Records an epoch, and scores the model after it if needed.
    ///
    /// # Errors
    /// [`StopRequested`] when a stop is requested before the scores are known; nothing is recorded then.
    fn end_epoch(
        &mut self,
        model: &T::Model,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(), StopRequested> {
        let TrainSettings { config, seed, .. } = self.settings;
        let part = self.task.selection_part();
        let epoch = (self.progress.step * self.batch_size) as f64 / self.items as f64;
        let is_scored = self.is_last_step() || config.select == Selection::Best;
        let scored = is_scored.then(|| ScoredModel::new(self.task, model.clone().valid(), epoch, part, stop));
        let scored = scored.transpose()?;
        let progress = &mut self.progress;
        let train_loss = progress.losses.iter().sum::<f64>() / progress.losses.len() as f64;
        progress.losses.clear();
        let uniform_loss = self.task.uniform_loss();
        progress.diverged = train_loss > DIVERGENCE_FACTOR * uniform_loss;
        if progress.diverged {
            on_event(FinetuneEvent::Warning(format!(
                "seed {seed}, epoch {epoch:.1}: the training loss of {train_loss:.4} is far above the loss of random \
                 guessing ({uniform_loss:.4}): the run has diverged; use a lower --learning-rate or more warm-up"
            )));
        }
        let mut report = EpochReport {
            step: progress.step,
            epoch,
            train_loss: Some(train_loss),
            dev: None,
            held_out: None,
            masked_lm: None,
        };
        if let Some(model) = scored {
            let (scores, held_out) = (&model.scored.scores, part == Part::HeldOut);
            on_event(FinetuneEvent::Evaluated { seed, epoch, scores: scores.clone(), held_out });
            match part {
                Part::HeldOut => report.held_out = Some(scores.clone()),
                _ => report.dev = Some(scores.clone()),
            }
            progress.epochs_without_improvement += 1;
            let metric = config.task.spec().primary;
            let score = |model: &ScoredModel<T>| model.scored.scores.get(metric).unwrap_or(f64::NAN);
            if self.best.as_ref().is_none_or(|best| is_better(score(&model), score(best))) {
                progress.epochs_without_improvement = 0;
                progress.best_epoch = Some(epoch);
                self.best = Some(model);
            }
        }
        progress.history.push(report);
        Ok(())
    }

    /// Adds the figures of the masked LM to the last epoch.
    fn measure_forgetting(
        &mut self,
        model: &T::Model,
        test: Option<&mut ForgettingTest>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(), Error> {
        let (Some(test), Some(last)) = (test, self.progress.history.last_mut()) else { return Ok(()) };
        let scores = test.measure(encoder_of(model.clone().valid()))?;
        on_event(FinetuneEvent::MaskedLm { seed: self.settings.seed, epoch: last.epoch, scores });
        last.masked_lm = Some(scores);
        Ok(())
    }

    /// Scores the best model on every labelled part.
    fn finish(&self, stop: &StopFlag) -> Result<FinishedRun<T>, StopRequested> {
        let ScoredModel { model, scored, epoch } = self.best.as_ref().expect("the last step is evaluated");
        let held_out = self.task.has(Part::HeldOut).then(|| scored.scores.clone());
        // With `--holdout`, dev has not been scored yet.
        let scored = match &held_out {
            Some(_) => self.task.answer_and_score(model, Part::Dev, stop)?,
            None => scored.clone(),
        };
        let history = RunHistory {
            epochs: self.progress.history.clone(),
            stopped_early: !self.is_last_step(),
            diverged: self.progress.diverged,
        };
        let dev = ScoredModel { model: model.clone(), scored, epoch: *epoch };
        finished_run(self.task, self.settings.seed, dev, held_out, history, stop)
    }
}

/// Opens the test of `--forgetting-data`.
fn forgetting_test<T: TaskScoring>(task: &T) -> Result<Option<ForgettingTest>, Error> {
    let Setup { config, checkpoint, .. } = task.setup();
    let Some(data) = &config.forgetting_data else { return Ok(None) };
    let model = BertConfig { compute: checkpoint.compute, ..checkpoint.model_config.clone() };
    ForgettingTest::open(&checkpoint.folder, &model, data, &checkpoint.inference_device()).map(Some)
}

/// Returns whether `score` is better. Ties keep the earlier state, and an undefined score never beats a defined one.
pub(crate) fn is_better(score: f64, best: f64) -> bool {
    score > best || (best.is_nan() && !score.is_nan())
}

/// The history of a run.
pub(crate) struct RunHistory {
    pub(crate) epochs: Vec<EpochReport>,
    /// Whether `--patience` ended the run.
    pub(crate) stopped_early: bool,
    /// Whether the loss ended far above the loss of a uniform prediction.
    pub(crate) diverged: bool,
}

/// Scores a finished run, whose model is scored on dev, on every other labelled part.
pub(crate) fn finished_run<T: TaskScoring>(
    task: &T,
    seed: u64,
    ScoredModel { model, scored: ScoredAnswers { answers, scores: dev }, epoch }: ScoredModel<T>,
    held_out: Option<Scores>,
    RunHistory { epochs, stopped_early, diverged }: RunHistory,
    stop: &StopFlag,
) -> Result<FinishedRun<T>, StopRequested> {
    let (confusion, calibration) = (task.confusion(&answers), task.calibration(&answers));
    let mut answers = PartAnswers::<T>::from([(Part::Dev, answers)]);
    let mut score = |part: Part| -> Result<Option<Scores>, StopRequested> {
        if !task.has(part) {
            return Ok(None);
        }
        let scored = task.answer_and_score(&model, part, stop)?;
        answers.insert(part, scored.answers);
        Ok(Some(scored.scores))
    };
    let (dev_mismatched, test) = (score(Part::DevMismatched)?, score(Part::Test)?);
    let report = RunReport {
        seed,
        epoch,
        stopped_early,
        diverged,
        held_out,
        dev,
        dev_mismatched,
        test,
        confusion,
        calibration,
        history: epochs,
    };
    Ok(FinishedRun { report, answers, model: Some(model) })
}
