//! Reads a TensorFlow checkpoint of google-research/bert: `PREFIX.index` and `PREFIX.data-00000-of-00001`.
//!
//! The index is a table ([`crate::checkpoint::sstable`]) from the name of a variable to a `BundleEntryProto`: element
//! type, shape, and the place of its elements in one of the data files. The entry with the empty name is the
//! `BundleHeaderProto`. Source: `tensorflow/core/protobuf/tensor_bundle.proto` and
//! `tensorflow/core/util/tensor_bundle/tensor_bundle.cc`.
//!
//! Variables get the names of Hugging Face, and the kernels of dense layers, `[in, out]` in TensorFlow, are transposed.
//! The variables of the optimizer are not read.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::checkpoint::parameter_names::{NamedTensors, transpose};
use crate::checkpoint::safetensors::{check_finite, widen_bf16, widen_f16, widen_f32};
use crate::checkpoint::sstable::{Cursor, Entry, MAX_TABLE_BYTES, masked_crc, read_sstable};
use crate::error::{Error, damaged_weights, no_float, tensor_twice, unsupported_weights};

const FORMAT: &str = "TensorFlow";

/// Maximum number of data files.
const MAX_SHARDS: u64 = 1000;

/// Returns a path with text appended to its last component.
pub(crate) fn appended(prefix: &Path, end: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Returns the data files of a checkpoint, from its index.
///
/// # Errors
/// Fails when the index cannot be read, when it is damaged, or when the checkpoint has TensorFlow 2's object form or
/// partitioned variables.
pub(crate) fn data_files(prefix: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(Index::read(prefix)?.data)
}

/// Reads the weights with the common prefix `prefix`, converted to f32.
///
/// # Errors
/// Fails when a file cannot be read, when the checkpoint is damaged, when it has TensorFlow 2's object form or
/// partitioned variables, when two names in it refer to one parameter, or when a tensor has elements other than floats
/// or holds NaN or infinity.
pub fn read_tensorflow(prefix: &Path) -> Result<NamedTensors, Error> {
    let index = Index::read(prefix)?;
    let mut files = Vec::new();
    let mut left = 0;
    for path in &index.data {
        let io = |source| Error::io("read", path)(source);
        let file = File::open(path).map_err(io)?;
        left += file.metadata().map_err(io)?.len();
        files.push((path, file));
    }
    let mut tensors = NamedTensors::new();
    for Variable { name, place } in &index.variables {
        // The variables together are larger than the files only if variables overlap or an entry is wrong.
        left = left
            .checked_sub(place.bytes)
            .ok_or_else(|| index.corrupt("its variables are larger than its data files"))?;
        let (path, file) =
            usize::try_from(place.shard).ok().and_then(|at| files.get_mut(at)).ok_or_else(|| {
                index.corrupt(format!(
                    "the variable {name:?} is in data file {}, which does not exist",
                    place.shard
                ))
            })?;
        let (shape, values) = place.read(name, path, file)?;
        let tensor = tensor_name(name);
        check_finite(&tensor, &values)?;
        if tensors.contains_key(&tensor) {
            return Err(tensor_twice(&tensor));
        }
        tensors.insert(tensor, (shape, values));
    }
    Ok(tensors)
}

/// The index of a checkpoint.
struct Index {
    path: PathBuf,
    data: Vec<PathBuf>,
    variables: Vec<Variable>,
}

struct Variable {
    name: String,
    place: Place,
}

impl Index {
    fn corrupt(&self, reason: impl Display) -> Error {
        corrupt(&self.path, reason)
    }

    fn read(prefix: &Path) -> Result<Self, Error> {
        let path = appended(prefix, ".index");
        let io = |source| Error::io("read", &path)(source);
        let file = File::open(&path).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(MAX_TABLE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_TABLE_BYTES {
            return Err(corrupt(&path, format!("it has more than {MAX_TABLE_BYTES} bytes")));
        }
        let mut found = Self { path, data: Vec::new(), variables: Vec::new() };
        let entries = read_sstable(&bytes).map_err(|reason| found.corrupt(reason))?;
        let header = entries.first().filter(|entry| entry.key.is_empty());
        let shards = shard_count(&header.ok_or_else(|| found.corrupt("it has no header"))?.value)
            .map_err(|reason| found.corrupt(reason))?;
        found.data =
            (0..shards).map(|at| appended(prefix, &format!(".data-{at:05}-of-{shards:05}"))).collect();
        for Entry { key, value } in &entries[1..] {
            let name = String::from_utf8_lossy(key).into_owned();
            if name == "_CHECKPOINTABLE_OBJECT_GRAPH" {
                let reason = "it was written by tf.train.Checkpoint of TensorFlow 2; only checkpoints of \
                              google-research/bert (tf.train.Saver) are supported";
                return Err(found.unsupported(reason));
            }
            if is_of_optimizer(&name) {
                continue;
            }
            let place =
                Place::parse(value).map_err(|e| found.corrupt(format!("the variable {name:?}: {e}")))?;
            if place.has_slices {
                return Err(found.unsupported(format!("the variable {name:?} is partitioned")));
            }
            found.variables.push(Variable { name, place });
        }
        Ok(found)
    }

    fn unsupported(&self, reason: impl Display) -> Error {
        unsupported_weights(FORMAT, reason).at(&self.path)
    }
}

fn corrupt(path: &Path, reason: impl Display) -> Error {
    damaged_weights(FORMAT, reason).at(path)
}

/// The position and the form in which a variable is stored: a `BundleEntryProto`.
#[derive(Default)]
struct Place {
    dtype: u64,
    shape: Vec<usize>,
    shard: u64,
    offset: u64,
    bytes: u64,
    crc: u32,
    has_slices: bool,
}

impl Place {
    fn parse(message: &[u8]) -> Result<Self, String> {
        let mut place = Self::default();
        for field in fields(message)? {
            match field {
                (1, Field::Number(n)) => place.dtype = n,
                (2, Field::Bytes(shape)) => place.shape = parse_shape(shape)?,
                (3, Field::Number(n)) => place.shard = n,
                (4, Field::Number(n)) => place.offset = n,
                (5, Field::Number(n)) => place.bytes = n,
                (6, Field::Fixed32(crc)) => place.crc = crc,
                (7, _) => place.has_slices = true,
                _ => {}
            }
        }
        Ok(place)
    }

    /// Reads the elements. Returns the shape and the values in the layout of Hugging Face.
    fn read(&self, name: &str, path: &Path, file: &mut File) -> Result<(Vec<usize>, Vec<f32>), Error> {
        let io = |source| Error::io("read", path)(source);
        let length = file.metadata().map_err(io)?.len();
        let (widen, width) = match self.dtype {
            1 => (widen_f32 as fn(&[u8]) -> Vec<f32>, 4usize),
            14 => (widen_bf16 as fn(&[u8]) -> Vec<f32>, 2),
            19 => (widen_f16 as fn(&[u8]) -> Vec<f32>, 2),
            other => {
                let dtype = format!("number {other} of tensorflow/core/framework/types.proto");
                return Err(no_float(name, dtype));
            }
        };
        let stated = self.shape.iter().try_fold(width, |bytes, n| bytes.checked_mul(*n));
        if stated.is_none_or(|stated| stated as u64 != self.bytes) {
            let shape = &self.shape;
            return Err(corrupt(
                path,
                format!("the variable {name:?} of shape {shape:?} has {} bytes", self.bytes),
            ));
        }
        if self.offset.checked_add(self.bytes).is_none_or(|end| end > length) {
            return Err(corrupt(path, format!("the variable {name:?} ends after the file")));
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        let mut bytes = vec![0; self.bytes as usize];
        file.read_exact(&mut bytes).map_err(io)?;
        if masked_crc(&[&bytes]) != self.crc {
            return Err(corrupt(path, format!("the checksum of the variable {name:?} is wrong")));
        }
        let mut shape = self.shape.clone();
        let mut values = widen(&bytes);
        if let ([rows, columns], true) = (&shape[..], name.ends_with("/kernel")) {
            values = transpose(&values, *rows, *columns);
            shape.reverse();
        }
        Ok((shape, values))
    }
}

/// Returns the number of data files from a `BundleHeaderProto`.
fn shard_count(header: &[u8]) -> Result<u64, String> {
    let mut shards = 0;
    for field in fields(header)? {
        match field {
            (1, Field::Number(n)) => shards = n,
            (2, Field::Number(n)) if n != 0 => return Err("its elements are in big-endian order".into()),
            _ => {}
        }
    }
    match shards {
        1..=MAX_SHARDS => Ok(shards),
        other => Err(format!("it has {other} data files; 1 to {MAX_SHARDS} are possible")),
    }
}

/// Returns the sizes of a `TensorShapeProto`.
fn parse_shape(message: &[u8]) -> Result<Vec<usize>, String> {
    let mut shape = Vec::new();
    for field in fields(message)? {
        if let (2, Field::Bytes(dim)) = field {
            let mut size = 0;
            for field in fields(dim)? {
                if let (1, Field::Number(n)) = field {
                    size = usize::try_from(n).map_err(|_| "a size is too large")?;
                }
            }
            shape.push(size);
        }
    }
    Ok(shape)
}

/// The value of a field of a protocol buffer.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
    Fixed64,
}

/// Returns the number and value of each field of a message. Source: the encoding of protocol buffers.
fn fields(message: &[u8]) -> Result<Vec<(u64, Field<'_>)>, String> {
    let mut cursor = Cursor(message);
    let mut fields = Vec::new();
    while !cursor.0.is_empty() {
        let tag = cursor.varint()?;
        let field = match tag & 7 {
            0 => Field::Number(cursor.varint()?),
            1 => cursor.take(8).map(|_| Field::Fixed64)?,
            2 => {
                let length = cursor.length()?;
                Field::Bytes(cursor.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(cursor.take(4)?.try_into().expect("4 bytes"))),
            other => return Err(format!("a field has the unknown wire type {other}")),
        };
        fields.push((tag >> 3, field));
    }
    Ok(fields)
}

/// Returns whether a variable belongs to the optimizer or counts steps.
fn is_of_optimizer(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    const SLOTS: [&str; 10] = [
        "adam_m",
        "adam_v",
        "Adam",
        "Adam_1",
        "AdamWeightDecayOptimizer",
        "AdamWeightDecayOptimizer_1",
        "lamb_m",
        "lamb_v",
        "beta1_power",
        "beta2_power",
    ];
    SLOTS.contains(&last) || last == "global_step"
}

/// Returns the Hugging Face name of a variable of google-research/bert.
pub(crate) fn tensor_name(variable: &str) -> String {
    match variable {
        "cls/predictions/output_bias" => return "cls.predictions.bias".into(),
        "cls/seq_relationship/output_weights" => return "cls.seq_relationship.weight".into(),
        "cls/seq_relationship/output_bias" => return "cls.seq_relationship.bias".into(),
        "cls/squad/output_weights" => return "qa_outputs.weight".into(),
        "cls/squad/output_bias" => return "qa_outputs.bias".into(),
        "output_weights" => return "classifier.weight".into(),
        "output_bias" => return "classifier.bias".into(),
        _ => {}
    }
    let parts = variable.split('/').map(|part| match part.strip_prefix("layer_") {
        Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => format!("layer.{number}"),
        _ => match part {
            "kernel" | "gamma" => "weight".to_string(),
            "beta" => "bias".to_string(),
            part if part.ends_with("_embeddings") => format!("{part}.weight"),
            part => part.to_string(),
        },
    });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::sstable::tests::table;

    #[test]
    fn variables_get_published_names() {
        for (variable, tensor) in [
            ("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
            ("bert/embeddings/LayerNorm/gamma", "bert.embeddings.LayerNorm.weight"),
            (
                "bert/encoder/layer_11/attention/self/query/kernel",
                "bert.encoder.layer.11.attention.self.query.weight",
            ),
            ("bert/encoder/layer_0/output/LayerNorm/beta", "bert.encoder.layer.0.output.LayerNorm.bias"),
            ("cls/predictions/transform/dense/kernel", "cls.predictions.transform.dense.weight"),
            ("cls/predictions/output_bias", "cls.predictions.bias"),
            ("output_weights", "classifier.weight"),
        ] {
            assert_eq!(tensor_name(variable), tensor);
        }
        assert!(is_of_optimizer("bert/pooler/dense/kernel/adam_m") && is_of_optimizer("global_step"));
        assert!(!is_of_optimizer("bert/pooler/dense/kernel"));
    }

    /// `num_shards: 1`.
    const HEADER: &[u8] = &[8, 1];

    /// Returns a field of a message: a number.
    fn number(field: u8, mut value: u64) -> Vec<u8> {
        let mut bytes = vec![field << 3];
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    /// Returns an entry of the index: f32 of shape `[size]` at `offset`.
    fn place(size: u64, offset: u64, bytes: u64) -> Vec<u8> {
        let dim = number(1, size);
        let dim = [&[0x12, dim.len() as u8][..], &dim].concat();
        let shape = [&[0x12, dim.len() as u8][..], &dim].concat();
        let crc = [&[0x35][..], &masked_crc(&[&[0; 8]]).to_le_bytes()].concat();
        [number(1, 1), shape, number(4, offset), number(5, bytes), crc].concat()
    }

    /// Reads a checkpoint with these entries and eight bytes of data.
    fn read(entries: &[(&[u8], &[u8])]) -> Result<NamedTensors, Error> {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("model.ckpt");
        std::fs::write(appended(&prefix, ".index"), table(entries, true)).unwrap();
        std::fs::write(appended(&prefix, ".data-00000-of-00001"), [0; 8]).unwrap();
        read_tensorflow(&prefix)
    }

    #[test]
    fn forged_places_are_refused() {
        let good = read(&[(b"", HEADER), (b"bert/a", &place(2, 0, 8))]).unwrap();
        assert_eq!(good["bert.a"], (vec![2], vec![0.0; 2]));
        for (what, forged) in [
            ("has 8 bytes", place(3, 0, 8)),
            ("are larger than its data files", place(1 << 60, 0, 1 << 62)),
            ("ends after the file", place(2, 1, 8)),
            ("ends after the file", place(2, u64::MAX, 8)),
            ("checksum", place(1, 0, 4)),
            ("a field is longer", vec![0x12, 100]),
        ] {
            let error = read(&[(b"", HEADER), (b"bert/a", &forged)]).unwrap_err();
            assert!(error.to_string().contains("; copy or download it again"), "{what}: {error}");
            assert!(error.to_string().contains(what), "{what}: {error}");
        }
        let overlap = place(2, 0, 8);
        let error = read(&[(b"", HEADER), (b"a", &overlap), (b"b", &overlap)]).unwrap_err();
        assert!(error.to_string().contains("larger than its data files"), "{error}");
        for header in [&[8, 0][..], &[8, 0xff, 0xff, 3], &[8, 1, 16, 1]] {
            assert!(
                read(&[(b"", header)])
                    .as_ref()
                    .is_err_and(|error| error.to_string().contains("; copy or download it again"))
            );
        }
    }

    #[test]
    fn unsupported_checkpoints_name_the_reason() {
        let graph: &[u8] = b"_CHECKPOINTABLE_OBJECT_GRAPH";
        let partitioned = [place(2, 0, 8), vec![0x3a, 0]].concat();
        for (key, value, reason) in [
            (graph, &b""[..], "tf.train.Checkpoint of TensorFlow 2"),
            (b"bert/a", &partitioned, "\"bert/a\" is partitioned"),
        ] {
            let error = read(&[(b"", HEADER), (key, value)]).unwrap_err();
            assert!(error.to_string().contains("file is not supported:"), "{error}");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let text = [number(1, 7), number(4, 0), number(5, 8)].concat();
        let error = read(&[(b"", HEADER), (b"a", &text)]).unwrap_err();
        assert!(error.to_string().contains("; save it as f32, f16 or bf16"), "{error}");
    }
}
