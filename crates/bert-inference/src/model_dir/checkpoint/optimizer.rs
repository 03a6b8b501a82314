//! Reads the states of an optimizer from a checkpoint.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::{Error, corrupt};
use crate::model_dir::checkpoint::OPTIMIZER;

/// A number that an optimizer keeps for each element of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimizerState {
    /// Name, which contains no dot. The file of a checkpoint has a tensor `NAME.PARAMETER`.
    pub name: &'static str,
    /// Whether the state is a mean of squares, which is never negative.
    pub is_square: bool,
}

/// The values of each state of an optimizer, in the optimizer's order, by the name of the parameter.
pub type OptimizerValues = BTreeMap<String, Vec<Vec<f32>>>;

/// Reads `optimizer.safetensors` of a verified checkpoint: the tensors `STATE.PARAMETER` by name.
///
/// # Errors
/// Fails when the file cannot be read or parsed, when a tensor is not F32, or when a value is not a finite number.
pub fn read_optimizer_tensors(path: &Path) -> Result<BTreeMap<String, Vec<f32>>, Error> {
    let corrupt = |reason: String| corrupt(path, reason);
    let bytes = fs::read(path.join(OPTIMIZER)).map_err(Error::io("read", &path.join(OPTIMIZER)))?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| corrupt(format!("{OPTIMIZER}: {e}")))?;
    let read = |(key, view): (&str, TensorView<'_>)| {
        let wrong = |reason: &str| corrupt(format!("{OPTIMIZER}: {key}: {reason}"));
        if view.dtype() != Dtype::F32 {
            return Err(wrong(&format!("its values are {:?}, and moments are F32", view.dtype())));
        }
        let values: Vec<f32> =
            view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if !values.iter().all(|value| value.is_finite()) {
            return Err(wrong("a value is NaN or infinite"));
        }
        Ok((key.to_owned(), values))
    };
    tensors.iter().map(read).collect()
}

/// Reads the states of an optimizer with these `states` from a verified checkpoint.
///
/// # Errors
/// Fails as [`read_optimizer_tensors`] does, when the file has a state that the optimizer does not keep, when a mean of
/// squares is negative, or when the states of a parameter differ in size.
pub fn read_optimizer(path: &Path, states: &[OptimizerState]) -> Result<OptimizerValues, Error> {
    let corrupt = |reason: String| corrupt(path, format!("{OPTIMIZER}: {reason}"));
    let mut all = OptimizerValues::new();
    for (key, values) in read_optimizer_tensors(path)? {
        let found = key.split_once('.').and_then(|(state, parameter)| {
            Some((states.iter().position(|known| known.name == state)?, parameter))
        });
        let Some((state, parameter)) = found else {
            return Err(corrupt(format!("unexpected tensor {key:?}")));
        };
        if states[state].is_square && values.iter().any(|&value| value < 0.0) {
            return Err(corrupt(format!("{key}: a mean of squares is negative")));
        }
        all.entry(parameter.to_owned()).or_insert_with(|| vec![Vec::new(); states.len()])[state] = values;
    }
    match all.iter().find(|(_, values)| values.iter().any(|other| other.len() != values[0].len())) {
        Some((name, _)) => Err(corrupt(format!("the moments of {name} differ in size"))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an optimizer state with one tensor.
    fn read_state(name: &str, dtype: Dtype, bytes: &[u8]) -> Result<OptimizerValues, Error> {
        let folder = tempfile::tempdir().unwrap();
        let view = TensorView::new(dtype, vec![2], bytes).unwrap();
        let file = safetensors::serialize([(name, view)], None).unwrap();
        fs::write(folder.path().join(OPTIMIZER), file).unwrap();
        let states = [("first", false), ("second", true)];
        read_optimizer(folder.path(), &states.map(|(name, is_square)| OptimizerState { name, is_square }))
    }

    #[test]
    fn moments_of_foreign_files_are_checked() {
        let bytes = |values: [f32; 2]| values.map(f32::to_le_bytes).concat();
        let message = |name, dtype, bytes: &[u8]| read_state(name, dtype, bytes).unwrap_err().to_string();
        for values in [[1.0, f32::NAN], [f32::INFINITY, 1.0]] {
            let text = message("first.a", Dtype::F32, &bytes(values));
            assert!(text.ends_with("first.a: a value is NaN or infinite"), "{text}");
        }
        let text = message("second.a", Dtype::F32, &bytes([1.0, -1.0]));
        assert!(text.ends_with("second.a: a mean of squares is negative"), "{text}");
        let text = message("first.a", Dtype::I32, &bytes([1.0, 2.0]));
        assert!(text.ends_with("first.a: its values are I32, and moments are F32"), "{text}");
        let text = message("first.a", Dtype::F16, &[0; 4]);
        assert!(text.ends_with("first.a: its values are F16, and moments are F32"), "{text}");
        let text = message("second.a", Dtype::F32, &bytes([1.0, 1.0]));
        assert!(text.ends_with("the moments of a differ in size"), "{text}");
    }
}
