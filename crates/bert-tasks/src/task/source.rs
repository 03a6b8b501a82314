//! Defines sources of new texts, which are read in windows of bounded size.

use std::path::Path;

use serde_json::Value;

use crate::task::Task;
use crate::task::error::Error;
use crate::task::example::Example;

/// A window of examples, in the order of the input.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The examples. The index of an example is its line number from 1, or its row number in a Parquet file.
    pub examples: Vec<Example>,
    /// The values copied to the output, one per example.
    pub ids: Vec<Option<Value>>,
}

/// The windows of a source.
pub type Windows<'a> = Box<dyn Iterator<Item = Result<Window, Error>> + 'a>;

/// A source of new texts, such as a file.
pub trait TextSource {
    /// Returns the name of the source for messages.
    fn name(&self) -> &Path;

    /// Returns the examples in order, at most `size` in a window (fewer if texts are long), for a model trained on a task. The
    /// windows end after the first error.
    ///
    /// # Errors
    /// Fails when the source cannot be opened. A window is an error if the input cannot be read; the error names the
    /// line.
    fn windows(&self, trained_task: Option<&Task>, size: usize) -> Result<Windows<'_>, Error>;

    /// Returns the name of the second text column for messages.
    fn second_column(&self) -> &str {
        "the second column"
    }
}

/// Examples in memory.
impl TextSource for Vec<Example> {
    fn name(&self) -> &Path {
        Path::new("the texts")
    }

    fn windows(&self, _: Option<&Task>, size: usize) -> Result<Windows<'_>, Error> {
        let window =
            |examples: &[Example]| Window { examples: examples.to_vec(), ids: vec![None; examples.len()] };
        Ok(Box::new(self.chunks(size).map(move |examples| Ok(window(examples)))))
    }
}
