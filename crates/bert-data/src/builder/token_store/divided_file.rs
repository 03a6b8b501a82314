//! Adds up the statistics of the ranges of a divided file.

use std::path::Path;

use bert_text::InputEntry;
use bert_text::line_check::{BadLines, LineCheck};
use bert_text::range_digest::ChainingValues;
use bert_text::remarks::Remark;

use crate::documents::read::RangeRead;
use crate::documents::read_report::ReadReport;
use crate::error::{Error, Result};

/// The ranges of a file that were added so far.
#[derive(Default)]
pub(super) struct DividedFile(Option<RangesBefore>);

/// The sum over the first ranges of a file.
struct RangesBefore {
    entry: InputEntry,
    lines: LineCheck,
    tokens: u64,
    blocks: ChainingValues,
    /// Digest of the bytes that the next range also reads.
    text_end: String,
}

impl DividedFile {
    /// Adds the next range. Removes its entry from its report `read`, and after the last range adds the entry of the file.
    ///
    /// # Errors
    /// Fails when two ranges of the file were read from different text, or when [`LineCheck::add_block`] fails.
    pub(super) fn add(
        &mut self,
        path: &Path,
        next: RangeRead,
        read: &mut ReadReport,
        bad_lines: BadLines,
    ) -> Result<()> {
        let changed = || {
            Error::data(
                "this input changed while it was read: run the same command again, for every part of the build, when \
                 no other program writes to it",
            )
            .at(path)
        };
        let entry = read.inputs.pop().ok_or_else(changed)?;
        let RangeRead { range, lines, tokens, digests } = next;
        let mut sum = self.0.take().unwrap_or_else(|| RangesBefore {
            entry: InputEntry { bytes: 0, lines: 0, ..entry.clone() },
            lines: LineCheck::default(),
            tokens: 0,
            blocks: ChainingValues::default(),
            text_end: digests.before_text.clone(),
        });
        if sum.text_end != digests.before_text {
            return Err(changed());
        }
        let lines = lines.after_lines(sum.entry.lines);
        let remarks = sum.lines.add_block(lines, path, range.ends_file(), bad_lines)?;
        sum.entry.bytes += entry.bytes;
        sum.entry.lines += entry.lines;
        sum.tokens += tokens;
        sum.blocks.add(&digests.blocks);
        sum.text_end = digests.text_end;
        if !range.ends_file() {
            self.0 = Some(sum);
            return Ok(());
        }
        if remarks.is_without(Remark::NoText) {
            read.remarks.add_count(Remark::NoText, path, u64::from(sum.tokens == 0));
        }
        read.remarks.add(remarks);
        let blake3 = sum.blocks.digest(range.block_size, sum.entry.bytes).ok_or_else(changed)?;
        read.inputs.push(InputEntry { blake3, ..sum.entry });
        Ok(())
    }
}
