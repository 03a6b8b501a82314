//! Holds the description of a table of one's own, and its name as a task.

use super::spec::TaskSpec;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// What is known of a table: all that decides how its files are read and scored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDescription {
    /// The columns: text, perhaps a second text, label. Empty as long as nobody has named them.
    pub columns: Vec<String>,
    /// The classes, in the order of their numbers; empty for a regression.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Lowest and highest score of a regression.
    #[serde(default)]
    pub range: Option<(f32, f32)>,
    /// Whether the test file has labels; of no account for what a report holds.
    #[serde(skip)]
    pub test_has_labels: bool,
}

/// The name of a table's specification.
#[derive(Debug, Clone, Copy)]
pub struct TableTask(&'static (TableDescription, TaskSpec));

impl PartialEq for TableTask {
    fn eq(&self, other: &Self) -> bool {
        // There is one of each description.
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for TableTask {}

impl Hash for TableTask {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl TableTask {
    /// A task whose description and specification are kept for the rest of the process.
    pub(super) fn of(kept: &'static (TableDescription, TaskSpec)) -> Self {
        Self(kept)
    }

    /// What it was made of.
    pub fn description(self) -> &'static TableDescription {
        &self.0.0
    }

    pub(super) fn spec(self) -> &'static TaskSpec {
        &self.0.1
    }
}
