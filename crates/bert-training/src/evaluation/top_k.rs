//! Computes top-k accuracy: how often the masked word is among a model's first k predictions.
//!
//! [`crate::evaluation`] computes only top-1 accuracy: its kernel frees the logits of a block of the vocabulary as soon
//! as possible. This module keeps all logits of a batch in memory, `[masked tokens, vocabulary]`.

use std::path::Path;

use bert_data::StoredRows;
use bert_inference::host_tensors::read;
use bert_inference::{MaskedWord, ModelFiles, Probe, Prober, Replacement, Subject};
use bert_model::{BertForPreTraining, Mode};
use bert_tasks::EncodedPair;
use rayon::prelude::*;

use crate::data_loader::DataLoader;
use crate::error::Error;
use crate::evaluation::device_of;

/// Returns the fraction of masked tokens, in [0, 1], that are among the `k` words with the highest logits; ties go to
/// the lowest id. Returns NaN if there are no masked tokens. `model` is without autodiff; the first `limit` instances
/// of the loader's folder are used, or all of them.
///
/// # Errors
/// Fails when a shard cannot be read.
pub fn top_k_accuracy(
    model: &BertForPreTraining,
    loader: &mut DataLoader,
    k: usize,
    batch_size: usize,
    limit: Option<u64>,
) -> Result<f64, Error> {
    let device = &device_of(model);
    let mut found = 0;
    let mut all = 0;
    for batch in loader.stored_batches(limit, batch_size) {
        let batch = batch?;
        if batch.masked_lm_ids.is_empty() {
            continue;
        }
        let logits = model.forward(batch.input(device), Mode::Eval).prediction_logits; // [n, vocab]
        let [_, vocab] = logits.dims();
        let logits = read(logits)?;
        let rows = logits.par_chunks(vocab).zip(&batch.masked_lm_ids);
        found += rows.filter(|(logits, label)| rank(logits, **label as usize) < k).count();
        all += batch.masked_lm_ids.len();
    }
    Ok(found as f64 / all as f64)
}

/// Returns the number of words that rank above `label`.
fn rank(logits: &[f32], label: usize) -> usize {
    let logit = logits[label];
    let greater = |logits: &[f32]| logits.iter().filter(|other| **other > logit).count();
    let equal = logits[..label].iter().filter(|other| **other == logit).count();
    greater(logits) + equal
}

/// Applies all replacements to the first `instances` instances of a data folder; `folder` is the folder of the model.
///
/// # Errors
/// Fails as [`Prober::text`] does, when the data does not fit the model, or when the model has no masked-LM head.
pub fn probe_instances(
    prober: &Prober,
    folder: &Path,
    data: &Path,
    instances: u64,
    replacements: &[Replacement],
) -> Result<Vec<Probe>, Error> {
    prober.require_masks()?;
    let ModelFiles { config, tokenizer, .. } = ModelFiles::open(folder)?;
    let loader = DataLoader::open(data, 0)?;
    loader.check_fits(&config, Some(&tokenizer))?;
    let mut rows = StoredRows::new(loader.data());
    let mut probes = Vec::new();
    for index in 0..instances.min(rows.len()) {
        let row = rows.row(index)?;
        let encoded = EncodedPair {
            input_ids: row.input_ids.to_vec(),
            segment_ids: row.segment_ids.iter().map(|&segment| segment as u32).collect(),
        };
        let masked = row.masked_lm_positions.iter().zip(row.masked_lm_ids);
        let masked = masked.map(|(&at, &id)| MaskedWord { position: at as usize, id }).collect();
        let subject = Subject { source: format!("instance {index}"), encoded, masked };
        probes.extend(prober.probe(&subject, replacements)?);
    }
    Ok(probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_id() {
        let logits = [1.0, 3.0, 2.0, 3.0, 0.5];
        assert_eq!([0, 1, 2, 3, 4].map(|label| rank(&logits, label)), [3, 0, 2, 1, 4]);
    }
}
