//! Properties that must hold for any bytes of weights: see `checks.rs`. A separate module, because the tensor engine is
//! slow to build for a fuzzer.

use std::path::Path;

use super::checks::{Check, file};

/// All targets of the model crate.
pub(crate) const MODEL_CHECKS: [Check; 3] =
    [("safetensors", safetensors), ("pytorch", pytorch), ("tensorflow", tensorflow)];

/// Checks weights: accepted weights are finite and have the size of their shape.
pub(crate) fn safetensors(bytes: &[u8]) {
    if let Ok(tensors) = bert_model::named_tensors_from_bytes(bytes, Path::new("model.safetensors")) {
        check_tensors(&tensors);
    }
    let path = file("model.safetensors", bytes);
    let _ = bert_model::read_safetensors(&path);
}

fn check_tensors(tensors: &bert_model::NamedTensors) {
    for (name, (shape, values)) in tensors {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
        assert!(values.iter().all(|value| value.is_finite()), "{name}");
    }
}

/// Checks a PyTorch file, with and without a zip archive: accepted weights are finite and have the size of their shape.
pub(crate) fn pytorch(bytes: &[u8]) {
    if let Ok(tensors) = bert_model::read_pytorch(&file("pytorch_model.bin", bytes)) {
        check_tensors(&tensors);
    }
}

/// Checks the index of a TensorFlow checkpoint with a data file of zeros.
pub(crate) fn tensorflow(bytes: &[u8]) {
    let index = file("model.ckpt.index", bytes);
    file("model.ckpt.data-00000-of-00001", &[0; 1 << 14]);
    if let Ok(tensors) = bert_model::read_tensorflow(&index.with_extension("")) {
        check_tensors(&tensors);
    }
}
