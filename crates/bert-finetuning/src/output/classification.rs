//! The output files of classification, regression and multiple choice.

use bert_inference::Error;
use bert_model::BertConfig;
use bert_tasks::{write_errors, write_labels, write_predictions, write_probabilities};

use crate::data::TaskData;
use crate::data::classification::{Classification, LabelledExamples};
use crate::data::datasets::Part;
use crate::model::classification::AdapterSupport;
use crate::output::TaskOutput;
use crate::output::adapters::{FusionReport, fusion_report, save_with_adapters};
use crate::output::folder::{DEV_LABELS, OutputFolder};
use crate::scoring::classification::LabelAnswers;

impl<M: AdapterSupport> TaskOutput for Classification<'_, M> {
    /// Writes predictions and probabilities, and the errors if the examples have labels.
    fn write_answers(
        &self,
        output: &OutputFolder,
        prefix: &str,
        LabelledExamples { examples, .. }: &LabelledExamples,
        LabelAnswers { labels, outputs }: &LabelAnswers,
    ) -> Result<(), Error> {
        let task = self.task();
        output.write(&format!("{prefix}predictions.tsv"), |out| {
            write_predictions(out, task, examples, labels)
        })?;
        output.write(&format!("{prefix}probabilities.tsv"), |out| write_probabilities(out, outputs))?;
        if examples.iter().all(|example| example.label.is_some()) {
            output.write(&format!("{prefix}errors.tsv"), |out| {
                write_errors(out, task, examples, labels, outputs)
            })?;
        }
        Ok(())
    }

    fn write_dev_labels(&self, output: &OutputFolder) -> Result<(), Error> {
        output.write(DEV_LABELS, |out| write_labels(out, self.task(), &self.part(Part::Dev).examples))
    }

    fn save_model(&self, output: &OutputFolder, model: &M, model_config: &BertConfig) -> Result<(), Error> {
        let model = self.with_original_scale(model);
        match model.as_sequence_classifier() {
            Some(model) => save_with_adapters(output, self.setup(), model, model_config),
            None => output.save_model(&model, model_config, &self.setup().checkpoint.tokenizer),
        }
    }

    fn fusion(&self, model: &M) -> Result<Option<FusionReport>, Error> {
        let folders = &self.setup().config.adapters.fusion;
        match model.as_sequence_classifier().filter(|_| !folders.is_empty()) {
            Some(model) => {
                let dev = &self.part(Part::Dev).features;
                let device = self.setup().checkpoint.inference_device();
                fusion_report(folders, &model.bert, dev, &device).map(Some)
            }
            None => Ok(None),
        }
    }
}
