//! Generates instances from documents: sentence pairs, then masks. In keyed mode every draw has an address, so any
//! thread or machine can generate any instance.

pub(crate) mod coverage;
pub(crate) mod masking;
pub(crate) mod ngram_spans;
pub(crate) mod pairs;
