//! Reads `pytorch_model.bin`: a dictionary of tensors as `torch.save` writes it.
//!
//! Since PyTorch 1.6 the file is a zip archive: `NAME/data.pkl` is the pickle of the dictionary, and `NAME/data/KEY`
//! has the elements of the storage KEY, uncompressed. Older files begin with five pickles in a row: a magic number, the
//! version of the format, a description of the machine, the dictionary and the list of keys. For each key, the number
//! of elements in 8 bytes and the elements follow. Source: `torch/serialization.py`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::checkpoint::parameter_names::NamedTensors;
use crate::checkpoint::pickle::{Element, MAX_PICKLE_BYTES, Pickle, PickleError, Storage, TensorView, Value};
use crate::checkpoint::safetensors::{check_finite, widen_bf16, widen_f16, widen_f32};
use crate::error::{Error, damaged_weights, no_float, unsupported_weights};

const FORMAT: &str = "PyTorch";

/// The magic number of files without a zip archive, in little-endian order.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Reads a dictionary of tensors, converted to f32. Builds tensors only: no code of the file is run.
///
/// # Errors
/// Fails when the file cannot be read, when it is damaged, when its elements are in big-endian order, when it contains
/// a class or an opcode that a dictionary of tensors does not need, or when a tensor has elements other than floats or
/// holds NaN or infinity.
pub fn read_pytorch(path: &Path) -> Result<NamedTensors, Error> {
    let mut reader = Reader { path, length: 0 };
    let file = File::open(path).map_err(|e| reader.io(e))?;
    reader.length = file.metadata().map_err(|e| reader.io(e))?.len();
    let mut file = BufReader::new(file);
    let mut start = [0; 4];
    let is_zip = file.read_exact(&mut start).is_ok() && start == *b"PK\x03\x04";
    file.rewind().map_err(|e| reader.io(e))?;
    if is_zip { reader.zip(file) } else { reader.legacy(file) }
}

/// A reader of one file; its errors name the file.
struct Reader<'a> {
    path: &'a Path,
    /// Size of the file in bytes.
    length: u64,
}

/// A function that returns the elements of a storage, given the storage and its size in bytes.
type ReadStorage<'f> = dyn FnMut(&Storage<'_>, u64) -> Result<Vec<u8>, Error> + 'f;

impl Reader<'_> {
    fn io(&self, source: std::io::Error) -> Error {
        match source.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt("it ends early"),
            _ => Error::io("read", self.path)(source),
        }
    }

    fn corrupt(&self, reason: impl std::fmt::Display) -> Error {
        damaged_weights(FORMAT, reason).at(self.path)
    }

    fn unsupported(&self, reason: impl std::fmt::Display) -> Error {
        unsupported_weights(FORMAT, reason).at(self.path)
    }

    fn zip_error(&self, error: ZipError) -> Error {
        match error {
            ZipError::Io(source) => self.io(source),
            other => self.corrupt(other.to_string()),
        }
    }

    fn pickle<'p>(&self, bytes: &'p [u8]) -> Result<Pickle<'p>, Error> {
        Pickle::parse(bytes).map_err(|error| match error {
            PickleError::Damaged(reason) => self.corrupt(reason),
            PickleError::Refused(name) => self.unsupported(format!(
                "its pickle contains {name}, which a dictionary of tensors does not need and which is not run; save \
                 model.state_dict()"
            )),
        })
    }

    fn zip(&self, file: BufReader<File>) -> Result<NamedTensors, Error> {
        let archive = ZipArchive::new(file).map_err(|e| self.zip_error(e))?;
        let pickles: Vec<&str> = archive.file_names().filter(|name| name.ends_with("/data.pkl")).collect();
        let [name] = pickles[..] else {
            return Err(
                self.corrupt(format!("it has {} entries named data.pkl instead of one", pickles.len()))
            );
        };
        let folder = name.trim_end_matches("data.pkl").to_string();
        let mut entries = ZipEntries { reader: self, archive, folder };
        if entries.has("byteorder") && entries.entry("byteorder", 16)? != b"little" {
            return Err(self.unsupported("its elements are in big-endian order"));
        }
        let bytes = entries.entry("data.pkl", MAX_PICKLE_BYTES)?;
        self.tensors(&self.pickle(&bytes)?, &mut |storage, bytes| entries.read(storage, bytes))
    }

    fn legacy(&self, mut file: BufReader<File>) -> Result<NamedTensors, Error> {
        let mut bytes = Vec::new();
        file.by_ref().take(MAX_PICKLE_BYTES).read_to_end(&mut bytes).map_err(|e| self.io(e))?;
        if !bytes.starts_with(&[0x80]) {
            return Err(self.corrupt("it is neither a zip archive nor a pickle"));
        }
        let mut at = 0;
        let mut next = || {
            let pickle = self.pickle(&bytes[at..])?;
            at += pickle.length;
            Ok::<_, Error>(pickle)
        };
        let magic = next()?;
        let version = next()?;
        let machine = next()?;
        let dictionary = next()?;
        let keys = next()?;
        let is_magic = matches!(magic.root, Value::Bytes(magic) if magic == MAGIC);
        if !is_magic || !matches!(version.root, Value::Int(1001)) {
            return Err(self.unsupported("it is a pickle, but not a file of torch.save"));
        }
        let is_little = |(key, value): &(Value<'_>, Value<'_>)| {
            matches!((key, value), (Value::Text("little_endian"), Value::Bool(true)))
        };
        if !machine.entries(machine.root).is_some_and(|entries| entries.iter().any(is_little)) {
            return Err(self.unsupported("its elements are not in little-endian order"));
        }
        let mut storages = LegacyStorages { reader: self, file, places: BTreeMap::new() };
        storages.find(at as u64, &dictionary, &keys)?;
        self.tensors(&dictionary, &mut |storage, bytes| storages.read(storage, bytes))
    }

    /// Returns the tensors of a dictionary.
    fn tensors(&self, pickle: &Pickle<'_>, read: &mut ReadStorage<'_>) -> Result<NamedTensors, Error> {
        let mut tensors = NamedTensors::new();
        let used = self.used_storages(pickle)?;
        // Entries of an archive can overlap, so the file can be large enough for each entry and too small for their
        // sum.
        let sizes = used.values().map(|used| used.storage.count.saturating_mul(used.storage.element.bytes));
        let stated = sizes.fold(0, usize::saturating_add);
        if stated as u64 > self.length {
            return Err(self.corrupt(format!("its storages have {stated} bytes, more than the file")));
        }
        for UsedStorage { storage, views } in used.into_values() {
            let Some(bytes) = storage.count.checked_mul(storage.element.bytes) else {
                return Err(self.corrupt(format!("the storage {:?} is too large", storage.key)));
            };
            self.check_shared(&storage, &views)?;
            let elements = read(&storage, bytes as u64)?;
            let values = widen(storage.element, &elements)
                .ok_or_else(|| no_float(views[0].0, storage.element.class))?;
            drop(elements);
            for (name, view) in views {
                let values = gather(view, &values).expect("checked");
                check_finite(name, &values)?;
                if tensors.insert(name.into(), (view.shape.clone(), values)).is_some() {
                    return Err(self.corrupt(format!("two tensors are named {name:?}")));
                }
            }
        }
        Ok(tensors)
    }

    /// Returns the storages of a dictionary's tensors, by key.
    fn used_storages<'p>(&self, pickle: &'p Pickle<'p>) -> Result<BTreeMap<&'p str, UsedStorage<'p>>, Error> {
        let entries = pickle.entries(pickle.root).ok_or_else(|| {
            self.unsupported(
                "it contains a value that is not a dictionary of tensors; save model.state_dict()",
            )
        })?;
        let mut used: BTreeMap<&str, UsedStorage<'_>> = BTreeMap::new();
        for entry in entries {
            let (Value::Text(name), Value::Tensor(tensor)) = *entry else {
                let name = if let Value::Text(name) = entry.0 { name } else { "a number" };
                let name: String = name.chars().take(80).collect();
                let reason = format!("the value of {name:?} is not a tensor; save model.state_dict()");
                return Err(self.unsupported(reason));
            };
            // This is an integer buffer of older versions of `transformers`, not a parameter.
            if name.ends_with("embeddings.position_ids") {
                continue;
            }
            let view = &pickle.tensors[tensor];
            let storage = pickle.storages[view.storage];
            let known = used.entry(storage.key).or_insert(UsedStorage { storage, views: Vec::new() });
            if (known.storage.count, known.storage.element) != (storage.count, storage.element) {
                return Err(self.corrupt(format!("the storage {:?} has two sizes", storage.key)));
            }
            known.views.push((name, view));
        }
        Ok(used)
    }

    /// Checks that the tensors of a storage are inside it, and that their sizes add up to at most [`MAX_SHARED`] times
    /// the size of the storage. Tied weights are two tensors on one storage.
    fn check_shared(&self, storage: &Storage<'_>, views: &[(&str, &TensorView)]) -> Result<(), Error> {
        let mut total = 0usize;
        for (name, view) in views {
            let count =
                extent(view).filter(|extent| extent.end <= storage.count).map(|extent| extent.elements);
            let Some(count) = count else {
                return Err(self.corrupt(format!("the tensor {name:?} is larger than its storage")));
            };
            total = total.saturating_add(count);
        }
        if total > storage.count.saturating_mul(MAX_SHARED) {
            Err(self.unsupported(format!(
                "{} tensors share the storage {:?}, more than {MAX_SHARED} times its size",
                views.len(),
                storage.key
            )))
        } else {
            Ok(())
        }
    }
}

/// A storage, and the names and views of the tensors on it.
struct UsedStorage<'p> {
    storage: Storage<'p>,
    views: Vec<(&'p str, &'p TensorView)>,
}

/// Maximum size of all tensors on one storage, in multiples of the storage.
const MAX_SHARED: usize = 4;

/// The part of a storage that a tensor uses.
struct Extent {
    /// Number of elements of the tensor.
    elements: usize,
    /// Index that follows the tensor's last element in the storage.
    end: usize,
}

/// Returns the extent of a tensor, or `None` if its shape and strides are inconsistent.
fn extent(view: &TensorView) -> Option<Extent> {
    if view.shape.len() != view.strides.len() {
        return None;
    }
    let elements = view.shape.iter().try_fold(1usize, |product, n| product.checked_mul(*n))?;
    if elements == 0 {
        return Some(Extent { elements, end: 0 });
    }
    let mut last = view.offset;
    for (n, stride) in view.shape.iter().zip(&view.strides) {
        last = last.checked_add((n - 1).checked_mul(*stride)?)?;
    }
    let end = last.checked_add(1)?;
    // A tensor that repeats elements, such as a result of `expand`, can have more elements than its storage and is
    // rejected.
    (elements <= end).then_some(Extent { elements, end })
}

/// Copies the elements of a tensor in row-major order.
fn gather(view: &TensorView, storage: &[f32]) -> Option<Vec<f32>> {
    let Extent { elements, .. } = extent(view)?;
    let mut values = Vec::with_capacity(elements);
    let mut at = vec![0; view.shape.len()];
    while values.len() < elements {
        let place: usize = at.iter().zip(&view.strides).map(|(i, stride)| i * stride).sum();
        values.push(*storage.get(view.offset + place)?);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < view.shape[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    Some(values)
}

/// Converts little-endian elements to f32; `None` for types other than f32, f16 and bf16.
fn widen(element: Element, bytes: &[u8]) -> Option<Vec<f32>> {
    match element.class {
        "FloatStorage" => Some(widen_f32(bytes)),
        "HalfStorage" => Some(widen_f16(bytes)),
        "BFloat16Storage" => Some(widen_bf16(bytes)),
        _ => None,
    }
}

/// The entries of a zip archive.
struct ZipEntries<'a> {
    reader: &'a Reader<'a>,
    archive: ZipArchive<BufReader<File>>,
    /// The beginning of every entry's name.
    folder: String,
}

impl ZipEntries<'_> {
    fn has(&self, name: &str) -> bool {
        let path = format!("{}{name}", self.folder);
        self.archive.file_names().any(|entry| entry == path)
    }

    /// Returns the bytes of an entry.
    fn entry(&mut self, name: &str, maximum: u64) -> Result<Vec<u8>, Error> {
        let reader = self.reader;
        let path = format!("{}{name}", self.folder);
        let Some(index) = self.archive.index_for_name(&path) else {
            return Err(reader.corrupt(format!("the entry {path:?} is missing")));
        };
        // The `zip` crate is compiled without decompression, so the method is checked before the entry is opened.
        let method = self.archive.by_index_raw(index).map_err(|e| reader.zip_error(e))?.compression();
        if method != CompressionMethod::Stored {
            return Err(reader.unsupported(format!("the entry {path:?} is compressed")));
        }
        let entry = self.archive.by_index(index).map_err(|e| reader.zip_error(e))?;
        if entry.size() > maximum {
            return Err(
                reader.corrupt(format!("the entry {path:?} has {} bytes, more than {maximum}", entry.size()))
            );
        }
        let mut bytes = Vec::new();
        // The `zip` crate checks the CRC-32 at the end of an entry.
        entry.take(maximum + 1).read_to_end(&mut bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::Other | std::io::ErrorKind::InvalidData => {
                reader.corrupt(format!("the entry {path:?}: {e}"))
            }
            _ => reader.io(e),
        })?;
        Ok(bytes)
    }

    fn read(&mut self, storage: &Storage<'_>, bytes: u64) -> Result<Vec<u8>, Error> {
        let elements = self.entry(&format!("data/{}", storage.key), bytes)?;
        if elements.len() as u64 == bytes {
            Ok(elements)
        } else {
            Err(self.reader.corrupt(format!(
                "the storage {:?} has {} bytes instead of {bytes}",
                storage.key,
                elements.len()
            )))
        }
    }
}

/// The storages of a file without a zip archive.
struct LegacyStorages<'a> {
    reader: &'a Reader<'a>,
    file: BufReader<File>,
    /// Offset of the elements in the file, by key.
    places: BTreeMap<String, u64>,
}

impl LegacyStorages<'_> {
    /// Finds the offsets of all storages. The first begins at `place`, and the dictionary states their sizes.
    fn find(&mut self, mut place: u64, dictionary: &Pickle<'_>, keys: &Pickle<'_>) -> Result<(), Error> {
        let reader = self.reader;
        let stated: BTreeMap<&str, &Storage<'_>> =
            dictionary.storages.iter().map(|storage| (storage.key, storage)).collect();
        let keys = keys.elements(keys.root).map_err(|_| reader.corrupt("it has no list of storages"))?;
        for key in keys {
            let storage = match key {
                Value::Text(key) => stated.get(key),
                _ => None,
            };
            let Some(storage) = storage else {
                return Err(reader.corrupt("it lists a storage that the dictionary does not have"));
            };
            self.file.seek(SeekFrom::Start(place)).map_err(|e| reader.io(e))?;
            let mut count = [0; 8];
            self.file.read_exact(&mut count).map_err(|e| reader.io(e))?;
            place += 8;
            let bytes = (storage.count as u64).checked_mul(storage.element.bytes as u64);
            let end = bytes.and_then(|bytes| place.checked_add(bytes)).filter(|end| *end <= reader.length);
            let (true, Some(end)) = (u64::from_le_bytes(count) == storage.count as u64, end) else {
                return Err(reader.corrupt(format!("the storage {:?} is not complete", storage.key)));
            };
            self.places.insert(storage.key.to_string(), place);
            place = end;
        }
        Ok(())
    }

    fn read(&mut self, storage: &Storage<'_>, bytes: u64) -> Result<Vec<u8>, Error> {
        let reader = self.reader;
        let Some(place) = self.places.get(storage.key) else {
            return Err(reader.corrupt(format!("the storage {:?} is missing", storage.key)));
        };
        self.file.seek(SeekFrom::Start(*place)).map_err(|e| reader.io(e))?;
        let mut elements = vec![0; bytes as usize]; // `find` has checked the length of the file
        self.file.read_exact(&mut elements).map_err(|e| reader.io(e))?;
        Ok(elements)
    }
}
