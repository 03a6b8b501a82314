//! Caches the packed forms of weights across batches.
//!
//! A product in bf16 rounds and packs its weight every time, which takes a fifth of the time of an evaluation of
//! BERT-base with a batch of 8. Weights that no optimizer changes between batches need to be packed only once.
//! [`PackedWeights`] belongs to the layer whose weights it packs, and an operation finds it through
//! [`Compute::with_packed_weights`].
//!
//! An entry holds the weight itself and its packed form. Therefore, the weight's buffer cannot be changed or freed, an
//! equal buffer means equal numbers, and an entry is never out of date. A changed weight has a new buffer, without an
//! entry. An entry that holds a weight would force an optimizer to copy the weight, so operations that record a graph
//! cache nothing.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::flex::FlexTensor;

use crate::arguments::Compute;
use crate::matmul::bf16::Packed;

/// The packed forms of a layer's weights: half the size of the weights, in bf16 and without autodiff. A clone is empty.
#[derive(Default)]
pub struct PackedWeights {
    entries: Mutex<Vec<CacheEntry>>,
}

struct CacheEntry {
    weight: FlexTensor,
    parts: Arc<[Packed]>,
}

impl Clone for PackedWeights {
    /// Returns an empty cache: the weights of a model's copy often change.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Debug for PackedWeights {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedWeights").finish_non_exhaustive()
    }
}

impl PackedWeights {
    /// Returns the packed parts of a contiguous weight, cached or made by `pack`. A weight is always packed the same
    /// way.
    fn get(&self, weight: &FlexTensor, pack: impl FnOnce() -> Vec<Packed>) -> Arc<[Packed]> {
        let same = |entry: &&CacheEntry| std::ptr::eq(entry.weight.bytes(), weight.bytes());
        if let Some(entry) = self.lock().iter().find(same) {
            return entry.parts.clone();
        }
        // Pack without holding the lock: a thread that waits for a part of this work may run another task
        // that needs the lock.
        let parts: Arc<[Packed]> = pack().into();
        let mut entries = self.lock();
        entries.retain(|entry| !entry.weight.is_unique());
        entries.push(CacheEntry { weight: weight.clone(), parts: parts.clone() });
        parts
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CacheEntry>> {
        // A panic cannot leave the entries half changed, so a poisoned lock is safe to use.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the packed parts of a contiguous weight: from `cache` if it is given, otherwise newly packed.
pub(crate) fn packed(
    cache: Option<&PackedWeights>,
    weight: &FlexTensor,
    pack: impl FnOnce() -> Vec<Packed>,
) -> Arc<[Packed]> {
    match cache {
        Some(cache) => cache.get(weight, pack),
        None => pack().into(),
    }
}

/// The context of an operation: how it computes, and the cache for its packed weights, if any.
#[derive(Clone, Copy, Debug)]
pub struct KernelContext<'a> {
    pub(crate) compute: Compute,
    pub(crate) packed: Option<&'a PackedWeights>,
}

impl From<Compute> for KernelContext<'_> {
    /// Creates a context without a cache.
    fn from(compute: Compute) -> Self {
        Self { compute, packed: None }
    }
}

impl Compute {
    /// Returns a context in which an operation caches its packed weights in `packed`, if it runs without autodiff.
    #[must_use]
    pub fn with_packed_weights(self, packed: &PackedWeights) -> KernelContext<'_> {
        KernelContext { compute: self, packed: Some(packed) }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tensor};

    use super::*;
    use crate::cpu::flex_slices::{slice, slice_mut};
    use crate::fused_op::Input;

    fn flex(x: &Tensor<2>) -> FlexTensor {
        Input::from(x.clone()).into_primitive()
    }

    fn random() -> Tensor<2> {
        Tensor::random([3, 5], Distribution::Default, &Device::flex())
    }

    #[test]
    fn only_new_or_changed_weights_are_packed() {
        let cache = PackedWeights::default();
        let times = std::cell::Cell::new(0);
        let count = |weight: &FlexTensor| {
            cache.get(weight, || {
                times.set(times.get() + 1);
                Vec::new()
            });
            times.get()
        };
        let first = random();
        assert_eq!([count(&flex(&first)), count(&flex(&first))], [1, 1]);
        let mut changed = flex(&first);
        drop(first);
        slice_mut(&mut changed)[0] += 1.0;
        assert_eq!([count(&changed), count(&changed)], [2, 2]);
        // The first weight has no other owner left.
        assert_eq!(cache.lock().len(), 1);
        assert_eq!(count(&flex(&random())), 3);
        assert_eq!(cache.clone().lock().len(), 0);
    }

    #[test]
    fn a_cached_weight_is_copied_before_it_changes() {
        let cache = PackedWeights::default();
        let mut weight = flex(&random());
        cache.get(&weight, Vec::new);
        let before = slice(&weight).as_ptr();
        slice_mut(&mut weight)[0] += 1.0;
        assert_ne!(slice(&weight).as_ptr(), before);
    }
}
