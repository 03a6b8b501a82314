//! Texts -> JSON Lines of answers, in the order of the input and in bounded memory.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::classifier::{Answer, Classifier};
use super::text_input::{TextFormat, for_each_window};
use super::unwritten;
use crate::error::Error;

/// Texts that are held and sorted by length at a time.
const WINDOW: usize = 1024;

/// One line of the output.
#[derive(Serialize)]
struct Row<'a> {
    line: u64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_b: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a Answer,
}

/// Writes the answer to every text of `input` (a file, or `-`) to `out`, one JSON object a line; gives their number.
///
/// # Errors
/// Bad input with its line, after the answers to the windows before it were written; [`Error::Results`].
pub fn predict_file(
    classifier: &Classifier,
    input: &Path,
    format: Option<TextFormat>,
    out: &mut dyn Write,
) -> Result<u64, Error> {
    let format = format.unwrap_or_else(|| TextFormat::of(input));
    let mut count = 0;
    for_each_window(input, WINDOW, |path, line, text| format.example(path, line, text), &mut |window| {
        for (example, answer) in window.iter().zip(classifier.answer(window)) {
            let (text, text_b) = (example.text_a.as_str(), example.text_b.as_deref());
            let line = example.index.parse().expect("a number of ours");
            let row = Row { line, text, text_b, answer: &answer };
            serde_json::to_writer(&mut *out, &row).map_err(|error| unwritten(error.into()))?;
            out.write_all(b"\n").map_err(unwritten)?;
        }
        count += window.len() as u64;
        out.flush().map_err(unwritten)
    })?;
    Ok(count)
}
