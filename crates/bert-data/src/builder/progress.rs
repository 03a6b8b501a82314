//! Says how far a build is.

/// A stage of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildStage {
    /// Reading and tokenizing; counted in bytes of input on disk.
    Reading,
    /// Making pairs and masks, and shards of them or of the documents; counted in buckets of documents, once for each
    /// pass. (Reference mode: in documents, once for each pass.)
    Instances,
    /// The tokenized text of an earlier run is used; counted in documents. Told once.
    KeptText,
    /// Shards of an earlier run are used; counted in shards. Told once.
    KeptShards,
    /// The text of an earlier run has changed since, and everything is made again. Counted in its documents. Reported once.
    ChangedText,
    /// The files of an earlier run are compared with their receipts; counted in segments of the text or in shards.
    /// Reported only where it takes long.
    Checking,
    /// An earlier run of the same command finished the data set. Reported once.
    Finished,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// The stage.
    pub stage: BuildStage,
    /// Units of the stage that are done.
    pub done: u64,
    /// Units of the stage in all.
    pub total: u64,
}
