//! The flags of question answering, and the settings for windows and answers.

use serde::{Deserialize, Serialize};

use crate::error::{Error, check};
use crate::finetune::config::FinetuneConfig;
use crate::finetune::config::resolve::reject_first;
use bert_tasks::Kind;
use bert_tasks::decode::answer_spans::AnswerSettings;
use bert_tasks::encode::windows::WindowSettings;

/// Flags of `--task squad` and `squad2`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(
    feature = "cli",
    derive(clap::Args),
    command(next_help_heading = "Question answering (squad, squad2)")
)]
#[setters(prefix = "with_", strip_option)]
#[setters(generate_delegates(ty = "crate::finetune::FinetuneConfig", field = "squad"))]
#[serde(default)]
pub struct SquadArgs {
    /// Stride between windows of a long text, in tokens [default: 128].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub doc_stride: Option<usize>,

    /// Maximum question length in tokens; longer questions are truncated [default: 64].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub max_query_length: Option<usize>,

    /// Number of start and end candidates per window, and of answers kept per question [default: 20].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub n_best_size: Option<usize>,

    /// Maximum answer length in tokens [default: 30].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub max_answer_length: Option<usize>,

    /// For squad2: predict "no answer" if its score exceeds the best answer's by more than X [default: 0].
    #[cfg_attr(
        feature = "cli",
        arg(long, hide_short_help = true, value_name = "X", allow_negative_numbers = true)
    )]
    pub null_score_diff_threshold: Option<f64>,
}

impl FinetuneConfig {
    /// Returns the settings for windows and answers of question answering, with the defaults of `run_squad.py`; `None`
    /// for other tasks.
    ///
    /// # Errors
    /// [`Error::Configuration`] naming a flag that is wrong or belongs to another task.
    pub(crate) fn question_settings(&self) -> Result<Option<(WindowSettings, AnswerSettings)>, Error> {
        let spec = self.task.spec();
        let SquadArgs { doc_stride, max_query_length, n_best_size, max_answer_length, .. } = self.squad;
        let threshold = self.squad.null_score_diff_threshold;
        let Kind::Spans { version_2 } = spec.kind else {
            let given = [
                ("doc-stride", doc_stride.is_some()),
                ("max-query-length", max_query_length.is_some()),
                ("n-best-size", n_best_size.is_some()),
                ("max-answer-length", max_answer_length.is_some()),
                ("null-score-diff-threshold", threshold.is_some()),
            ];
            return reject_first(&given, "works with --task squad and squad2 only").map(|()| None);
        };
        check(
            version_2 || threshold.is_none(),
            "null-score-diff-threshold",
            "works with --task squad2 only: in squad every question has an answer",
        )?;
        let windows = WindowSettings {
            max_seq_length: self.max_seq_length.unwrap_or(spec.defaults.max_seq_length),
            doc_stride: doc_stride.unwrap_or(128),
            max_query_length: max_query_length.unwrap_or(64),
        };
        let answers = AnswerSettings {
            n_best_size: n_best_size.unwrap_or(20),
            max_answer_length: max_answer_length.unwrap_or(30),
            null_threshold: version_2.then_some(threshold.unwrap_or(0.0)),
        };
        let zeros = [
            ("doc-stride", windows.doc_stride == 0),
            ("max-query-length", windows.max_query_length == 0),
            ("n-best-size", answers.n_best_size == 0),
            ("max-answer-length", answers.max_answer_length == 0),
        ];
        reject_first(&zeros, "must be at least 1")?;
        let WindowSettings { max_seq_length, max_query_length, .. } = windows;
        let no_room = format!(
            "{max_seq_length} is too short: a question of {max_query_length} tokens (--max-query-length) and three \
             special tokens leave no room for the text"
        );
        check(max_seq_length > max_query_length + 3, "max-seq-length", &no_room)?;
        check(threshold.is_none_or(f64::is_finite), "null-score-diff-threshold", "must be a number")?;
        Ok(Some((windows, answers)))
    }
}
