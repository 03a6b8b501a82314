//! Opens a file and recognizes its [`Format`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bytes::decompress::{HEAD, Source};
use crate::bytes::file_range::DocumentEnd;
use crate::error::{Error, Result};
use crate::forms::recognize::Form;
use crate::reading::Reading;
use crate::recognize::known_format::reject_known_format;
use crate::recognize::{self, Articles, Head, Layout};

/// Format of an input file after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Lines of text, a blank line between documents.
    #[default]
    Text,
    /// JSON: one object per line, an array of objects, or a sequence of objects; each object has a document in one
    /// value.
    Jsonl,
    /// Parquet: one document in each row of a text column.
    Parquet,
    /// Comma-separated values with a header: one document in each row of a text column.
    Csv,
    /// Tab-separated values with a header: one document in each row of a text column.
    Tsv,
    /// XML dump of a wiki: one document per article.
    WikiDump,
    /// Output of WikiExtractor: one document per `<doc>` element.
    DocTags,
    /// Lines that break inside sentences.
    Wrapped,
    /// Lines with a separator such as `<|endoftext|>` between documents.
    Delimited,
    /// Sentences with annotation, as in Universal Dependencies.
    Conllu,
    /// One token per line, and a blank line after each sentence.
    Conll,
    /// One token per line between tags of sentences.
    Vertical,
    /// SubRip or WebVTT: one document per file.
    Subtitles,
    /// Mails: one document each.
    Mail,
    /// Records of MEDLINE or RIS: one document each.
    Medline,
    /// Verses with their numbers: one document per chapter.
    Verses,
}

impl Format {
    /// Recognizes a file by its content after decompression: Parquet, JSON, CSV, TSV, or else text. Ambiguous content
    /// is decided by its name (`.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv`, optionally followed by a compression
    /// suffix).
    ///
    /// # Errors
    /// Fails when the file cannot be read or decompressed, when it has the name of a Parquet file but different
    /// content, or when it is in a format that is not text.
    pub fn detect(path: &Path, reading: Reading<'_>) -> Result<Self> {
        Ok(OpenInput::open(path, reading)?.format())
    }

    /// Returns whether blocks contain rows instead of lines.
    #[must_use]
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Parquet | Self::Csv | Self::Tsv | Self::WikiDump | Self::DocTags)
    }

    /// Returns the format of a file in a form that is converted.
    pub(crate) fn from_form(form: &Form) -> Self {
        match form {
            Form::Conllu => Self::Conllu,
            Form::Columns(_) => Self::Conll,
            Form::Vertical => Self::Vertical,
            Form::Delimited => Self::Delimited,
            Form::Subtitles => Self::Subtitles,
            Form::Mail => Self::Mail,
            Form::Medline => Self::Medline,
            Form::Verses => Self::Verses,
            Form::Wrapped(_) => Self::Wrapped,
        }
    }

    /// Returns whether rows have named columns or keys.
    #[must_use]
    pub fn has_columns(self) -> bool {
        matches!(self, Self::Jsonl | Self::Parquet | Self::Csv | Self::Tsv)
    }

    /// Returns whether each row is a document of running text.
    #[must_use]
    pub fn is_table(self) -> bool {
        self.has_rows() || self == Self::Jsonl
    }

    /// Returns whether the text is split into sentences: its lines and rows are paragraphs.
    #[must_use]
    pub fn is_running_text(self) -> bool {
        self.is_table() || matches!(self, Self::Wrapped | Self::Subtitles | Self::Mail | Self::Medline)
    }
}

/// An input file, opened and recognized.
pub(crate) enum OpenInput {
    /// A Parquet file, which is opened separately.
    Parquet,
    /// Articles of a wiki.
    Articles(Box<Source>, Articles),
    /// Text in some layout.
    Text(Box<Source>, Layout),
}

impl OpenInput {
    /// Opens and recognizes a file.
    ///
    /// # Errors
    /// Returns the errors of [`Format::detect`].
    pub(crate) fn open(path: &Path, reading: Reading<'_>) -> Result<Self> {
        let source = Source::open(path)?;
        if source.raw_head.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if let Some(articles) = recognize::articles(&source.head) {
            return Ok(Self::Articles(Box::new(source), articles));
        }
        reject_known_format(path, &source.head, source.compression)?;
        if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet")) {
            return Err(Error::data("not a Parquet file: it does not begin with PAR1").at(path));
        }
        let text = String::from_utf8_lossy(&source.head);
        let head = Head::new(&text, source.head.len() < HEAD);
        let layout = recognize::layout(path, &head, reading);
        Ok(Self::Text(Box::new(source), layout))
    }

    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Parquet => Format::Parquet,
            Self::Articles(_, Articles::WikiDump) => Format::WikiDump,
            Self::Articles(_, Articles::DocTags) => Format::DocTags,
            Self::Text(_, Layout::Lines) => Format::Text,
            Self::Text(_, Layout::Form(form)) => Format::from_form(form),
            Self::Text(_, Layout::JsonLines | Layout::JsonValues) => Format::Jsonl,
            Self::Text(_, Layout::Separated(b'\t')) => Format::Tsv,
            Self::Text(_, Layout::Separated(_)) => Format::Csv,
        }
    }
}

/// Returns where the documents of an uncompressed file of lines end, or `None` for other files, which cannot be divided.
///
/// # Errors
/// Returns the errors of [`Format::detect`].
pub fn document_end(path: &Path, reading: Reading<'_>) -> Result<Option<DocumentEnd>> {
    Ok(match OpenInput::open(path, reading)? {
        OpenInput::Text(source, Layout::Lines) if source.compression.is_none() => {
            Some(DocumentEnd::BlankLine)
        }
        OpenInput::Text(source, Layout::JsonLines) if source.compression.is_none() => {
            Some(DocumentEnd::LineEnd)
        }
        _ => None,
    })
}
