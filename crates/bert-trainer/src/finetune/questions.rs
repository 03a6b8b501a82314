//! Checks the flags of question answering and fills in the defaults of `run_squad.py`.

use super::config::FinetuneConfig;
use crate::error::Error;
use crate::question_answering::answers::AnswerSettings;
use crate::question_answering::windows::WindowSettings;
use crate::tasks::Kind;

/// How texts are cut and what can be an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QuestionSettings {
    pub(super) windows: WindowSettings,
    pub(super) answers: AnswerSettings,
}

impl FinetuneConfig {
    /// The settings with the reference's defaults filled in; `None` for other tasks.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming the flag that is wrong or of another task.
    pub(super) fn question_settings(&self) -> Result<Option<QuestionSettings>, Error> {
        let refuse = |flag, reason: &str| Err(Error::Configuration { flag, reason: reason.to_string() });
        let spec = self.task.spec();
        let Kind::Spans { version_2 } = spec.kind else {
            let given = [
                ("doc-stride", self.doc_stride.is_some()),
                ("max-query-length", self.max_query_length.is_some()),
                ("n-best-size", self.n_best_size.is_some()),
                ("max-answer-length", self.max_answer_length.is_some()),
                ("null-score-diff-threshold", self.null_score_diff_threshold.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((flag, _)) => refuse(flag, "is for --task squad and squad2"),
                None => Ok(None),
            };
        };
        if !version_2 && self.null_score_diff_threshold.is_some() {
            return refuse(
                "null-score-diff-threshold",
                "is for --task squad2: in squad every question has an answer",
            );
        }
        let settings = QuestionSettings {
            windows: WindowSettings {
                max_seq_length: self.max_seq_length.unwrap_or(spec.defaults.max_seq_length),
                doc_stride: self.doc_stride.unwrap_or(128),
                max_query_length: self.max_query_length.unwrap_or(64),
            },
            answers: AnswerSettings {
                n_best_size: self.n_best_size.unwrap_or(20),
                max_answer_length: self.max_answer_length.unwrap_or(30),
                null_threshold: version_2.then(|| self.null_score_diff_threshold.unwrap_or(0.0)),
            },
        };
        let WindowSettings { max_seq_length, doc_stride, max_query_length } = settings.windows;
        let positive = [
            ("doc-stride", doc_stride),
            ("max-query-length", max_query_length),
            ("n-best-size", settings.answers.n_best_size),
            ("max-answer-length", settings.answers.max_answer_length),
        ];
        if let Some((flag, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return refuse(flag, "must be at least 1");
        }
        if max_seq_length <= max_query_length + 3 {
            let reason = format!(
                "{max_seq_length} leaves no room for the text beside a question of {max_query_length} tokens \
                 (--max-query-length) and three special ones"
            );
            return refuse("max-seq-length", &reason);
        }
        if settings.answers.null_threshold.is_some_and(|threshold| !threshold.is_finite()) {
            return refuse("null-score-diff-threshold", "must be a number");
        }
        Ok(Some(settings))
    }
}
