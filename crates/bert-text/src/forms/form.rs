//! The form of a file of text.

use super::wrapped::Layout;

/// The form of a file of text, with the values that its first lines determine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Sentences with `# text`, as in Universal Dependencies.
    Conllu,
    /// One token per line: the index of the column of the words.
    Columns(usize),
    /// Tokens in lines between tags of sentences and documents.
    Vertical,
    /// Lines with a separator such as `<|endoftext|>` between documents.
    Delimited,
    /// Cues with time codes.
    Subtitles,
    /// Mails, one or many.
    Mail,
    /// Records with fields such as `AB  -`.
    Medline,
    /// Verses of a Bible with their numbers.
    Verses,
    /// Lines that break inside sentences.
    Wrapped(Box<Layout>),
}
