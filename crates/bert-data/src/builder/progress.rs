//! Reports the progress of a build.

/// A stage of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildStage {
    /// Reading and tokenizing; counted in bytes of input on disk.
    Reading,
    /// Building instances and masks, and writing shards; counted in buckets of documents, once per pass (reference
    /// mode: in documents, once per pass).
    Instances,
    /// The tokenized text of an earlier run is reused; counted in documents. Reported once.
    ReusedText,
    /// The shards of an earlier run are reused; counted in shards. Reported once.
    ReusedShards,
    /// The text of an earlier run has changed, and everything is rebuilt; counted in its documents. Reported once.
    ChangedText,
    /// The files of an earlier run are compared with their receipts; counted in segments of the text or in shards.
    /// Reported only if the check takes long.
    Checking,
    /// An earlier run of the same command already finished the data set. Reported once.
    Finished,
}

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildProgress {
    /// The stage.
    pub stage: BuildStage,
    /// Number of units of the stage that are done.
    pub done: u64,
    /// Total number of units of the stage.
    pub total: u64,
}
