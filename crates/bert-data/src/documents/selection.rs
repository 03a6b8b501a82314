//! Finds and checks the documents that are held out of the training data.

use std::borrow::Cow;
use std::collections::BinaryHeap;
use std::fmt::Display;

use crate::config::hold_out::draw;
use crate::config::{BuildConfig, Nsp};
use crate::documents::read::each_document;
use crate::documents::read_report::ReadReport;
use crate::error::{Error, Result};

/// Rejects a share of held-out documents from which no instance can be made, before any shard is written.
///
/// # Errors
/// Fails when the held-out documents are too few for a data set.
pub(crate) fn check_held_out(config: &BuildConfig, read: &ReadReport, kept: u64) -> Result<()> {
    let Some(share) = config.hold_out.filter(|_| !config.held_out) else { return Ok(()) };
    let held_out = read.left_out_documents;
    let sentences = read.left_out_sentences;
    let is_too_few = match config.nsp {
        // A random next sentence needs another document.
        Nsp::On => held_out < 2,
        Nsp::Sop => held_out == sentences,
        Nsp::Off => held_out == 0,
    };
    if !is_too_few {
        return Ok(());
    }
    Err(too_few(share, held_out, held_out + kept))
}

/// Returns the error for held-out documents that are too few for a data set.
pub(crate) fn too_few(share: impl Display, held_out: u64, documents: u64) -> Error {
    Error::data(format!(
        "`.hold_out` {share} selects {held_out} of {documents} documents, too few to evaluate on: hold out a larger share, or \
         a number of documents (`.hold_out` 20)"
    ))
}

/// Returns the configuration with the limit of the draws if a number of documents is held out: the text is read once to
/// find the documents with the smallest draws.
///
/// # Errors
/// Fails when an option is invalid, when the text cannot be read, or when more than half of the documents would be held
/// out.
pub(crate) fn with_limit(config: &BuildConfig) -> Result<Cow<'_, BuildConfig>> {
    let open = config.hold_out.and_then(|share| Some((share, share.open_number()?)));
    let Some((share, number)) = open else { return Ok(Cow::Borrowed(config)) };
    config.check()?;
    let (files, _) = config.input_files()?;
    // A max-heap of the `number` smallest draws.
    let mut smallest: BinaryHeap<u64> = BinaryHeap::new();
    let mut documents = 0_u64;
    each_document(&files, config, &mut |document| {
        documents += 1;
        // Draws are not negative, so their bits have the same order as the draws.
        smallest.push(draw(config.random_seed, document).to_bits());
        if smallest.len() as u64 > number {
            smallest.pop();
        }
    })?;
    if number > documents / 2 {
        return Err(Error::data(format!(
            "`.hold_out` {number} is more than half of the {documents} documents of the input (documents are \
             separated by blank lines): hold out fewer"
        )));
    }
    let limit = smallest.peek().map_or(0.0, |&bits| f64::from_bits(bits).next_up());
    Ok(Cow::Owned(BuildConfig { hold_out: Some(share.with_limit(limit)), ..config.clone() }))
}
