//! Says how far a build is.

/// What a build is doing.
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
    /// The text of an earlier run has changed since: everything is made anew. Counted in its documents. Told once.
    ChangedText,
    /// What an earlier run left is compared with its receipts; counted in segments of the text or in shards. Told only
    /// where it takes long.
    Checking,
    /// An earlier run of the same command finished the data set. Told once.
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
