//! The output files of extractive question answering.

use bert_inference::Error;
use bert_tasks::decode::answer_spans::PredictedAnswer;
use serde_json::{Map, Value, json};

use crate::data::question_answering::{QuestionAnswering, QuestionSet};
use crate::output::TaskOutput;
use crate::output::folder::OutputFolder;

impl TaskOutput for QuestionAnswering<'_> {
    /// Writes the answers in the official format, with the n-best lists and the "no answer" scores.
    fn write_answers(
        &self,
        output: &OutputFolder,
        prefix: &str,
        set: &QuestionSet,
        answers: &Vec<PredictedAnswer>,
    ) -> Result<(), Error> {
        let write = |name: &str, value: fn(&PredictedAnswer) -> Value| {
            let entries = set.questions.iter().zip(answers);
            let by_id: Map<String, Value> = entries.map(|(q, a)| (q.id.clone(), value(a))).collect();
            output.write(&format!("{prefix}{name}"), |out| {
                serde_json::to_writer_pretty(&mut *out, &by_id)?;
                writeln!(out)
            })
        };
        write("predictions.json", |answer| json!(answer.text))?;
        write("nbest_predictions.json", |answer| json!(answer.n_best))?;
        if self.answers.null_threshold.is_some() {
            write("null_odds.json", |answer| json!(answer.null_score_difference))?;
        }
        Ok(())
    }
}
