//! Opens a file and recognizes its [`Format`].

use std::path::Path;

use crate::Format;
use crate::bytes::decompress::{HEAD, Source};
use crate::error::{Error, Result};
use crate::reading::Reading;
use crate::recognize::known_format::reject_known_format;
use crate::recognize::{self, Head, Layout};

impl Format {
    /// Recognizes a file by its content after decompression, such as Parquet, JSON, CSV, TSV or a wiki dump; other
    /// content is text. Ambiguous content is decided by its name (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv`,
    /// optionally followed by a compression suffix).
    ///
    /// # Errors
    /// Fails when the file cannot be read or decompressed, when it has the name of a Parquet file but different
    /// content, or when it is in a format that is not text.
    pub fn detect(path: &Path, reading: Reading<'_>) -> Result<Self> {
        Ok(OpenInput::open(path, reading)?.format())
    }
}

/// An input file, opened and recognized.
pub(crate) struct OpenInput {
    pub(crate) source: Source,
    pub(crate) layout: Layout,
}

impl OpenInput {
    /// Opens and recognizes a file.
    ///
    /// # Errors
    /// Returns the errors of [`Format::detect`].
    pub(crate) fn open(path: &Path, reading: Reading<'_>) -> Result<Self> {
        let source = Source::open(path)?;
        let layout = layout(path, &source, reading)?;
        Ok(Self { source, layout })
    }

    pub(crate) fn format(&self) -> Format {
        match self.layout {
            Layout::Parquet => Format::Parquet,
            Layout::Lines => Format::Text,
            Layout::Articles(format) | Layout::Form(format) => format,
            Layout::JsonLines | Layout::JsonValues => Format::Jsonl,
            Layout::Separated(b'\t') => Format::Tsv,
            Layout::Separated(_) => Format::Csv,
        }
    }
}

fn layout(path: &Path, source: &Source, reading: Reading<'_>) -> Result<Layout> {
    if source.raw_head.starts_with(b"PAR1") {
        return Ok(Layout::Parquet);
    }
    if let Some(format) = recognize::articles(&source.head) {
        return Ok(Layout::Articles(format));
    }
    reject_known_format(path, &source.head, source.compression)?;
    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet")) {
        return Err(Error::data("not a Parquet file: it does not begin with PAR1").at(path));
    }
    let text = String::from_utf8_lossy(&source.head);
    let head = Head::new(&text, source.head.len() < HEAD);
    Ok(recognize::layout(path, &head, reading))
}

/// Returns the format of an uncompressed file of text or JSON lines, or `None` for other files, which cannot be divided.
///
/// # Errors
/// Returns the errors of [`Format::detect`].
pub fn divisible_format(path: &Path, reading: Reading<'_>) -> Result<Option<Format>> {
    let input = OpenInput::open(path, reading)?;
    let has_lines = matches!(input.layout, Layout::Lines | Layout::JsonLines);
    Ok((has_lines && input.source.compression.is_none()).then(|| input.format()))
}
