//! Errors of the parts of a build on many machines.

/// What is wrong with the parts of a build made on many machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// A part of a build has not been made, or not finished.
    #[error(
        "{found} of {parts} parts are finished; part {missing} is missing: make it with --part {missing} --parts {parts}"
    )]
    Missing {
        /// Finished parts.
        found: usize,
        /// All parts.
        parts: usize,
        /// The first part that is missing.
        missing: usize,
    },
    /// A part came before the others had tokenized their shares of the text.
    #[error(
        "{missing} of {segments} shares of the text are not tokenized yet; the first is that of part {part} of {parts}: start \
         this part again when all have run with --tokenize-only"
    )]
    TextMissing {
        /// The part whose share is the first that is missing.
        part: usize,
        /// All parts.
        parts: usize,
        /// Shares that are missing.
        missing: usize,
        /// All shares.
        segments: usize,
    },
    /// A part was made of another text, with other options or by another program.
    #[error("part {part} does not belong to the others: it has other {what}")]
    Differs {
        /// The part.
        part: usize,
        /// What differs from the first one.
        what: &'static str,
    },
}
