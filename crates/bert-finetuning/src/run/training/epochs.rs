//! The end of an epoch: scores the model, records the losses and keeps the best model. At the end of the run, scores
//! the best model on every part.

use std::collections::BTreeMap;
use std::mem;

use bert_inference::StopFlag;
use bert_tasks::Scores;
use bert_training::{Error, encoder_of};
use burn::module::Module;

use crate::config::Selection;
use crate::data::datasets::Part;
use crate::events::{FinetuneEvent, TaskEpoch};
use crate::kinds::{FinetuneTask, ScoredAnswers};
use crate::run::resume::TaskProgress;
use crate::run::run_report::{EpochReport, FinishedRun, RunReport, ScoredModel, is_better};
use crate::run::step::TrainSettings;
use crate::run::training::Training;

/// A run has diverged if its training loss exceeds the loss of a uniform prediction by this factor.
const DIVERGENCE_FACTOR: f64 = 3.0;

impl<T: FinetuneTask, M: Module> Training<'_, T, M> {
    /// Scores the model on every task after an epoch, if needed, and records the epoch.
    ///
    /// # Errors
    /// Fails when a stop is requested before all scores are known; nothing is recorded then.
    pub(super) fn end_epoch(
        &mut self,
        model: &M,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(), bert_inference::Error> {
        let is_scored =
            self.draw.is_some() || self.is_last_step() || self.settings.config.select == Selection::Best;
        let model = model.clone().valid();
        let score = |number: usize| self.scored(number, &model, stop);
        let scored = (0..self.tasks.len()).map(|number| is_scored.then(|| score(number)).transpose());
        let scored = scored.collect::<Result<Vec<_>, bert_inference::Error>>()?;
        for (number, scored) in scored.into_iter().enumerate() {
            self.record(number, scored, on_event);
        }
        if self.draw.is_some() {
            let tasks = self.task_epochs().pop().expect("an epoch was recorded");
            let epoch = self.epochs.at(self.progress.step - 1) + 1;
            on_event(FinetuneEvent::TasksEvaluated { epoch, tasks });
        }
        Ok(())
    }

    /// Returns the model of a task, scored on the part that selects states.
    fn scored(
        &self,
        number: usize,
        model: &M,
        stop: &StopFlag,
    ) -> Result<ScoredModel<T>, bert_inference::Error> {
        let task = self.tasks[number].task;
        let model = (self.task_model)(model, number);
        ScoredModel::new(task, model, self.epochs_of_task(number), task.selection_part(), stop)
    }

    /// Records the losses and scores of an epoch of a task, and warns if the run has diverged. With one task, keeps the
    /// model if it is the best so far.
    fn record(
        &mut self,
        number: usize,
        scored: Option<ScoredModel<T>>,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) {
        let epoch = self.epochs_of_task(number);
        let TrainSettings { config, cell, seed, .. } = self.settings;
        let task = self.tasks[number].task;
        let progress = &mut self.progress.tasks[number];
        let losses = mem::take(&mut progress.losses);
        let train_loss = (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64);
        if let Some(train_loss) = train_loss {
            let uniform_loss = task.uniform_loss();
            progress.diverged = train_loss > DIVERGENCE_FACTOR * uniform_loss;
            if progress.diverged {
                on_event(FinetuneEvent::Warning(format!(
                    "seed {seed}, epoch {epoch:.1}: the training loss of {train_loss:.4} is far above the loss of \
                     random guessing ({uniform_loss:.4}): the run has diverged; use a lower `.learning_rate` or more \
                     warm-up"
                )));
            }
        }
        let mut report = EpochReport {
            step: progress.steps,
            epoch,
            train_loss,
            dev: None,
            held_out: None,
            masked_lm: None,
        };
        if let Some(scored) = &scored {
            let scores = scored.scored.scores.clone();
            if task.selection_part() == Part::HeldOut {
                report.held_out = Some(scores);
            } else {
                report.dev = Some(scores);
            }
        }
        progress.history.push(report);
        if let Some(scored) = scored.filter(|_| self.draw.is_none()) {
            let held_out = task.selection_part() == Part::HeldOut;
            let scores = scored.scored.scores.clone();
            on_event(FinetuneEvent::Evaluated { cell, seed, epoch, scores, held_out });
            self.progress.epochs_without_improvement += 1;
            let metric = config.task.spec().primary;
            let score = |model: &ScoredModel<T>| model.scored.scores.get(metric).unwrap_or(f64::NAN);
            if self.best.as_ref().is_none_or(|best| is_better(score(&scored), score(best))) {
                self.progress.epochs_without_improvement = 0;
                self.progress.best_epoch = Some(epoch);
                self.best = Some(scored);
            }
        }
    }

    /// Measures the masked-LM scores with `--forgetting-data`, and adds them to the last epoch.
    pub(super) fn measure_forgetting(
        &mut self,
        model: &M,
        on_event: &mut dyn FnMut(FinetuneEvent),
    ) -> Result<(), Error> {
        let last = self.progress.tasks[0].history.last_mut();
        let (Some(test), Some(last)) = (&mut self.forgetting, last) else { return Ok(()) };
        let scores = test.measure(encoder_of((self.task_model)(&model.clone().valid(), 0)))?;
        on_event(FinetuneEvent::MaskedLm { seed: self.settings.seed, epoch: last.epoch, scores });
        last.masked_lm = Some(scores);
        Ok(())
    }

    /// Returns the results of all tasks after each epoch.
    pub(crate) fn task_epochs(&self) -> Vec<Vec<TaskEpoch>> {
        let epochs = self.progress.tasks[0].history.len();
        let result = |at: usize, number: usize| {
            let history = &self.progress.tasks[number].history;
            let EpochReport { step, train_loss, dev, .. } = history[at].clone();
            let before = if at == 0 { 0 } else { history[at - 1].step };
            let task = self.tasks[number].task.setup().config.task.clone();
            TaskEpoch { task, steps: step - before, train_loss, dev: dev.expect("scored after each epoch") }
        };
        (0..epochs).map(|at| (0..self.tasks.len()).map(|number| result(at, number)).collect()).collect()
    }

    /// Scores a task's best model, or its last with several tasks, on every labelled part.
    ///
    /// # Errors
    /// Fails when a stop is requested before all scores are known.
    pub(crate) fn finish(
        &self,
        number: usize,
        model: &M,
        stop: &StopFlag,
    ) -> Result<FinishedRun<T>, bert_inference::Error> {
        let task = self.tasks[number].task;
        let ScoredModel { model, scored, epoch } = match &self.best {
            Some(best) => best.clone(),
            None => self.scored(number, &model.clone().valid(), stop)?,
        };
        let held_out = task.has(Part::HeldOut).then(|| scored.scores.clone());
        // With `--holdout`, dev has not been scored yet.
        let ScoredAnswers { answers, scores: dev } = match &held_out {
            Some(_) => task.answer_and_score(&model, Part::Dev, stop)?,
            None => scored,
        };
        let confusion = task.confusion(&answers);
        let calibration = task.calibration(&answers);
        let mut answers = BTreeMap::from([(Part::Dev, answers)]);
        let mut score = |part: Part| -> Result<Option<Scores>, bert_inference::Error> {
            if !task.has(part) {
                return Ok(None);
            }
            let scored = task.answer_and_score(&model, part, stop)?;
            answers.insert(part, scored.answers);
            Ok(Some(scored.scores))
        };
        let TaskProgress { history, diverged, .. } = &self.progress.tasks[number];
        let report = RunReport {
            seed: self.settings.seed,
            epoch,
            stopped_early: !self.is_last_step(),
            diverged: *diverged,
            held_out,
            dev,
            dev_mismatched: score(Part::DevMismatched)?,
            test: score(Part::Test)?,
            confusion,
            calibration,
            history: history.clone(),
        };
        Ok(FinishedRun { report, answers, model: Some(model) })
    }
}
