//! Instances as a person reads them.
//!
//! In go rows, out come lines of words in which masks are marked: `[MASK:word]` hidden, `[KEPT:word]` shown as it is,
//! `[word->other]` replaced at random. Not for machines. The reference logs its first 20 instances.

use std::path::Path;

use crate::build::prepare;
use crate::config::{BuildConfig, Nsp, RandomMode};
use crate::error::Result;
use crate::instance::create_instances_from_document;
use crate::manifest::Manifest;
use crate::masking::MaskedInstance;
use crate::report::word;
use crate::rng::PythonRandom;
use crate::shard_rows::Row;
use crate::store::read_into_memory;
use crate::stored_rows::StoredRows;
use crate::vocabulary::Vocabulary;
use crate::word_marks::unmarked;

/// What a label means.
#[must_use]
pub fn label_name(nsp: Nsp, label: i8) -> &'static str {
    match (nsp, label) {
        (Nsp::On, 1) => "random next",
        (Nsp::On, _) => "actual next",
        (Nsp::Sop, 1) => "swapped",
        (Nsp::Sop, _) => "in order",
        (Nsp::Off, _) => "one segment",
    }
}

/// One instance as words: its label, then segment A and segment B, each on a line of its own.
#[must_use]
pub fn render(row: Row<'_>, vocabulary: &Vocabulary, nsp: Nsp) -> String {
    let label = label_name(nsp, row.next_sentence_label);
    let (tokens, masks) = (row.input_ids.len(), row.masked_lm_ids.len());
    let mut text = format!("{label}, {tokens} tokens, {masks} masked");
    let mut masks = row.masked_lm_positions.iter().zip(row.masked_lm_ids).peekable();
    let mut segment = -1;
    for (position, (&id, &segment_id)) in row.input_ids.iter().zip(row.segment_ids).enumerate() {
        if segment_id != segment {
            segment = segment_id;
            text.push_str(if segment == 0 { "\n  A:" } else { "\n  B:" });
        }
        text.push(' ');
        let shown = word(vocabulary, id);
        match masks.next_if(|(masked, _)| **masked == position as i32) {
            Some((_, &original)) if id == original => text.push_str(&format!("[KEPT:{shown}]")),
            Some((_, &original)) if id == vocabulary.mask_id() as i32 => {
                text.push_str(&format!("[MASK:{}]", word(vocabulary, original)));
            }
            Some((_, &original)) => text.push_str(&format!("[{}->{shown}]", word(vocabulary, original))),
            None => text.push_str(shown),
        }
    }
    text
}

/// The first `n` rows of a folder's shards as words; what the loader makes is that of epoch 0.
pub(crate) fn render_first(
    folder: &Path,
    n: u64,
    manifest: &Manifest,
    vocabulary: &Vocabulary,
) -> Result<Vec<String>> {
    let mut rows = StoredRows::new(folder, manifest, vocabulary);
    let render = |index| Ok(render(rows.row(index)?, vocabulary, manifest.config.nsp));
    (0..n.min(manifest.instances)).map(render).collect()
}

/// The first `n` instances that a configuration makes, in the order they are made; reads the input into memory, which
/// holds two bytes for each token of it, and writes nothing.
/// Where the loader makes the masks, there are none.
///
/// # Errors
/// As [`crate::build`], but for the output folder, which is not needed.
pub fn preview(config: &BuildConfig, n: usize) -> Result<Vec<String>> {
    let prepared = prepare(config)?;
    let mut documents = read_into_memory(&prepared)?;
    let mut keyed = config.keyed(&prepared.vocabulary);
    let mut masker = config.masker(&prepared.vocabulary);
    let mut lines = Vec::new();
    let mut python = PythonRandom::new(config.random_seed);
    if config.random == RandomMode::Reference {
        documents.shuffle(&mut python);
    }
    for unit in 0..documents.len() * config.passes() {
        if lines.len() >= n {
            break;
        }
        let (pass, document) = (unit / documents.len(), unit % documents.len());
        let mut show = |masked: &MaskedInstance| {
            lines.push(render_masked(masked, &prepared.vocabulary, config.nsp));
            Ok(())
        };
        match config.random {
            RandomMode::Keyed => {
                keyed.make(&documents, pass as u64, document, show)?;
            }
            RandomMode::Reference => {
                let mut masked = MaskedInstance::default();
                let rules = config.pair_rules(&prepared.vocabulary);
                create_instances_from_document(
                    &documents,
                    document,
                    &rules,
                    &mut python,
                    |random, instance| {
                        masker.mask(instance, random, &mut masked);
                        show(&masked)
                    },
                )?;
            }
        }
    }
    lines.truncate(n);
    Ok(lines)
}

fn render_masked(masked: &MaskedInstance, vocabulary: &Vocabulary, nsp: Nsp) -> String {
    let int32 = |values: &[u32]| -> Vec<i32> { values.iter().map(|&value| value as i32).collect() };
    let tokens: Vec<u32> = masked.tokens.iter().map(|&id| unmarked(id, vocabulary.len()).0).collect();
    let row = Row {
        input_ids: &int32(&tokens),
        segment_ids: &masked.segment_ids,
        masked_lm_positions: &int32(&masked.masked_lm_positions),
        masked_lm_ids: &int32(&masked.masked_lm_ids),
        next_sentence_label: i8::from(masked.is_random_next),
        continues_word: &[],
    };
    render(row, vocabulary, nsp)
}
