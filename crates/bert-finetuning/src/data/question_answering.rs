//! The data of extractive question answering.

use std::path::Path;

use bert_inference::Error;
use bert_inference::encoding::questions::EncodedQuestions;
use bert_storage::{Locate, digest_bytes};
use bert_tasks::decode::answer_spans::AnswerSettings;
use bert_tasks::read::squad::{Question, read_questions};
use bert_tasks::{Kind, TaskError, TaskProblem};

use crate::data::TaskData;
use crate::data::datasets::{Purpose, Sets};
use crate::setup::Setup;

/// Questions as text and as tokens.
pub(crate) struct QuestionSet {
    pub(crate) questions: Vec<Question>,
    /// Whether some questions have no answer (SQuAD 2.0).
    pub(crate) version_2: bool,
    pub(crate) encoded: EncodedQuestions,
}

/// A task that predicts where in a text the answer to a question begins and ends.
pub(crate) struct QuestionAnswering<'a> {
    sets: Sets<'a, QuestionSet>,
    pub(crate) answers: AnswerSettings,
}

impl<'a> QuestionAnswering<'a> {
    /// Reads the task's files.
    ///
    /// # Errors
    /// When a file is missing or invalid; [`TaskProblem::Unanswerable`] for a question without an answer in version
    /// 1.1.
    pub(crate) fn read(setup: Setup<'a>) -> Result<Self, Error> {
        let version_2 = setup.config.task.spec().kind == Kind::Spans { version_2: true };
        let (windows, answers) = setup.config.question_settings()?.expect("a task of questions");
        let read = |path: &Path, purpose| -> Result<Vec<Question>, Error> {
            let questions = read_questions(path, purpose != Purpose::Predict)?;
            match questions.iter().find(|question| question.is_impossible && !version_2) {
                Some(Question { id, .. }) => {
                    Err(TaskError::from(TaskProblem::Unanswerable(id.clone()).located(path)).into())
                }
                None => Ok(questions),
            }
        };
        let set = |questions: Vec<Question>| QuestionSet {
            encoded: EncodedQuestions::new(&questions, &setup.checkpoint.tokenizer, windows),
            questions,
            version_2,
        };
        Ok(Self { sets: Sets::read(setup, read, set)?, answers })
    }
}

impl TaskData for QuestionAnswering<'_> {
    type Set = QuestionSet;

    fn sets(&self) -> &Sets<'_, QuestionSet> {
        &self.sets
    }

    /// Counts windows, not questions.
    fn items(&self) -> usize {
        self.sets.train.encoded.windows()
    }

    fn digest(set: &QuestionSet) -> String {
        let QuestionSet { questions, version_2, .. } = set;
        // This text must not change: the digests in existing reports depend on it.
        let set = format!("QuestionSet {{ questions: {questions:?}, version_2: {version_2} }}");
        digest_bytes(set.as_bytes())
    }
}
