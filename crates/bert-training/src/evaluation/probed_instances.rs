//! Probes the masked instances of a data folder: which predictions flip when a word changes.

use std::path::Path;

use bert_data::StoredRows;
use bert_inference::{MaskedWord, ModelFiles, Probe, Prober, Replacement, Subject};
use bert_tasks::EncodedPair;

use crate::data_loader::DataLoader;
use crate::error::Error;

/// Applies all replacements to the first `instances` instances of a data folder; `folder` is the folder of the model.
///
/// # Errors
/// Fails as [`Prober::text`] does; when the data does not fit the model, or the model has no masked-LM head.
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
