//! Reads the text of a data set as token ids, for counting words.
//!
//! A callback receives the text as runs of consecutive tokens of one document, as they were before masking and without
//! special tokens. If documents are stored, the runs are whole documents. If instances are stored, the runs are the
//! segments of each instance, so the text appears once for each of the `--dupe-factor` passes.

use std::path::Path;

use bert_text::line_check::BadLines;
use bert_text::{InputReader, Reading, TEXT_COLUMN, TextRules, each_text};

use crate::config::Layout;
use crate::dataset::DataSet;
use crate::dataset::document_groups::DocumentGroups;
use crate::error::Result;

/// Minimum number of tokens to read from a shard; opening a shard for fewer tokens is not worthwhile.
const MIN_TOKENS_PER_SHARD: u64 = 1 << 20;

/// Passes about `max_tokens` tokens of a data set to `on_text`: all tokens, or equal amounts from the beginning of
/// evenly spaced shards. Texts are passed whole, so the total may be slightly more. `on_text` returns whether it needs
/// more texts.
///
/// # Errors
/// Fails if a shard cannot be read or does not match the manifest.
pub fn for_each_text(data: &DataSet, max_tokens: u64, on_text: &mut dyn FnMut(&[u32]) -> bool) -> Result<()> {
    let manifest = data.manifest();
    let shards = manifest.shards.len();
    let all = tokens_of_text(data);
    let (share, read) = if all <= max_tokens {
        (u64::MAX, shards)
    } else {
        let share = (max_tokens / shards as u64).max(MIN_TOKENS_PER_SHARD);
        (share, shards.min(max_tokens.div_ceil(share) as usize))
    };
    for shard in (0..read).map(|at| at * shards / read) {
        let mut read_tokens = 0;
        let mut wanted = true;
        let mut on_text = |tokens: &[u32]| {
            read_tokens += tokens.len() as u64;
            wanted = on_text(tokens);
            wanted && read_tokens < share
        };
        texts_of_shard(data, shard, &mut on_text)?;
        if !wanted {
            break;
        }
    }
    Ok(())
}

/// Returns the number of tokens of a data set; if instances are stored, an upper limit.
pub fn tokens_of_text(data: &DataSet) -> u64 {
    let manifest = data.manifest();
    match manifest.config.layout {
        Layout::Documents => manifest.report.tokens,
        Layout::Instances => manifest.instances * manifest.config.max_seq_length as u64,
    }
}

/// Passes the texts of one shard to `on_text` until it returns false.
pub(crate) fn texts_of_shard(
    data: &DataSet,
    shard: usize,
    on_text: &mut dyn FnMut(&[u32]) -> bool,
) -> Result<()> {
    match data.manifest().config.layout {
        Layout::Documents => documents(data, shard, on_text),
        Layout::Instances => segments(data, shard, on_text),
    }
}

/// Passes the documents of a shard to `on_text` until it returns false.
fn documents(data: &DataSet, shard: usize, on_text: &mut dyn FnMut(&[u32]) -> bool) -> Result<()> {
    let mut groups = DocumentGroups::new(data);
    let mut ids = Vec::new();
    for group in groups.in_shard(shard) {
        for document in groups.read([group])?.documents().iter() {
            ids.clear();
            document.append_tokens(0..document.tokens(), &mut ids);
            ids.iter_mut().for_each(|id| *id = data.manifest().ids().unmarked(*id).0);
            if !on_text(&ids) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Passes the segments of a shard of instances to `on_text` until it returns false; reads one row group at a time.
fn segments(data: &DataSet, shard: usize, on_text: &mut dyn FnMut(&[u32]) -> bool) -> Result<()> {
    let special = [data.vocabulary().cls_id(), data.vocabulary().sep_id()];
    data.check_shard(shard)?;
    let file = data.open_rows(shard)?;
    let mut ids = Vec::new();
    for group in 0..file.groups() {
        for row in data.read_groups(&file, &[group])?.iter() {
            row.original(&mut ids);
            for segment in ids.split(|id| special.contains(id)).filter(|segment| !segment.is_empty()) {
                if !on_text(segment) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Calls `see` with the plain text of each article of a dump, or of each document of WikiExtractor's output.
///
/// # Errors
/// Returns the errors of [`InputReader::open`] and [`InputReader::next_block`].
pub fn for_each_article(path: &Path, see: &mut dyn FnMut(&str)) -> Result<()> {
    let mut reader = InputReader::open(path, 0, TEXT_COLUMN)?;
    let rules = TextRules { reading: Reading::default(), bad_lines: BadLines::Any, strict_rows: false };
    while let Some(block) = reader.next_block()? {
        each_text(&block, path, rules, |text, _| see(text))?;
    }
    Ok(())
}
