//! Saves log-bilinear models in the user's cache, so that the same text is counted once.
//!
//! The key is a digest of everything that determines the bits: the data, the vocabulary, the shape, the seed, and the
//! processor. A file holds the sizes of the sides, then the table, the bias, and the matrices of each side.

use std::path::PathBuf;
use std::time::Duration;

use bert_data::DataSet;
use bert_inference::environment::environment;
use bert_model::{LogBilinear, LogBilinearShape, LogBilinearSide};
use bert_storage::{CachedResult, ObjectCache, ResultCache, digest_bytes};
use serde_json::json;

use crate::error::Error;

/// The version of the fit. Increase it when a change of the fit gives different bits, or when the file format
/// changes.
const FIT_VERSION: u32 = 2;
/// Maximum size of the cache.
const MAX_BYTES: u64 = 2 << 30;
/// Minimum duration of a fit that is saved.
const MIN_TIME: Duration = Duration::from_secs(1);

/// The cache entry of one fit.
pub(super) struct CachedFit {
    cache: ResultCache,
    key: String,
    shape: LogBilinearShape,
    words: usize,
}

impl CachedFit {
    /// Returns the cache entry for a fit to weighted data sets.
    pub(super) fn new(sets: &[(DataSet, f64)], shape: &LogBilinearShape, seed: u64) -> Self {
        let manifest = sets[0].0.manifest();
        let mut inputs = json!({
            "fit": FIT_VERSION,
            "data": manifest.shards_digest(),
            "vocabulary": manifest.vocabulary.blake3,
            "shape": [shape.width, shape.rank],
            "offsets": shape.offsets,
            "seed": seed,
            "environment": environment(),
        });
        if sets.len() > 1 {
            let parts = sets.iter().map(|(data, weight)| json!([data.manifest().shards_digest(), weight]));
            inputs["mixture"] = parts.collect();
        }
        let folder = ObjectCache::user_folder("initial-weights");
        Self::in_folder(folder, &inputs.to_string(), shape.clone(), sets[0].0.vocabulary().len())
    }

    fn in_folder(folder: PathBuf, inputs: &str, shape: LogBilinearShape, words: usize) -> Self {
        let key = digest_bytes(inputs.as_bytes());
        Self { cache: ResultCache::new(&folder, MAX_BYTES), key, shape, words }
    }

    /// Returns the saved model, with the ids of the special tokens of its vocabulary.
    ///
    /// # Errors
    /// Fails when the file exists and cannot be read.
    pub(super) fn load(&self, special: SpecialIds) -> Result<CachedResult<LogBilinear>, Error> {
        self.cache.load(&self.key, |bytes| self.parse(bytes, special))
    }

    /// Saves a model if its fit took at least [`MIN_TIME`].
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(super) fn save(&self, model: &LogBilinear, took: Duration) -> Result<(), Error> {
        if took >= MIN_TIME {
            self.cache.store(&self.key, &to_bytes(model))?;
        }
        Ok(())
    }

    fn parse(
        &self,
        bytes: &[u8],
        SpecialIds { special, mask_id, cls_id }: SpecialIds,
    ) -> Option<LogBilinear> {
        let LogBilinearShape { width, rank, offsets } = &self.shape;
        let (sizes, values) = bytes.split_at_checked(8 * offsets.len())?;
        if values.len() != 4 * (self.words * (width + 1) + 2 * offsets.len() * rank * width) {
            return None;
        }
        let mut values = values.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value));
        let mut take = |count: usize| values.by_ref().take(count).collect::<Vec<f32>>();
        let table = take(self.words * width);
        let bias = take(self.words);
        let side = |size: &[u8; 8]| LogBilinearSide {
            inputs: take(rank * width),
            outputs: take(rank * width),
            size: f64::from_le_bytes(*size),
        };
        let sides = sizes.as_chunks::<8>().0.iter().map(side).collect();
        Some(LogBilinear { table, bias, sides, special, mask_id, cls_id })
    }
}

/// Ids of the special tokens.
pub(super) struct SpecialIds {
    pub(super) special: Vec<usize>,
    pub(super) mask_id: usize,
    pub(super) cls_id: usize,
}

fn to_bytes(model: &LogBilinear) -> Vec<u8> {
    let sizes = model.sides.iter().flat_map(|side| side.size.to_le_bytes());
    let sides = model.sides.iter().flat_map(|side| [&side.inputs, &side.outputs]);
    let values = [&model.table, &model.bias].into_iter().chain(sides).flatten();
    sizes.chain(values.flat_map(|value| value.to_le_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> LogBilinear {
        let side = |size| LogBilinearSide { inputs: vec![0.1, -2.5], outputs: vec![1e-9, 3.0], size };
        LogBilinear {
            table: vec![0.25, 1.0 / 3.0, -7.0, 1.5],
            bias: vec![-1.5, 0.0],
            sides: vec![side(0.1 + 0.2), side(2.0)],
            special: vec![0, 4],
            mask_id: 4,
            cls_id: 2,
        }
    }

    fn ids() -> SpecialIds {
        SpecialIds { special: vec![0, 4], mask_id: 4, cls_id: 2 }
    }

    fn fit(folder: &tempfile::TempDir, inputs: &str) -> CachedFit {
        let shape = LogBilinearShape { width: 2, rank: 1, offsets: vec![-1, 1] };
        CachedFit::in_folder(folder.path().to_owned(), inputs, shape, 2)
    }

    #[test]
    fn saved_model_is_equal_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let entry = fit(&folder, "text a");
        entry.save(&model(), Duration::from_millis(10)).unwrap();
        assert!(matches!(entry.load(ids()).unwrap(), CachedResult::Absent), "too fast to save");
        entry.save(&model(), MIN_TIME).unwrap();
        let CachedResult::Valid(found) = entry.load(ids()).unwrap() else { panic!("not found") };
        assert_eq!(found, model());
        let other = fit(&folder, "text b");
        assert!(matches!(other.load(ids()).unwrap(), CachedResult::Absent));
    }

    #[test]
    fn damaged_model_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let entry = fit(&folder, "text");
        entry.save(&model(), MIN_TIME).unwrap();
        let path = entry.cache.path(&entry.key);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(entry.load(ids()).unwrap(), CachedResult::Damaged(found) if found == path));
        entry.cache.store(&entry.key, b"not a fit").unwrap();
        assert!(matches!(entry.load(ids()).unwrap(), CachedResult::Damaged(_)));
    }
}
