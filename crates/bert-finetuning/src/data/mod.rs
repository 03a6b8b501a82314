//! The data of a fine-tuning: reads the files of a task, holds examples out of the training file and tokenizes all
//! examples.
//!
//! The tasks have the same file names here and in `model/`, `scoring/` and `output/`:
//!
//! | prediction | file | model |
//! |---|---|---|
//! | a class or a score for a text or a pair | `classification.rs` | `BertForSequenceClassification` |
//! | the same, with a head on a frozen encoder | `classification.rs` | `BertWithFeatureHead` |
//! | the right choice among several texts | `classification.rs` | `BertForMultipleChoice` |
//! | the answer span in a text | `question_answering.rs` | `BertForQuestionAnswering` |
//! | a tag for every word | `token_classification.rs` | `BertForTokenClassification` |

pub(crate) mod classification;
pub(crate) mod datasets;
pub(crate) mod holdout;
pub(crate) mod label_scale;
pub(crate) mod question_answering;
pub(crate) mod token_classification;
pub(crate) mod training_rows;

use crate::data::datasets::{Part, Sets};
use crate::setup::Setup;

/// The data of a task.
pub(crate) trait TaskData {
    /// The examples of a file, as text and as tokens.
    type Set;

    /// Returns the examples of the task's files.
    fn sets(&self) -> &Sets<'_, Self::Set>;

    /// Returns the number of training items in an epoch: examples, or windows of questions.
    fn items(&self) -> usize;

    /// Returns a digest of the examples.
    fn digest(set: &Self::Set) -> String;

    /// Returns the configuration and checkpoint that the data was read for.
    fn setup(&self) -> Setup<'_> {
        self.sets().setup
    }

    /// Returns whether the task has this part.
    fn has(&self, part: Part) -> bool {
        self.sets().parts.contains_key(&part)
    }

    /// Returns the examples of a part.
    ///
    /// # Panics
    /// When the task does not have the part.
    fn part(&self, part: Part) -> &Self::Set {
        &self.sets().parts[&part]
    }

    /// Returns the part that selects the best epoch, run and configuration: the held-out examples if there are any,
    /// else dev.
    fn selection_part(&self) -> Part {
        if self.has(Part::HeldOut) { Part::HeldOut } else { Part::Dev }
    }
}
