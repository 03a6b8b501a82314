//! Evaluates the weights of a run, and saves the best ones and the average of the last checkpoints.

use bert_model::{BertForPreTraining, LoadPolicy, Snapshot, load_pretrained_weights, named_tensors_to_bytes};
use burn::module::Module;

use crate::error::Error;
use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::pretrain::best_and_average::{AVERAGE, SavedModel, average_last};
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::run::Run;

impl Run<'_> {
    /// Runs the missing evaluation, if any: the evaluation of the initial weights, or an evaluation that a stop
    /// skipped.
    pub(crate) fn evaluate_if_pending(
        &mut self,
        model: &BertForPreTraining,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if self.evaluation_pending { self.evaluate(model, on_event) } else { Ok(()) }
    }

    /// Evaluates the weights after the current step, and saves them if they are the best so far.
    ///
    /// # Errors
    /// Fails when a stop is requested; nothing is recorded then, and a resumed run evaluates the weights. Also fails
    /// when a rank has an error or is lost.
    pub(crate) fn evaluate(
        &mut self,
        model: &BertForPreTraining,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let model = model.clone().valid();
        let evaluation = self.inputs.evaluate(self.group, &model, &self.stop)?;
        let Some(evaluation) = evaluation else { return Ok(()) };
        let record = EvaluationRecord { step: self.step, evaluation };
        let recorded = self.record_evaluation(&model, record, on_event);
        self.group.hold(recorded)
    }

    /// Logs an evaluation, and saves the weights if they are the best so far.
    fn record_evaluation(
        &mut self,
        model: &BertForPreTraining,
        record: EvaluationRecord,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let keep_best = self.config().keep_best && self.step > 0;
        if let Some(files) = &mut self.files {
            files.logs.evaluations.append(&record)?;
            let best = files.best();
            if keep_best && best.is_worse_than(&record)? {
                best.write(|out| Snapshot::new(model).write(out), &files.files_except_weights)?;
                best.write_evaluation(&record)?;
            }
        }
        self.last_evaluation = Some(record.evaluation.clone());
        on_event(PretrainEvent::Evaluated { step: self.step, evaluation: record.evaluation });
        Ok(())
    }

    /// Writes the average of the last checkpoints' weights, and evaluates it.
    pub(crate) fn average(
        &mut self,
        last: usize,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Option<Evaluation>, Error> {
        let averaged = self.write_average(last, on_event);
        let averaged = self.group.agree(averaged)?;
        let (steps, model) = averaged.unwrap_or_else(|| (Vec::new(), self.inputs.untrained_model()));
        let model = self.group.broadcast_weights(model)?.valid();
        let evaluation = self.inputs.evaluate(self.group, &model, &self.stop)?;
        let Some(files) = &self.files else { return Ok(evaluation) };
        let average = SavedModel::new(&files.folder.run.folder, AVERAGE);
        if let Some(evaluation) = evaluation.clone() {
            let written = average.write_evaluation(&EvaluationRecord { step: self.step, evaluation });
            self.group.hold(written)?;
        }
        let path = average.path().to_path_buf();
        on_event(PretrainEvent::Averaged { steps, path, evaluation: evaluation.clone() });
        Ok(evaluation)
    }

    /// Writes the average of the last checkpoints' weights, on rank 0; returns their steps and the average.
    fn write_average(
        &self,
        last: usize,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Option<(Vec<u64>, BertForPreTraining)>, Error> {
        let Some(files) = &self.files else { return Ok(None) };
        let mut warn = |warning: String| on_event(PretrainEvent::Warning(warning));
        let checkpoints = files.folder.checkpoints();
        let save_every = self.config().save_every;
        let (steps, mean) = average_last(&checkpoints, last, save_every, self.step, &mut warn)?;
        let average = SavedModel::new(&files.folder.run.folder, AVERAGE);
        let bytes = named_tensors_to_bytes(&mean);
        average.write(|out| out.write_all(&bytes), &files.files_except_weights)?;
        let model = self.inputs.untrained_model();
        let (model, _) = load_pretrained_weights(model, average.path(), LoadPolicy::Exact)?;
        Ok(Some((steps, model)))
    }
}
