//! What the instances of documents on disk would be: counted, not kept (`--layout documents`).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::conservation::MadeTally;
use crate::coverage::Unseen;
use crate::document::{DocumentReader, Documents};
use crate::error::{Error, Result};
use crate::keyed::KeyedInstances;
use crate::parallel::share_out;
use crate::report::Counters;

/// What the documents of a part are, and what pass 0 makes of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountedPass {
    pub(crate) made: MadeTally,
    pub(crate) counters: Counters,
    pub(crate) unseen: Unseen,
}

/// Documents of one round of counting, for each thread.
const ROUND_DOCUMENTS: usize = 1 << 12;

/// A thread's buffers and its share of the counts.
// On cache lines of its own: threads that write to neighbouring ones slow each other down.
#[repr(align(128))]
struct Counting<'a> {
    reader: DocumentReader<'a>,
    keyed: KeyedInstances,
    counters: Counters,
}

/// Sees the documents in `own`, which ascend, makes the instances that pass 0 has of them, and keeps nothing but the counts. The
/// rows of such a data set are its documents.
pub(crate) fn count_pass(
    prepared: &Prepared<'_>,
    documents: &Documents,
    own: &[Range<usize>],
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<CountedPass> {
    let (config, mask) = (prepared.config, prepared.vocabulary.mask_id());
    let empty = || Counters::new(config.max_seq_length);
    let keyed = config.keyed(&prepared.vocabulary);
    let worker = |_| Counting { reader: documents.reader(), keyed: keyed.clone(), counters: empty() };
    let threads = prepared.pool.current_num_threads();
    let mut workers: Vec<Counting<'_>> = (0..threads).map(worker).collect();
    let (mut made, mut unseen) = (MadeTally::default(), Unseen::default());
    let mut reader = documents.reader();
    for document in own.iter().cloned().flatten() {
        made.see_document(0, &reader.span(document)?);
    }
    let total = own.iter().map(|range| range.len()).sum::<usize>() as u64;
    let mut all = own.iter().cloned().flatten();
    loop {
        let some: Vec<usize> = all.by_ref().take(ROUND_DOCUMENTS * threads).collect();
        if some.is_empty() {
            break;
        }
        let counted = prepared.pool.install(|| {
            share_out(&mut workers, some, |worker, document| {
                let Counting { reader, keyed, counters } = worker;
                let mut rows = 0;
                keyed.make_with(reader, 0, (document, document as u64), |pair, row| {
                    counters.count(row, mask);
                    counters.shown += pair.own_tokens();
                    rows += 1;
                    Ok(())
                })?;
                Ok::<_, Error>((reader.span(document)?, rows))
            })
        });
        for counted in counted {
            let (span, rows) = counted?;
            let tokens = span.tokens.end - span.tokens.start;
            // What one pass cuts off, another may show; a document that gives no row never will.
            unseen.of += tokens;
            unseen.tokens += if rows == 0 { tokens } else { 0 };
            made.rows.see_document(&span);
        }
        progress(BuildProgress { stage: BuildStage::Instances, done: made.rows.count, total });
    }
    let mut counters = empty();
    workers.iter().for_each(|worker| counters.add(&worker.counters));
    Ok(CountedPass { made, counters, unseen })
}
