//! Properties that must hold for any bytes of weights: see `checks.rs`. A separate module, because the tensor engine is
//! slow to build for a fuzzer.

use std::path::Path;

use super::checks::{Check, file};

/// All targets of the model crate.
pub(crate) const MODEL_CHECKS: [Check; 1] = [("safetensors", safetensors)];

/// Checks weights: accepted weights are finite and have the size of their shape.
pub(crate) fn safetensors(bytes: &[u8]) {
    if let Ok(tensors) = bert_model::named_tensors_from_bytes(bytes, Path::new("model.safetensors")) {
        for (name, (shape, values)) in &tensors {
            assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
            assert!(values.iter().all(|value| value.is_finite()), "{name}");
        }
    }
    let path = file("model.safetensors", bytes);
    let _ = bert_model::read_safetensors(&path);
}
