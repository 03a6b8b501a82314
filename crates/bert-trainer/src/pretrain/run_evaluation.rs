//! Evaluates the weights of a run, and saves the best ones and the average of the last checkpoints.

use bert_model::{
    Architecture, BertForPreTraining, LoadPolicy, Snapshot, load_pretrained_weights, named_tensors_to_bytes,
};
use burn::module::Module;

use super::events::PretrainEvent;
use super::run::Run;
use crate::error::Error;
use crate::evaluation::{Evaluation, EvaluationRecord};
use crate::pretrain::best_and_average::{AVERAGE, SavedModel, average_last};

impl Run<'_> {
    /// Runs the evaluation that is missing, if any: of the initial weights, or one that a stop skipped.
    pub(super) fn evaluate_if_pending(
        &mut self,
        model: &BertForPreTraining,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        if self.evaluation_pending { self.evaluate(model, on_event) } else { Ok(()) }
    }

    /// Evaluates the weights of `step`, and saves them if they are the best so far.
    ///
    /// # Errors
    /// [`Error::Stopped`] when a stop is requested; nothing is recorded then, and a resumed run evaluates them.
    pub(super) fn evaluate(
        &mut self,
        model: &BertForPreTraining,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<(), Error> {
        let model = model.clone().valid();
        let Some(evaluation) = self.inputs.evaluate(&model, self.step, &self.stop)? else { return Ok(()) };
        let record = EvaluationRecord { step: self.step, evaluation };
        self.logs.evaluations.append(&record)?;
        if self.config().keep_best && self.step > 0 {
            let best = self.best();
            if best.is_worse_than(&record)? {
                best.write(|out| Snapshot::of(&model).write(out), &self.files_except_weights)?;
                best.write_evaluation(&record)?;
            }
        }
        self.last_evaluation = Some(record.evaluation.clone());
        on_event(PretrainEvent::Evaluated { step: self.step, evaluation: record.evaluation });
        Ok(())
    }

    /// Writes the average of the last checkpoints' weights, and evaluates it.
    pub(super) fn average(
        &mut self,
        last: usize,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Option<Evaluation>, Error> {
        let mut warn = |warning: String| on_event(PretrainEvent::Warning(warning));
        let checkpoints = self.folder.checkpoints();
        let save_every = self.config().save_every;
        let (steps, mean) = average_last(&checkpoints, last, save_every, self.step, &mut warn)?;
        let average = SavedModel::of(&self.folder.folder, AVERAGE);
        let bytes = named_tensors_to_bytes(&mean);
        average.write(|out| out.write_all(&bytes), &self.files_except_weights)?;
        let device = self.inputs.device.clone().inner();
        let model = BertForPreTraining::new(self.inputs.model_config(), self.config().seed, &device);
        let (model, _) = load_pretrained_weights(model, average.path(), LoadPolicy::Exact)?;
        let evaluation = self.inputs.evaluate(&model, self.step, &self.stop)?;
        if let Some(evaluation) = evaluation.clone() {
            average.write_evaluation(&EvaluationRecord { step: self.step, evaluation })?;
        }
        let path = average.path().to_path_buf();
        on_event(PretrainEvent::Averaged { steps, path, evaluation: evaluation.clone() });
        Ok(evaluation)
    }
}
