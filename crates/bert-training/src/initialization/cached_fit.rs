//! Saves log-bilinear models in the user's cache, so that the same text is counted once.
//!
//! The key is a digest of everything that determines the bits: the data, the vocabulary, the shape, the seed, and the
//! processor. The files are safetensors.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bert_data::DataSet;
use bert_inference::environment::environment;
use bert_model::{LogBilinear, LogBilinearShape, LogBilinearSide};
use bert_storage::{CachedResult, ObjectCache, ResultCache, digest_bytes};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::json;

use crate::error::Error;

/// The version of the fit. Increase it when a change of the fit gives different bits.
const FIT_VERSION: u32 = 1;
/// Maximum size of the cache.
const MAX_BYTES: u64 = 2 << 30;
/// A fit that takes less time is not saved.
const MIN_TIME: Duration = Duration::from_secs(1);

/// The cache entry of one fit.
pub(super) struct CachedFit {
    cache: ResultCache,
    key: String,
}

impl CachedFit {
    /// Returns the entry of a fit to data sets with weights.
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
        Self::in_folder(ObjectCache::user_folder("initial-weights"), &inputs.to_string())
    }

    fn in_folder(folder: PathBuf, inputs: &str) -> Self {
        Self { cache: ResultCache::new(&folder, MAX_BYTES), key: digest_bytes(inputs.as_bytes()) }
    }

    /// Returns the saved model, with the ids of the special tokens of its vocabulary.
    ///
    /// # Errors
    /// Fails when the file exists and cannot be read.
    pub(super) fn load(&self, special: SpecialIds) -> Result<CachedResult<LogBilinear>, Error> {
        self.cache.load(&self.key, |bytes| parse(bytes, special))
    }

    /// Saves a model whose fit took this time.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(super) fn save(&self, model: &LogBilinear, took: Duration) -> Result<(), Error> {
        if took >= MIN_TIME {
            self.cache.store(&self.key, &to_bytes(model))?;
        }
        Ok(())
    }
}

/// Ids of the special tokens.
pub(super) struct SpecialIds {
    pub(super) special: Vec<usize>,
    pub(super) mask_id: usize,
    pub(super) cls_id: usize,
}

fn to_bytes(model: &LogBilinear) -> Vec<u8> {
    let mut tensors = vec![("table".to_owned(), &model.table), ("bias".to_owned(), &model.bias)];
    for (number, side) in model.sides.iter().enumerate() {
        tensors.push((format!("{number}.inputs"), &side.inputs));
        tensors.push((format!("{number}.outputs"), &side.outputs));
    }
    // The sizes are written as bits, because decimal digits may change the last bit.
    let sizes =
        model.sides.iter().enumerate().map(|(at, side)| (at.to_string(), side.size.to_bits().to_string()));
    let bytes: Vec<(String, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, values)| (name, values.iter().flat_map(|value| value.to_le_bytes()).collect()))
        .collect();
    let views = bytes.iter().map(|(name, bytes)| {
        (name, TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes).expect("whole numbers of f32"))
    });
    serialize(views, Some(sizes.collect())).expect("tensors of plain shapes")
}

fn parse(bytes: &[u8], SpecialIds { special, mask_id, cls_id }: SpecialIds) -> Option<LogBilinear> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).ok()?;
    let sizes: &HashMap<String, String> = metadata.metadata().as_ref()?;
    let tensors = SafeTensors::deserialize(bytes).ok()?;
    let values = |name: &str| {
        let tensor = tensors.tensor(name).ok()?;
        let numbers = tensor.data().as_chunks::<4>().0.iter();
        Some(numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<f32>>())
    };
    let side = |number: usize| {
        Some(LogBilinearSide {
            inputs: values(&format!("{number}.inputs"))?,
            outputs: values(&format!("{number}.outputs"))?,
            size: f64::from_bits(sizes.get(&number.to_string())?.parse().ok()?),
        })
    };
    Some(LogBilinear {
        table: values("table")?,
        bias: values("bias")?,
        sides: (0..sizes.len()).map(side).collect::<Option<Vec<_>>>()?,
        special,
        mask_id,
        cls_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> LogBilinear {
        let side = |size| LogBilinearSide { inputs: vec![0.1, -2.5], outputs: vec![1e-9, 3.0], size };
        LogBilinear {
            table: vec![0.25, 1.0 / 3.0, -7.0],
            bias: vec![-1.5],
            sides: vec![side(0.1 + 0.2), side(2.0)],
            special: vec![0, 4],
            mask_id: 4,
            cls_id: 2,
        }
    }

    fn ids() -> SpecialIds {
        SpecialIds { special: vec![0, 4], mask_id: 4, cls_id: 2 }
    }

    #[test]
    fn saved_model_is_equal_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let entry = CachedFit::in_folder(folder.path().to_owned(), "text a");
        entry.save(&model(), Duration::from_millis(10)).unwrap();
        assert!(matches!(entry.load(ids()).unwrap(), CachedResult::Absent), "too fast to save");
        entry.save(&model(), MIN_TIME).unwrap();
        let CachedResult::Valid(found) = entry.load(ids()).unwrap() else { panic!("not found") };
        assert_eq!(found, model());
        let other = CachedFit::in_folder(folder.path().to_owned(), "text b");
        assert!(matches!(other.load(ids()).unwrap(), CachedResult::Absent));
    }

    #[test]
    fn damaged_model_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let entry = CachedFit::in_folder(folder.path().to_owned(), "text");
        entry.save(&model(), MIN_TIME).unwrap();
        let path = entry.cache.path(&entry.key);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(entry.load(ids()).unwrap(), CachedResult::Damaged(found) if found == path));
        entry.cache.store(&entry.key, b"not safetensors").unwrap();
        assert!(matches!(entry.load(ids()).unwrap(), CachedResult::Damaged(_)));
    }
}
