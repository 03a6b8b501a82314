//! Adds up the statistics of the ranges of a divided file.

use std::path::Path;

use crate::documents::read::RangeRead;
use crate::documents::read_report::ReadReport;
use crate::error::{InputProblem, Locate, Result};
use crate::input::InputEntry;
use crate::input::bytes::file_range::FileRange;
use crate::input::line_check::{BadLines, LineCheck};
use crate::input::remarks::Remark;

/// The ranges of a file that were read so far.
#[derive(Default)]
pub(super) struct DividedFile(Option<(InputEntry, RangeRead)>);

impl DividedFile {
    /// Adds the next range. Removes its entry from its report `read`, and after the last range adds the entry of the file.
    ///
    /// # Errors
    /// [`InputProblem::ChangedRanges`]; the errors of [`LineCheck::add_block`].
    pub(super) fn add(
        &mut self,
        path: &Path,
        range: FileRange,
        next: RangeRead,
        read: &mut ReadReport,
        bad_lines: BadLines,
    ) -> Result<()> {
        let Some(entry) = read.inputs.pop() else { return changed(path) };
        let (mut file, mut sum) = match self.0.take() {
            None => (InputEntry { bytes: 0, lines: 0, ..entry.clone() }, empty()),
            Some((_, before)) if before.digests.text_end != next.digests.before_text => return changed(path),
            Some(before) => before,
        };
        let remarks =
            sum.lines.add_block(next.lines.after_lines(file.lines), path, range.ends_file(), bad_lines)?;
        file.bytes += entry.bytes;
        file.lines += entry.lines;
        sum.tokens += next.tokens;
        sum.digests.blocks.add(&next.digests.blocks);
        sum.digests.text_end = next.digests.text_end;
        if !range.ends_file() {
            self.0 = Some((file, sum));
            return Ok(());
        }
        if remarks.is_without(Remark::NoText) {
            read.remarks.add_count(Remark::NoText, path, u64::from(sum.tokens == 0));
        }
        read.remarks.add(remarks);
        let Some(digest) = sum.digests.blocks.digest(range.block_size, file.bytes) else {
            return changed(path);
        };
        file.blake3 = digest;
        read.inputs.push(file);
        Ok(())
    }
}

fn empty() -> RangeRead {
    RangeRead { lines: LineCheck::default(), tokens: 0, digests: Default::default() }
}

fn changed<T>(path: &Path) -> Result<T> {
    Err(InputProblem::ChangedRanges.located(path).into())
}
