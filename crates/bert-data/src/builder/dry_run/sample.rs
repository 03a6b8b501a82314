//! Reads all inputs once and samples blocks of their text at equal distances.
//!
//! Memory use does not grow with the size of the text or the length of its lines: at most 64 blocks of at most half a
//! mebibyte are kept. Also counts the bytes and documents of the whole text, and rejects files that are not text.

use std::path::Path;

use bert_text::line_check::LineCheck;
use bert_text::{BLOCK, Block, Format, InputReader, each_text};

use crate::builder::prepare::PreparedBuild;
use crate::documents::read_report::ReadReport;
use crate::error::Result;

/// Maximum number of sampled blocks: enough for an error of about one per cent, few enough for a second of work.
const MAX_BLOCKS: usize = 64;
/// Maximum bytes of a sampled block. A normal block is slightly longer than `BLOCK`; only blocks with lines that are
/// longer than `BLOCK` are truncated.
const MAX_BLOCK_BYTES: usize = 2 * BLOCK;

/// Sampled blocks of the text, and counts of the whole text.
#[derive(Default)]
pub(super) struct Sample {
    pub(super) blocks: Vec<Block>,
    /// Bytes of the text that the blocks represent.
    pub(super) bytes: u64,
    pub(super) text_bytes: u64,
    /// Number of documents in the whole text, including documents without tokens.
    pub(super) documents: u64,
    /// The formats of the inputs, and the remarks on them that need no sample.
    pub(super) read: ReadReport,
}

impl Sample {
    pub(super) fn read(prepared: &PreparedBuild<'_>) -> Result<Self> {
        let mut sample = Self::default();
        let bad_lines = prepared.config.text_rules().bad_lines;
        let mut lines = LineCheck::default();
        // Each item is the number of a block, the block, and the bytes of the text that it represents.
        let mut sampled = Vec::new();
        let mut number = 0usize;
        let mut distance = 1;
        for (index, path) in prepared.files.iter().enumerate() {
            let mut reader = InputReader::open_with(path, index, prepared.config.reading())?;
            let mut in_document = false;
            while let Some(block) = reader.next_block()? {
                sample.text_bytes += block.bytes.len() as u64;
                sample.documents += begun_documents(&block, &mut in_document);
                let counts = block.check_lines(path, bad_lines)?;
                lines.add_block(counts, path, block.ends_file, bad_lines)?;
                if number.is_multiple_of(distance) {
                    let (block, bytes) = shortened(block, path, prepared)?;
                    sampled.push((number, block, bytes));
                }
                number += 1;
                if sampled.len() > MAX_BLOCKS {
                    distance *= 2;
                    sampled.retain(|(number, ..)| number.is_multiple_of(distance));
                }
            }
            sample.read.inputs.push(reader.description());
            sample.read.remarks.add(reader.remarks(path, &prepared.config.text_column));
        }
        sample.bytes = sampled.iter().map(|(.., bytes)| bytes).sum();
        sample.blocks = sampled.into_iter().map(|(_, block, _)| block).collect();
        Ok(sample)
    }
}

/// Counts the documents that begin in a block. `in_document` tells whether a document is open before the block, and is
/// updated to the state after the block.
fn begun_documents(block: &Block, in_document: &mut bool) -> u64 {
    if block.format.has_rows() {
        return block.rows().filter(|(_, text)| text.is_some_and(|text| !text.is_empty())).count() as u64;
    }
    let is_table = block.format.is_table();
    let mut begun = 0;
    for (_, line) in block.lines() {
        let has_text = !line.trim_ascii().is_empty();
        begun += u64::from(has_text && (is_table || !*in_document));
        *in_document = has_text;
    }
    begun
}

/// Truncates a long block. Also returns the number of bytes of the text that the block then represents.
fn shortened(mut block: Block, path: &Path, prepared: &PreparedBuild<'_>) -> Result<(Block, u64)> {
    if block.bytes.len() > MAX_BLOCK_BYTES && block.format.is_table() {
        return first_rows(&block, path, prepared);
    }
    if block.bytes.len() > MAX_BLOCK_BYTES {
        let end = block.bytes[..MAX_BLOCK_BYTES].iter().rposition(|&byte| byte == b'\n');
        block.bytes.truncate(end.map_or_else(|| character_boundary(&block.bytes), |end| end + 1));
        block.bytes.shrink_to_fit();
        block.ends_file = false;
    }
    let bytes = block.bytes.len() as u64;
    Ok((block, bytes))
}

/// Returns the texts of the first rows of a block, the last one truncated, as a block of rows. Also returns the number of
/// bytes of the text that they represent.
fn first_rows(block: &Block, path: &Path, prepared: &PreparedBuild<'_>) -> Result<(Block, u64)> {
    let mut bytes = Vec::new();
    let mut row_ends = Vec::new();
    let mut text_bytes = 0u64;
    each_text(block, path, prepared.config.text_rules(), |text, _| {
        text_bytes += text.len() as u64;
        if bytes.len() < MAX_BLOCK_BYTES {
            let room = text.floor_char_boundary(MAX_BLOCK_BYTES - bytes.len());
            bytes.extend_from_slice(&text.as_bytes()[..room]);
            row_ends.push(bytes.len());
        }
    })?;
    // The sample represents the same fraction of the other columns as of the text.
    let fraction = if text_bytes == 0 { 1.0 } else { bytes.len() as f64 / text_bytes as f64 };
    let represented = (block.bytes.len() as f64 * fraction) as u64;
    let &Block { file, first_line, lists, .. } = block;
    let format = Format::Parquet;
    let block = Block { file, format, first_line, bytes, row_ends, lists, ..Block::default() };
    Ok((block, represented))
}

/// Returns the last offset up to [`MAX_BLOCK_BYTES`] that is a UTF-8 character boundary.
fn character_boundary(bytes: &[u8]) -> usize {
    let is_inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (MAX_BLOCK_BYTES - 3..=MAX_BLOCK_BYTES).rev().find(|at| !is_inside(at)).unwrap_or(MAX_BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::prepare::prepare;
    use crate::config::BuildConfig;
    use crate::config::test_text::lettered;

    /// Samples lines of 2 MB: plain text, and JSON with another column of the same length. The sampled bytes represent
    /// the length of the text within 2 %.
    #[test]
    fn long_lines_and_rows_are_sampled_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let config = lettered(folder.path(), 10);
        let long = "a b c d. ".repeat(250_000);
        let json = format!("{{\"id\": \"{long}\", \"text\": \"{long}\"}}\n");
        for (name, line, documents) in [("long.txt", format!("{long}\n\n"), 70), ("long.jsonl", json, 70)] {
            let path = folder.path().join(name);
            std::fs::write(&path, line.repeat(documents)).unwrap();
            let config = BuildConfig { input: vec![path], ..config.clone() };
            let sample = Sample::read(&prepare(&config).unwrap()).unwrap();
            assert_eq!(sample.documents, documents as u64, "{name}");
            assert_eq!(sample.text_bytes, (documents * line.len()) as u64);
            assert!(sample.blocks.len() <= MAX_BLOCKS);
            assert!(
                sample.blocks.iter().all(|block| block.bytes.capacity() <= 2 * MAX_BLOCK_BYTES),
                "{name}"
            );
            let sampled: usize = sample.blocks.iter().map(|block| block.bytes.len()).sum();
            let scale = sample.text_bytes as f64 / sample.bytes as f64;
            let estimated = sampled as f64 * scale;
            let truth = (documents * long.len()) as f64;
            assert!((0.98..1.02).contains(&(estimated / truth)), "{name}: {estimated}, {truth}");
        }
    }
}
