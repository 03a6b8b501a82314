//! The flags of question answering, with the defaults of `run_squad.py`.

use bert_storage::{Error, at_least_one, check_value};
use bert_tasks::answer_spans::AnswerSettings;
use bert_tasks::windows::WindowSettings;
use serde::{Deserialize, Serialize};

/// Flags of `--task squad` and `squad2`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, derive_setters::Setters)]
#[cfg_attr(
    feature = "cli",
    derive(clap::Args),
    command(next_help_heading = "Question answering (squad, squad2)")
)]
#[setters(prefix = "with_", strip_option)]
#[serde(default)]
pub struct SquadArgs {
    /// Stride between windows of a long text, in tokens [default: 128, or a third of a shorter --max-seq-length].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub doc_stride: Option<usize>,

    /// Maximum question length in tokens; longer questions are truncated [default: 64].
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true, value_name = "N"))]
    pub max_query_length: Option<usize>,

    /// Leave out questions with an answer that is not at its answer_start, with a warning. Otherwise they are errors.
    #[cfg_attr(feature = "cli", arg(long, hide_short_help = true))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skip_misplaced_answers: bool,

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

impl SquadArgs {
    /// Checks each value.
    ///
    /// # Errors
    /// Fails when a number is 0 or not finite; the error names the setting.
    pub fn check(&self) -> Result<(), Error> {
        let numbers = [
            ("doc_stride", self.doc_stride),
            ("max_query_length", self.max_query_length),
            ("n_best_size", self.n_best_size),
            ("max_answer_length", self.max_answer_length),
        ];
        numbers.into_iter().try_for_each(|(setting, number)| at_least_one(setting, number))?;
        let threshold = self.null_score_diff_threshold.unwrap_or(0.0);
        check_value(threshold.is_finite(), "null_score_diff_threshold", threshold, "a number")
    }

    /// Returns the settings of the windows that a text is cut into.
    pub fn windows(&self, max_seq_length: usize) -> WindowSettings {
        WindowSettings {
            max_seq_length,
            doc_stride: self.doc_stride.unwrap_or((max_seq_length / 3).clamp(1, 128)),
            max_query_length: self.max_query_length.unwrap_or(64),
        }
    }

    /// Returns the settings of the answers; `version_2` allows questions without an answer.
    pub fn answers(&self, version_2: bool) -> AnswerSettings {
        AnswerSettings {
            n_best_size: self.n_best_size.unwrap_or(20),
            max_answer_length: self.max_answer_length.unwrap_or(30),
            null_threshold: version_2.then_some(self.null_score_diff_threshold.unwrap_or(0.0)),
        }
    }
}
