//! Finds and checks the documents that are held out of the training data.

use std::borrow::Cow;
use std::collections::BinaryHeap;

use crate::config::hold_out::draw;
use crate::config::{BuildConfig, Nsp};
use crate::documents::read::each_document;
use crate::documents::read_report::ReadReport;
use crate::error::{Result, TextError};

/// Rejects a share of held-out documents from which no instance can be made, before any shard is written.
///
/// # Errors
/// [`TextError::TooFewHeldOut`].
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
    Err(TextError::TooFewHeldOut { share: share.to_string(), held_out, documents: held_out + kept }.into())
}

/// Returns the configuration with the limit of the draws if a number of documents is held out: the text is read once to
/// find the documents with the smallest draws.
///
/// # Errors
/// The errors of reading the text; [`TextError::TooManyHeldOut`].
pub(crate) fn with_limit(config: &BuildConfig) -> Result<Cow<'_, BuildConfig>> {
    let open = config.hold_out.and_then(|share| Some((share, share.open_number()?)));
    let Some((share, number)) = open else { return Ok(Cow::Borrowed(config)) };
    config.check()?;
    let (files, _) = config.input_files()?;
    // The largest of the smallest draws is on top.
    let mut smallest: BinaryHeap<u64> = BinaryHeap::new();
    let mut documents = 0_u64;
    each_document(&files, config, &mut |document| {
        documents += 1;
        // Draws are not negative, so their bits are ordered as they are.
        smallest.push(draw(config.random_seed, document).to_bits());
        if smallest.len() as u64 > number {
            smallest.pop();
        }
    })?;
    if number > documents / 2 {
        return Err(TextError::TooManyHeldOut { number, documents }.into());
    }
    let limit = smallest.peek().map_or(0.0, |&bits| f64::from_bits(bits).next_up());
    Ok(Cow::Owned(BuildConfig { hold_out: Some(share.with_limit(limit)), ..config.clone() }))
}
