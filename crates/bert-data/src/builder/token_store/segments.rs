//! Divides the input files into segments.

use std::ops::Range;
use std::path::PathBuf;

use bert_text::file_range::{FileRange, ranges_of};
use bert_text::{divisible_format, each_file};

use crate::builder::prepare::PreparedBuild;
use crate::config::RandomMode;
use crate::error::Result;

/// Maximum number of segments.
pub(super) const MAX_SEGMENTS: u64 = 256;

/// The text of a segment: consecutive files, or a range of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentText {
    /// Indices of the files.
    pub(super) files: Range<usize>,
    /// The range of the file, if the segment is not whole files.
    pub(super) range: Option<FileRange>,
    /// Number of bytes on disk.
    pub(super) bytes: u64,
}

impl SegmentText {
    /// Returns the paths of the files.
    pub(super) fn paths<'a>(&self, files: &'a [PathBuf]) -> &'a [PathBuf] {
        &files[self.files.clone()]
    }
}

/// Divides the inputs of a build into segments. Large files of text or JSON lines are divided between documents. Returns
/// the size of each input file, and the segments.
pub(super) fn divide(prepared: &PreparedBuild<'_>) -> Result<(Vec<u64>, Vec<SegmentText>)> {
    let sizes = each_file(&prepared.files, bert_text::size)?;
    // In reference mode a document may continue into the next file, so all files form one segment.
    let is_reference = prepared.config.random == RandomMode::Reference;
    let share = if is_reference { u64::MAX } else { share_of(&sizes, prepared.segment) };
    let large: Vec<usize> = (0..sizes.len()).filter(|&file| sizes[file] / share >= 2).collect();
    let paths: Vec<PathBuf> = large.iter().map(|&file| prepared.files[file].clone()).collect();
    let ranges = each_file(&paths, |path| {
        let bytes = bert_text::size(path)?;
        match divisible_format(path, prepared.config.reading())? {
            Some(format) => ranges_of(path, bytes, share, format),
            None => Ok(Vec::new()),
        }
    })?;
    let divided: Vec<(usize, Vec<FileRange>)> = large.into_iter().zip(ranges).collect();
    let segments = segments_of(&sizes, share, divided);
    Ok((sizes, segments))
}

/// Returns the minimum number of bytes of a segment.
pub(super) fn share_of(sizes: &[u64], min_bytes: u64) -> u64 {
    min_bytes.max(sizes.iter().sum::<u64>().div_ceil(MAX_SEGMENTS)).max(1)
}

/// Groups consecutive files into segments of at least `share` bytes. Each range of a divided file is a separate
/// segment.
pub(super) fn segments_of(
    sizes: &[u64],
    share: u64,
    divided: Vec<(usize, Vec<FileRange>)>,
) -> Vec<SegmentText> {
    let mut divided = divided.into_iter().filter(|(_, ranges)| !ranges.is_empty()).peekable();
    let mut segments = Vec::new();
    let mut group = SegmentText { files: 0..0, range: None, bytes: 0 };
    for (file, &size) in sizes.iter().enumerate() {
        let ranges = divided.next_if(|(divided, _)| *divided == file).map(|(_, ranges)| ranges);
        if ranges.is_none() {
            group.files.end = file + 1;
            group.bytes += size;
        }
        if ranges.is_some() || group.bytes >= share || file + 1 == sizes.len() {
            let next = SegmentText { files: file + 1..file + 1, range: None, bytes: 0 };
            let full = std::mem::replace(&mut group, next);
            segments.extend((!full.files.is_empty()).then_some(full));
        }
        for range in ranges.into_iter().flatten() {
            segments.push(SegmentText { files: file..file + 1, range: Some(range), bytes: range.bytes() });
        }
    }
    segments
}
