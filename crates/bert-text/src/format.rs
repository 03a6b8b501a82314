//! The formats of input files.

use serde::{Deserialize, Serialize};

/// Format of an input file after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Lines of text, with a blank line between documents.
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
    /// Returns whether blocks contain rows instead of lines.
    #[must_use]
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Parquet | Self::Csv | Self::Tsv | Self::WikiDump | Self::DocTags)
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
