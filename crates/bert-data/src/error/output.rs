//! Errors of an output folder that cannot be written to.

/// Why an output folder cannot be written to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputProblem {
    /// The output folder holds what another command left unfinished.
    #[error(
        "an unfinished build is here, in which {option} is {found}, not {expected}: give that command again to finish \
         it, or --overwrite to discard it (of parts: remove the folder)"
    )]
    Unfinished {
        /// The first thing that differs.
        option: String,
        /// What it is there.
        found: String,
        /// What it is now.
        expected: String,
    },
    /// The output folder holds something that this program did not write: the first entry that is not ours.
    #[error("this output folder holds other data ({0}): choose an empty or new folder")]
    HoldsOtherData(String),
    /// The output folder holds a finished data set.
    #[error("this output folder already holds a finished data set: use --overwrite to replace it")]
    Finished,
    /// An object store holds shards of another build that has not ended.
    #[error(
        "shards of another unfinished build are here: give that command again to finish it, or --overwrite to discard it"
    )]
    OtherBuild,
    /// The output path is a file.
    #[error("the output is not a folder")]
    NotAFolder,
}
