//! Reads `flax_model.msgpack`, the weights of a Flax model: nested MessagePack maps whose leaves are arrays.
//!
//! An array is an extension value of type 1, which contains `[shape, element type, bytes]` in MessagePack. Source:
//! `flax/serialization.py` and `transformers/models/bert/modeling_flax_bert.py` of transformers 4.
//!
//! The keys on the path to an array make its name. `kernel`, `scale` and `embedding` become `weight`, and kernels,
//! `[in, out]` in Flax, are transposed.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use rmp::Marker;
use rmp::decode::{
    RmpRead, marker_to_len, read_array_len, read_bin_len, read_int, read_marker, read_str_from_slice,
    read_str_len,
};

use crate::checkpoint::parameter_names::{NamedTensors, rename_tensors, transpose};
use crate::checkpoint::safetensors::{check_finite, widen_bf16, widen_f16, widen_f32};
use crate::error::Error;

const FORMAT: &str = "Flax";

/// Maximum number of nested maps; a BERT has eight.
const MAX_DEPTH: usize = 16;

/// Maximum length of a key in bytes.
const MAX_KEY: u32 = 256;

/// Maximum number of sizes of an array.
const MAX_RANK: u32 = 8;

/// The type of an extension value that is an array.
const ARRAY: i8 = 1;

/// Reads all arrays of a Flax file, converted to f32, with the names and the layout of Hugging Face.
///
/// # Errors
/// [`Error::Io`]; [`Error::CorruptWeights`] for a damaged file; [`Error::UnsupportedWeights`] for values other than
/// arrays; [`Error::UnsupportedDtype`]; [`Error::WeightNotFinite`].
pub fn read_flax(path: &Path) -> Result<NamedTensors, Error> {
    let io = |source| Error::Io { path: path.into(), source };
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut reader = Reader { path, file: BufReader::new(file), length, tensors: NamedTensors::new() };
    let marker = reader.marker()?;
    reader.map(marker, &mut Vec::new())?;
    if reader.remaining()? > 0 {
        return Err(reader.corrupt("there is data after the last array"));
    }
    let tensors = reader.tensors;
    Ok(match tensors.keys().all(|name| name.starts_with("params.")) {
        true => rename_tensors(tensors, |name| name.trim_start_matches("params.").to_string()),
        false => tensors,
    })
}

/// Reads one file; the errors name it.
struct Reader<'a> {
    path: &'a Path,
    file: BufReader<File>,
    length: u64,
    tensors: NamedTensors,
}

impl Reader<'_> {
    fn corrupt(&self, reason: impl ToString) -> Error {
        Error::CorruptWeights { path: self.path.into(), format: FORMAT, reason: reason.to_string() }
    }

    fn remaining(&mut self) -> Result<u64, Error> {
        let position = self.file.stream_position();
        let position = position.map_err(|source| Error::Io { path: self.path.into(), source })?;
        Ok(self.length - position.min(self.length))
    }

    fn marker(&mut self) -> Result<Marker, Error> {
        read_marker(&mut self.file).map_err(|error| self.corrupt(error.0))
    }

    /// Returns the next bytes. Their number is compared with the file's length before memory is allocated.
    fn bytes(&mut self, count: u32) -> Result<Vec<u8>, Error> {
        if u64::from(count) > self.remaining()? {
            return Err(self.corrupt("it ends early"));
        }
        let mut bytes = vec![0; count as usize];
        self.file.read_exact(&mut bytes).map_err(|error| self.corrupt(error))?;
        Ok(bytes)
    }

    /// Reads the entries of a map. `path` are the keys that lead to it.
    fn map(&mut self, marker: Marker, path: &mut Vec<String>) -> Result<(), Error> {
        if path.len() >= MAX_DEPTH {
            return Err(self.corrupt(format!("its maps are nested more than {MAX_DEPTH} times")));
        }
        let entries = marker_to_len(&mut self.file, marker).map_err(|_| self.unsupported(path))?;
        for _ in 0..entries {
            path.push(self.key()?);
            match self.marker()? {
                marker @ (Marker::FixMap(_) | Marker::Map16 | Marker::Map32) => self.map(marker, path)?,
                marker => {
                    let count = self.extension_length(marker, path)?;
                    let bytes = self.bytes(count)?;
                    self.array(&bytes, path)?;
                }
            }
            path.pop();
        }
        Ok(())
    }

    fn key(&mut self) -> Result<String, Error> {
        let length = read_str_len(&mut self.file).map_err(|error| self.corrupt(format!("key: {error}")))?;
        if length > MAX_KEY {
            return Err(self.corrupt(format!("a key has {length} bytes; at most {MAX_KEY} are possible")));
        }
        String::from_utf8(self.bytes(length)?).map_err(|error| self.corrupt(format!("key: {error}")))
    }

    /// Returns the number of bytes of an array from the marker of its extension value.
    fn extension_length(&mut self, marker: Marker, path: &[String]) -> Result<u32, Error> {
        let length = match marker {
            Marker::FixExt16 => Ok(16),
            Marker::Ext8 => self.file.read_data_u8().map(u32::from),
            Marker::Ext16 => self.file.read_data_u16().map(u32::from),
            Marker::Ext32 => self.file.read_data_u32(),
            _ => return Err(self.unsupported(path)),
        };
        let length = length.map_err(|error| self.corrupt(error))?;
        match self.file.read_data_i8().map_err(|error| self.corrupt(error))? {
            ARRAY => Ok(length),
            _ => Err(self.unsupported(path)),
        }
    }

    /// Adds the array in these bytes.
    fn array(&mut self, bytes: &[u8], path: &[String]) -> Result<(), Error> {
        let name = tensor_name(path);
        let parsed =
            parse_array(bytes).map_err(|reason| self.corrupt(format!("array {name:?}: {reason}")))?;
        let (mut shape, dtype, data) = parsed;
        let mut values = match dtype {
            "float32" => widen_f32(data),
            "float16" => widen_f16(data),
            "bfloat16" => widen_bf16(data),
            other => return Err(Error::UnsupportedDtype { name, dtype: other.into() }),
        };
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let width = if dtype == "float32" { 4 } else { 2 };
        if elements.and_then(|elements| elements.checked_mul(width)) != Some(data.len()) {
            let reason = format!("array {name:?}: its shape {shape:?} does not have {} bytes", data.len());
            return Err(self.corrupt(reason));
        }
        check_finite(&name, &values)?;
        if let ([rows, columns], Some("kernel")) = (&shape[..], path.last().map(String::as_str)) {
            values = transpose(&values, *rows, *columns);
            shape.reverse();
        }
        match self.tensors.insert(name.clone(), (shape, values)) {
            None => Ok(()),
            Some(_) => Err(self.corrupt(format!("it has two arrays of the name {name:?}"))),
        }
    }

    fn unsupported(&self, path: &[String]) -> Error {
        let key = path.join(".");
        let reason = format!("{key:?} is not an array of floats; save model.params with flax.serialization");
        Error::UnsupportedWeights { path: self.path.into(), format: FORMAT, reason }
    }
}

/// Returns the shape, the element type and the elements of `[shape, element type, bytes]`.
fn parse_array(mut bytes: &[u8]) -> Result<(Vec<usize>, &str, &[u8]), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if read_array_len(&mut bytes).map_err(|error| text(&error))? != 3 {
        return Err("it does not consist of shape, element type and bytes".into());
    }
    let rank = read_array_len(&mut bytes).map_err(|error| text(&error))?;
    if rank > MAX_RANK {
        return Err(format!("it has {rank} sizes; at most {MAX_RANK} are possible"));
    }
    let size = |_| read_int::<usize, _>(&mut bytes).map_err(|error| text(&error));
    let shape = (0..rank).map(size).collect::<Result<Vec<usize>, String>>()?;
    let (dtype, mut rest) = read_str_from_slice(bytes).map_err(|error| text(&error))?;
    let length = read_bin_len(&mut rest).map_err(|error| text(&error))?;
    match rest.len() == length as usize {
        true => Ok((shape, dtype, rest)),
        false => Err(format!("{} bytes follow instead of {length}", rest.len())),
    }
}

/// Returns the Hugging Face name of the array at these keys.
fn tensor_name(path: &[String]) -> String {
    let parts = path.iter().map(|part| match part.as_str() {
        "kernel" | "scale" | "embedding" => "weight",
        part => part,
    });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `{"a": {"kernel": ARRAY}}` with an array of these bytes.
    fn file(array: &[u8]) -> Vec<u8> {
        let start = [b"\x81\xa1a\x81\xa6kernel\xc7".as_slice(), &[array.len() as u8, 1]].concat();
        [&start, array].concat()
    }

    fn read(bytes: &[u8]) -> Result<NamedTensors, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flax_model.msgpack");
        std::fs::write(&path, bytes).unwrap();
        read_flax(&path)
    }

    #[test]
    fn kernels_are_transposed() {
        let array = [b"\x93\x92\x01\x02\xa7float16\xc4\x04".as_slice(), &[0, 0x3c, 0, 0x40]].concat();
        let tensors = read(&file(&array)).unwrap();
        assert_eq!(tensors["a.weight"], (vec![2, 1], vec![1.0, 2.0]));
    }

    #[test]
    fn forged_files_are_refused() {
        let good = [b"\x93\x91\x02\xa7float16\xc4\x04".as_slice(), &[0, 0x3c, 0, 0x40]].concat();
        assert!(read(&file(&good)).is_ok());
        let with = |from: &[u8], to: &[u8]| {
            let at = good.windows(from.len()).position(|part| part == from).unwrap();
            file(&[&good[..at], to, &good[at + from.len()..]].concat())
        };
        for (what, bytes) in [
            ("it ends early", b"\x81\xa1a\xc9\xff\xff\xff\xff\x01".to_vec()),
            ("at most 256", b"\x81\xdb\xff\xff\xff\xff".to_vec()),
            ("key: failed to read", b"\xdf\xff\xff\xff\xff".to_vec()),
            ("nested", b"\x81\xa1a".repeat(100)),
            ("does not have 4 bytes", with(b"\x91\x02", b"\x91\x03")),
            ("does not have 4 bytes", with(b"\x91\x02", b"\x92\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x02")),
            ("at most 8", with(b"\x91\x02", b"\xdd\xff\xff\xff\xff\x02")),
            ("bytes follow", with(b"\xc4\x04", b"\xc4\x05")),
            ("after the last array", [file(&good), vec![0]].concat()),
        ] {
            let error = read(&bytes).unwrap_err();
            assert!(matches!(error, Error::CorruptWeights { .. }), "{what}: {error}");
            assert!(error.to_string().contains(what), "{what}: {error}");
        }
        let number = read(b"\x81\xa1a\x01").unwrap_err();
        assert!(matches!(number, Error::UnsupportedWeights { .. }), "{number}");
        let integers = read(&with(b"\xa7float16", b"\xa5int16")).unwrap_err();
        assert!(matches!(integers, Error::UnsupportedDtype { .. }), "{integers}");
    }
}
