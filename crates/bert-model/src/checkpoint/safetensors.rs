//! Converts parameters to and from the bytes of a safetensors file.
//!
//! Tensors are written in f32, bf16 or f16; f16 and bf16 are widened when read. The file's metadata
//! contains `format: pt`, which `transformers` requires.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use burn::module::Module;
use safetensors::tensor::{Dtype, SafeTensors, View, serialize};
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::checkpoint::parameter_names::NamedTensors;
use crate::checkpoint::snapshot::Snapshot;
use crate::error::{Error, damaged_weights, no_float};

/// Returns the bytes of `model.safetensors` for a module. Equal parameters give equal bytes.
pub fn to_safetensors_bytes<M: Module>(model: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    Snapshot::new(model).write(&mut bytes).expect("writing to memory cannot fail");
    bytes
}

/// Returns the bytes of a safetensors file with these tensors, in f32.
pub fn named_tensors_to_bytes(tensors: &NamedTensors) -> Vec<u8> {
    bytes_in(Dtype::F32, tensors)
}

/// Returns the bytes like [`named_tensors_to_bytes`], but in bf16: each value is rounded to nearest, ties to even.
pub fn named_tensors_to_bf16_bytes(tensors: &NamedTensors) -> Vec<u8> {
    bytes_in(Dtype::BF16, tensors)
}

/// Returns the bytes like [`named_tensors_to_bytes`], but in f16: each value is rounded to nearest, ties to even.
pub fn named_tensors_to_f16_bytes(tensors: &NamedTensors) -> Vec<u8> {
    bytes_in(Dtype::F16, tensors)
}

fn bytes_in(dtype: Dtype, tensors: &NamedTensors) -> Vec<u8> {
    let views = tensors.iter().map(|(name, (shape, values))| (name, Floats { dtype, shape, values }));
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    serialize(views, Some(metadata)).expect("the header of a model's tensors is small")
}

/// The values of a tensor, converted to bytes one tensor at a time, so that the bytes of the file are the only copy.
struct Floats<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    values: &'a [f32],
}

impl View for Floats<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        for &value in self.values {
            match self.dtype {
                Dtype::BF16 => bytes.extend_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
                Dtype::F16 => bytes.extend_from_slice(&half::f16::from_f32(value).to_le_bytes()),
                _ => bytes.extend_from_slice(&value.to_le_bytes()),
            }
        }
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.values.len() * if self.dtype == Dtype::F32 { 4 } else { 2 }
    }
}

const FORMAT: &str = "safetensors";

/// Maximum size of a weights file in bytes: f32 for the maximum number of parameters.
const MAX_FILE_BYTES: u64 = 4 * 34_000_000_000;

/// Maximum size of a header in bytes: a hundred times the header of BERT-large. A parsed header takes ten times as much
/// memory.
const MAX_HEADER_BYTES: u64 = 4 << 20;

/// Reads a safetensors file.
///
/// # Errors
/// Fails when the file cannot be read, when it is larger than 136 GB, or when it is a file of PyTorch. Also fails as
/// [`named_tensors_from_bytes`] does.
pub fn read_safetensors(path: &Path) -> Result<NamedTensors, Error> {
    let io = |source| Error::io("read", path)(source);
    if std::fs::metadata(path).map_err(io)?.len() > MAX_FILE_BYTES {
        let reason = format!("larger than {MAX_FILE_BYTES} bytes");
        return Err(damaged_weights(FORMAT, reason).at(path));
    }
    let bytes = std::fs::read(path).map_err(io)?;
    if is_pickle(&bytes) {
        let text =
            "this safetensors file is not supported: it is a file of PyTorch; rename it to pytorch_model.bin";
        return Err(Error::model(text).at(path));
    }
    named_tensors_from_bytes(&bytes, path).map_err(|error| error.at(path))
}

/// Returns the tensors in the bytes of a safetensors file, converted to f32. Skips the buffer
/// `embeddings.position_ids`. Error messages contain `path`.
///
/// # Errors
/// Fails when the file is damaged, when a tensor has an element type other than f32, f16 and bf16, or when a tensor
/// holds NaN or infinity; the error names the tensor.
pub fn named_tensors_from_bytes(bytes: &[u8], path: &Path) -> Result<NamedTensors, Error> {
    let corrupt = |reason: String| damaged_weights(FORMAT, reason).at(path);
    let header = bytes.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    if header > MAX_HEADER_BYTES {
        return Err(corrupt(format!("its header has {header} bytes, more than {MAX_HEADER_BYTES}")));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|e| corrupt(e.to_string()))?;
    reject_repeated_names(bytes).map_err(|e| corrupt(e.to_string()))?;
    let mut tensors = NamedTensors::new();
    for (name, view) in file.iter() {
        // This is an integer buffer of older versions of `transformers`, not a parameter.
        if name.ends_with("embeddings.position_ids") {
            continue;
        }
        let values =
            widen(view.dtype(), view.data()).ok_or_else(|| no_float(name, format!("{:?}", view.dtype())))?;
        check_finite(name, &values)?;
        tensors.insert(name.into(), (view.shape().to_vec(), values));
    }
    Ok(tensors)
}

/// Rejects duplicate tensor names. The safetensors crate would silently use the last of them.
fn reject_repeated_names(bytes: &[u8]) -> Result<(), serde_json::Error> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return Ok(()) };
    let header = rest.get(..u64::from_le_bytes(*length) as usize).unwrap_or_default();
    serde_json::Deserializer::from_slice(header).deserialize_map(UniqueKeys)
}

/// A visitor that rejects a JSON object with duplicate keys.
struct UniqueKeys;

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
            if names.contains(&name) {
                return Err(A::Error::custom(format!("two tensors are named {name:?}")));
            }
            names.insert(name);
        }
        Ok(())
    }
}

/// Returns whether a file begins like a PyTorch file: a zip archive, or a bare pickle. In a safetensors file, the first
/// 8 bytes of either would be a header length far above the maximum.
pub(crate) fn is_pickle(bytes: &[u8]) -> bool {
    let Some(start) = bytes.first_chunk::<8>() else { return false };
    let zip = start.starts_with(b"PK\x03\x04");
    let pickle = start[0] == 0x80 && (2..=5).contains(&start[1]) && u64::from_le_bytes(*start) >> 32 != 0;
    zip || pickle
}

/// Checks that no value is NaN or infinite.
///
/// # Errors
/// Fails when a value is NaN or infinite; the error names the tensor.
pub(crate) fn check_finite(name: &str, values: &[f32]) -> Result<(), Error> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(&value) => Err(Error::model(format!(
            "tensor `{name}` contains {value}, which is not finite; use an earlier checkpoint"
        ))),
        None => Ok(()),
    }
}

/// Converts little-endian floats to f32; `None` for other element types.
fn widen(dtype: Dtype, data: &[u8]) -> Option<Vec<f32>> {
    Some(match dtype {
        Dtype::F32 => widen_f32(data),
        Dtype::F16 => widen_f16(data),
        Dtype::BF16 => widen_bf16(data),
        _ => return None,
    })
}

/// Converts little-endian bytes to f32.
pub(crate) fn widen_f32(data: &[u8]) -> Vec<f32> {
    data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Converts little-endian f16 to f32.
pub(crate) fn widen_f16(data: &[u8]) -> Vec<f32> {
    data.as_chunks().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes).to_f32()).collect()
}

/// Converts little-endian bf16 to f32.
pub(crate) fn widen_bf16(data: &[u8]) -> Vec<f32> {
    data.as_chunks().0.iter().map(|bytes| half::bf16::from_le_bytes(*bytes).to_f32()).collect()
}
