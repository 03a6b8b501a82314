//! Errors of a text as a whole, which cannot give a data set.

/// A text that cannot give a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A document has more tokens than 32 bits can count, in reference mode, which cannot split it.
    #[error("a document has more than {} tokens; are the empty lines between documents missing?", u32::MAX)]
    DocumentTooLong,
    /// No input contains a document with a token.
    #[error("the input has no text: {files} file(s), {lines} line(s), no tokens")]
    NoText {
        /// Number of files read.
        files: usize,
        /// Number of lines read.
        lines: u64,
    },
    /// The held-out documents are too few for a data set.
    #[error(
        "--hold-out {share} selects {held_out} of {documents} documents, too few to evaluate on: hold out a larger share, \
         or a number of documents (--hold-out 20)"
    )]
    TooFewHeldOut {
        /// The share.
        share: String,
        /// Number of documents that are held out.
        held_out: u64,
        /// Number of all documents.
        documents: u64,
    },
    /// More than half of the documents would be held out.
    #[error(
        "--hold-out {number} is more than half of the {documents} documents of the input (documents are separated by blank \
         lines): hold out fewer"
    )]
    TooManyHeldOut {
        /// The number of documents to hold out.
        number: u64,
        /// Number of all documents.
        documents: u64,
    },
    /// There are documents, but no instance can be generated from them.
    #[error(
        "no instance can be built: the only document has {sentences} sentence(s), and a random next sentence needs a \
         second document; put a blank line between documents, or one sentence on each line (--split-sentences)"
    )]
    NoInstances {
        /// Number of sentences of the document.
        sentences: usize,
    },
    /// There are documents, but none has two sentences, which `--nsp sop` needs.
    #[error(
        "no instance can be built: --nsp sop needs two sentences of one document, and each of the {documents} \
         document(s) has one; put a blank line between documents only, or use --split-sentences"
    )]
    NoSentencePairs {
        /// Number of documents.
        documents: usize,
    },
}
