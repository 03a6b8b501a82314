//! The token store: the tokenized text on disk. It is written once and read in every pass.
//!
//! The input text is divided into segments by size: consecutive files, or ranges of large files. Each segment is stored
//! as two files (the documents and their index), followed by a receipt with the digests of the two files and of its
//! inputs. A restarted build continues after the last finished segment, even if the inputs have moved. Each part of a
//! build tokenizes its share of the segments and reads the other segments from the folder that the parts share. A
//! [`Store`] returns documents by number.

mod segments;
mod store;

pub(crate) use store::{Store, StoreReader};

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bert_storage::scratch::{ScratchDigest, ScratchFile, digest_of};
use bert_storage::{Class, digest_bytes, size};
use bert_text::{recorded_name, same_range, same_text};
use serde::{Deserialize, Serialize};

use crate::builder::output::Output;
use crate::builder::output::work_folder::{TEXT_FILES, WorkFolder};
use crate::builder::prepare::{BuildProgress, BuildStage, PreparedBuild};
use crate::builder::token_store::segments::{SegmentText, divide};
use crate::builder::token_store::store::{DividedFile, Segment};
use crate::config::part::Part;
use crate::documents::id_width::Width;
use crate::documents::read::{RangeRead, TextRead, TextReader};
use crate::documents::read_report::ReadReport;
use crate::documents::{Counts, DocumentsBuilder, casing};
use crate::error::{Error, Result, after_lines, no_tokens, other_part, unfinished_build};
use crate::parallel::Workers;

/// The contents of a segment and the inputs that it was tokenized from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentReceipt {
    /// Digest of the build identity under which the segment was written.
    identity: String,
    /// Index of the segment.
    segment: u64,
    /// Total number of segments.
    segments: u64,
    read: ReadReport,
    /// The range of the file, if the segment is a range of a divided file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<RangeRead>,
    counts: Counts,
    columns: [ScratchDigest; 2],
}

/// The state of a segment that an earlier run may have written.
enum CachedSegment {
    Missing,
    Valid(Box<SegmentReceipt>),
    /// A segment that was tokenized from different text; holds its number of documents.
    Changed(u64),
}

fn column_name(column: usize, segment: usize) -> String {
    format!("{}-{segment:05}", TEXT_FILES[column])
}

fn receipt_name(segment: usize) -> String {
    format!("{}-{segment:05}.json", TEXT_FILES[2])
}

/// The division of the inputs into segments.
pub(crate) struct Division {
    segments: Vec<SegmentText>,
    /// The size of each file in bytes.
    sizes: Vec<u64>,
    part: Part,
}

impl Division {
    pub(crate) fn new(prepared: &PreparedBuild<'_>) -> Result<Self> {
        let (sizes, segments) = divide(prepared)?;
        Ok(Self { segments, sizes, part: prepared.part })
    }

    /// Returns the segments that this part tokenizes.
    fn own(&self) -> impl Iterator<Item = usize> {
        let part = self.part;
        (0..self.segments.len()).filter(move |&segment| part.has(segment))
    }

    /// Returns whether a receipt was written for this text.
    fn is_text_of(
        &self,
        receipt: &SegmentReceipt,
        text: &SegmentText,
        prepared: &PreparedBuild<'_>,
        stop: &AtomicBool,
    ) -> Result<bool> {
        if receipt.segments != self.segments.len() as u64 {
            return Ok(false);
        }
        let files = text.paths(&prepared.files);
        match (&receipt.range, text.range) {
            (None, None) => Ok(same_text(&receipt.read.inputs, files, prepared.config.reading(), stop)?),
            (Some(read), Some(range)) if read.range == range => {
                Ok(same_range(&read.digests, &files[0], range, stop)?)
            }
            _ => Ok(false),
        }
    }

    /// Returns the state of a segment in this part's work folder.
    fn cached(
        &self,
        prepared: &PreparedBuild<'_>,
        work: &WorkFolder<'_>,
        segment: usize,
        stop: &AtomicBool,
    ) -> Result<CachedSegment> {
        let Some(receipt) = work.text.read_checksummed::<SegmentReceipt>(&receipt_name(segment))? else {
            return Ok(CachedSegment::Missing);
        };
        if !self.is_text_of(&receipt, &self.segments[segment], prepared, stop)? {
            return Ok(CachedSegment::Changed(receipt.counts.documents));
        }
        if receipt.identity != work.identity.digest() || receipt.segment != segment as u64 {
            return Ok(CachedSegment::Missing);
        }
        for (column, expected) in receipt.columns.iter().enumerate() {
            let found = digest_of(&work.text.path_of(&column_name(column, segment)))?;
            if found.as_ref() != Some(expected) {
                return Ok(CachedSegment::Missing);
            }
        }
        Ok(CachedSegment::Valid(Box::new(receipt)))
    }

    /// Returns the state of every segment of this part; reads all files of these segments.
    fn all_cached(
        &self,
        prepared: &PreparedBuild<'_>,
        work: &WorkFolder<'_>,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<Vec<(usize, CachedSegment)>> {
        let own: Vec<usize> = self.own().collect();
        let total = own.len() as u64;
        let stop = &AtomicBool::new(false);
        let check = |(): &mut (), segment| Ok((segment, self.cached(prepared, work, segment, stop)?));
        let mut on_tick = || progress(BuildProgress { stage: BuildStage::Checking, done: 0, total });
        let mut workers = vec![(); prepared.pool.current_num_threads()];
        Workers::new(&prepared.pool, &mut workers, stop).map_all(own, check, &mut on_tick)
    }

    /// Returns whether a segment of this part was tokenized from text that differs from the present inputs.
    pub(crate) fn is_changed(
        &self,
        prepared: &PreparedBuild<'_>,
        work: &WorkFolder<'_>,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<bool> {
        let segments = self.all_cached(prepared, work, progress)?;
        Ok(segments.iter().any(|(_, segment)| matches!(segment, CachedSegment::Changed(_))))
    }

    /// Tokenizes this part's segments into its work folder, reusing those that an earlier run finished.
    pub(crate) fn tokenize(
        &self,
        prepared: &PreparedBuild<'_>,
        work: &WorkFolder<'_>,
        progress: &mut dyn FnMut(BuildProgress),
    ) -> Result<Counts> {
        let mut changed = None;
        let mut missing = Vec::new();
        let mut counts = Counts::default();
        for (segment, cached) in self.all_cached(prepared, work, progress)? {
            match cached {
                CachedSegment::Valid(receipt) => counts.add(&receipt.counts),
                CachedSegment::Missing => missing.push(segment),
                CachedSegment::Changed(documents) => *changed.get_or_insert(0) += documents,
            }
        }
        if let Some(total) = changed {
            if !prepared.config.overwrite
                && let Some((found, expected)) = work.other_inputs()?
            {
                let differences = format!("`.input` is {found}, not {expected}");
                return Err(unfinished_build(&differences).at(work.output()));
            }
            progress(BuildProgress { stage: BuildStage::ChangedText, done: total, total });
            // The text has changed under the same names, so all segments are tokenized again.
            work.restart()?;
            (missing, counts) = (self.own().collect(), Counts::default());
        } else if counts.documents > 0 {
            let total = counts.documents;
            progress(BuildProgress { stage: BuildStage::ReusedText, done: total, total });
        } else if work.other_inputs()?.is_some() {
            work.restart()?;
        }
        if missing.is_empty() {
            return Ok(counts);
        }
        let total = missing.iter().map(|&segment| self.segments[segment].bytes).sum();
        let tokenizer = prepared.tokenizer();
        let mut reader = TextReader::new(&tokenizer, prepared.config, &prepared.pool);
        let mut before = 0;
        for segment in missing {
            let on_progress = &mut |done| {
                progress(BuildProgress { stage: BuildStage::Reading, done: before + done, total });
            };
            counts.add(&self.tokenize_segment(prepared, work, &mut reader, segment, on_progress)?);
            before += self.segments[segment].bytes;
            if self.segments.len() > 1 {
                // From here on, a failed build has finished work to continue from.
                work.keep();
            }
        }
        drop(reader);
        // Dropping the tokenizer frees at least one allocation per token, which is slow, so a pool thread does it.
        prepared.pool.spawn(move || drop(tokenizer));
        Ok(counts)
    }

    fn tokenize_segment(
        &self,
        prepared: &PreparedBuild<'_>,
        work: &WorkFolder<'_>,
        reader: &mut TextReader<'_>,
        segment: usize,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<Counts> {
        let warning = match segment {
            0 => casing::warning(prepared.config, &prepared.vocabulary, prepared.settings, &prepared.files)?,
            _ => None,
        };
        let create = |column| {
            ScratchFile::create(work.text.files(), &work.text.path_of(&column_name(column, segment)))
        };
        let builder = DocumentsBuilder::to_files(prepared.ids().size(), [create(0)?, create(1)?]);
        let text = &self.segments[segment];
        let files = text.paths(&prepared.files);
        let read = reader.read(files, text.range, builder, on_progress);
        let TextRead { documents, report: mut read, range } = match (read, text.range) {
            (Err(error), Some(range)) => return Err(after_lines(error, || range.lines_before(&files[0]))),
            (read, _) => read?,
        };
        self.reject_changed(text, &files[0], &read)?;
        read.warnings.extend(warning);
        let (counts, columns) = documents.finish_files()?;
        let receipt = SegmentReceipt {
            identity: work.identity.digest(),
            segment: segment as u64,
            segments: self.segments.len() as u64,
            read,
            range,
            counts,
            columns,
        };
        work.text.write_checksummed_unsynced(&receipt_name(segment), &receipt)?;
        Ok(counts)
    }

    /// Rejects a file whose size has changed since the text was divided: it is still being written.
    fn reject_changed(&self, text: &SegmentText, first: &Path, read: &ReadReport) -> Result<()> {
        let changed = |before, after, path: &Path| {
            Err(Error::data(format!(
                "this input had {before} bytes when the build began and {after} when it was read: run the same \
                 command again when no other program writes to it"
            ))
            .at(path))
        };
        if let Some(range) = text.range {
            let before = range.file_bytes;
            let after = size(first).map_err(Error::io("read", first))?;
            let is_whole = read.inputs.iter().map(|input| input.bytes).eq([range.bytes()]);
            return if is_whole && before == after { Ok(()) } else { changed(before, after, first) };
        }
        for (&before, input) in self.sizes[text.files.clone()].iter().zip(&read.inputs) {
            if input.bytes != before {
                return changed(before, input.bytes, Path::new(&input.path));
            }
        }
        Ok(())
    }

    /// Returns whether the sizes in a receipt are the present sizes of this text, which another part may have
    /// tokenized.
    fn has_sizes_of(&self, receipt: &SegmentReceipt, text: &SegmentText) -> bool {
        let sizes = receipt.read.inputs.iter().map(|input| input.bytes);
        match text.range {
            Some(expected) => receipt.range.as_ref().is_some_and(|read| read.range == expected),
            None => sizes.eq(self.sizes[text.files.clone()].iter().copied()),
        }
    }

    /// Opens the whole text; the segments of each part are in that part's work folder.
    pub(crate) fn store(&self, prepared: &PreparedBuild<'_>, output: &Output<'_>) -> Result<Store> {
        let identity = output.work.identity.digest();
        let mut store = Store {
            width: Width::for_vocabulary(prepared.ids().size()),
            segments: Vec::new(),
            read: ReadReport::default(),
            counts: Counts::default(),
            build: String::new(),
        };
        // The number of missing segments, and the part that has to tokenize the first of them.
        let mut missing = 0;
        let mut missing_part = self.part.index;
        let mut segment_digests = Vec::new();
        let mut divided = DividedFile::default();
        for (segment, text) in self.segments.iter().enumerate() {
            let part = self.part.for_segment(segment);
            let folder = output.text_folder(part);
            let Some(receipt) = folder.read_checksummed::<SegmentReceipt>(&receipt_name(segment))? else {
                if missing == 0 {
                    missing_part = part.index;
                }
                missing += 1;
                continue;
            };
            let differs = |what| Err(other_part(part.index, what));
            if receipt.identity != identity {
                return differs("options");
            }
            if receipt.segments != self.segments.len() as u64 || !self.has_sizes_of(&receipt, text) {
                return differs("text");
            }
            let SegmentReceipt { mut read, range, counts, columns, .. } = receipt;
            let files = text.paths(&prepared.files);
            for (entry, path) in read.inputs.iter_mut().zip(files) {
                // The entry gets the present location of the file.
                entry.path = recorded_name(path);
            }
            segment_digests.push((read.without_paths(), range.clone(), counts, columns));
            if missing == 0
                && let Some(next) = range
            {
                divided.add(&files[0], next, &mut read, prepared.config.text_rules().bad_lines)?;
            }
            let [text, index] = [0, 1].map(|column| folder.path_of(&column_name(column, segment)));
            store.segments.push(Segment { text, index, in_memory: None, before: store.counts });
            store.read.add(read);
            store.counts.add(&counts);
        }
        if missing > 0 {
            let parts = self.part.count;
            let segments = self.segments.len();
            return Err(Error::new(
                Class::Later,
                format!(
                    "{missing} of {segments} shares of the text are not tokenized yet; the first belongs to part \
                     {missing_part} of {parts}: run this part again when all parts have run with `.tokenize_only`"
                ),
            ));
        }
        if store.counts.documents == 0 {
            let lines = store.read.inputs.iter().map(|input| input.lines).sum();
            return Err(no_tokens(store.read.inputs.len(), lines));
        }
        store.build =
            digest_bytes(serde_json::to_string(&(identity, segment_digests)).expect("plain data").as_bytes());
        Ok(store)
    }
}

#[cfg(test)]
mod tests;
