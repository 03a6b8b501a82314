//! Batches the windows of questions, and collects the model's answers.

use bert_model::{BertForQuestionAnswering, Mode};
use bert_tasks::answer_spans::{AnswerSettings, PredictedAnswer, WindowScores, answer};
use bert_tasks::windows::{EncodedQuestion, Window, WindowSettings};
use bert_tasks::{Question, SpecialIds};
use burn::tensor::Device;

use crate::compute::host_tensors::read;
use crate::compute::stop_flag::StopFlag;
use crate::encoding::examples::{PaddedBatch, by_length, padded_length};
use crate::encoding::model_tokenizer::ModelTokenizer;
use crate::error::Error;

const EVAL_BATCH: usize = 32;

/// Questions, cut into windows.
pub struct EncodedQuestions {
    encoded: Vec<EncodedQuestion>,
    /// Indices (question, window) of every model input.
    windows: Vec<(usize, usize)>,
    pad_id: i32,
    max_seq_length: usize,
}

impl EncodedQuestions {
    /// Tokenizes questions and their texts.
    pub fn new(questions: &[Question], text: &ModelTokenizer, settings: WindowSettings) -> Self {
        let vocabulary = &text.vocabulary;
        let special = SpecialIds { cls: vocabulary.cls_id(), sep: vocabulary.sep_id() };
        let encode = |question| EncodedQuestion::new(question, &text.tokenizer, special, settings);
        let encoded: Vec<EncodedQuestion> = questions.iter().map(encode).collect();
        let windows = encoded.iter().enumerate();
        let windows =
            windows.flat_map(|(at, question)| (0..question.windows.len()).map(move |window| (at, window)));
        Self {
            windows: windows.collect(),
            encoded,
            pad_id: vocabulary.pad_id() as i32,
            max_seq_length: settings.max_seq_length,
        }
    }

    /// Returns the total number of windows.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Returns a window by its index over all questions.
    pub fn window(&self, number: usize) -> &Window {
        let (question, window) = self.windows[number];
        &self.encoded[question].windows[window]
    }

    /// Returns the length to which a batch of these windows is padded.
    pub fn padded_length(&self, windows: &[usize]) -> usize {
        padded_length(windows.iter().map(|&i| &self.window(i).encoded), self.max_seq_length)
    }

    /// Returns a batch of windows, padded to `length`.
    pub fn batch(&self, windows: &[usize], length: usize) -> PaddedBatch {
        let rows: Vec<_> = windows.iter().map(|&i| &self.window(i).encoded).collect();
        PaddedBatch::with_length(&rows, self.pad_id, length)
    }

    /// Returns the answer to every question; `questions` must be the questions that were tokenized.
    ///
    /// # Errors
    /// Fails when a stop is requested before the last batch, or when the device fails.
    pub fn answers(
        &self,
        questions: &[Question],
        model: &BertForQuestionAnswering,
        settings: AnswerSettings,
        device: &Device,
        stop: &StopFlag,
    ) -> Result<Vec<PredictedAnswer>, Error> {
        let lengths: Vec<usize> =
            (0..self.windows()).map(|i| self.window(i).encoded.input_ids.len()).collect();
        let mut scores: Vec<Option<WindowScores>> = vec![None; self.windows()];
        for batch in by_length(&lengths, EVAL_BATCH) {
            stop.check()?;
            let padded = self.batch(&batch, self.padded_length(&batch));
            let logits = model.forward(padded.input(device), Mode::Eval);
            let starts = read(logits.start)?;
            let ends = read(logits.end)?;
            for (row, &window) in batch.iter().enumerate() {
                let at = row * padded.seq_length;
                let window_scores = |scores: &[f32]| scores[at..at + lengths[window]].to_vec();
                scores[window] =
                    Some(WindowScores { start: window_scores(&starts), end: window_scores(&ends) });
            }
        }
        let mut scores = scores.into_iter().map(|scores| scores.expect("every window is in a batch"));
        let answered = questions.iter().zip(&self.encoded).map(|(question, encoded)| {
            let scores: Vec<WindowScores> = scores.by_ref().take(encoded.windows.len()).collect();
            answer(&question.context, encoded, &scores, settings)
        });
        Ok(answered.collect())
    }
}
