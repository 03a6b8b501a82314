//! A snapshot of a module's parameters, which is written to a safetensors file tensor by tensor.
//!
//! A [`Snapshot`] shares the memory of a module's parameters. Training may continue: a changed parameter gets new
//! memory, and the snapshot frees the memory of each tensor after writing it. Therefore, saving needs no second copy of
//! the model.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use bert_storage::Class;
use burn::module::Module;
use burn::tensor::Tensor;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::checkpoint::parameter_names::{NamedTensors, is_transposed, transpose, visit_parameters};
use crate::error::Error;

/// A callback that a snapshot calls with the size of a tensor in bytes, after it has freed the tensor.
pub type OnRelease = Arc<dyn Fn(u64) + Send + Sync>;

/// The tensors of a module or of an optimizer at one point in time, sorted by name.
#[derive(Debug, Default)]
pub struct Snapshot {
    tensors: Vec<SavedTensor>,
    /// Whether the metadata of the file contains `format: pt`, which `transformers` requires.
    is_model: bool,
}

struct SavedTensor {
    name: String,
    /// Shape in the published layout.
    shape: Vec<usize>,
    /// Values flattened in burn's layout.
    values: Tensor<1>,
    transposed: bool,
    on_release: Option<OnRelease>,
}

impl fmt::Debug for SavedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.shape)
    }
}

impl SavedTensor {
    fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * size_of::<f32>()) as u64
    }

    fn row_by_row(&self) -> Vec<f32> {
        let data = self.values.clone().into_data_as::<f32>();
        data.try_into_vec().expect("data converted to f32 holds f32")
    }

    /// Returns the values in the published layout.
    fn values(&self) -> Vec<f32> {
        let values = self.row_by_row();
        if self.transposed { transpose(&values, self.shape[1], self.shape[0]) } else { values }
    }
}

impl Drop for SavedTensor {
    fn drop(&mut self) {
        // Free the memory first, because the callback counts it as free.
        if let Some(released) = self.on_release.take() {
            self.values = Tensor::empty([0], &self.values.device());
            released(self.bytes());
        }
    }
}

impl Snapshot {
    /// Returns a snapshot of a module's parameters.
    pub fn new<M: Module>(model: &M) -> Self {
        Self::with_names(model, |_| true)
    }

    /// Returns a snapshot of the parameters whose names `wanted` accepts. The values of other parameters are not read.
    pub(crate) fn with_names<M: Module>(model: &M, wanted: impl Fn(&str) -> bool) -> Self {
        let mut found = Vec::new();
        visit_parameters(model, |name, _, shape, values| {
            if wanted(&name) {
                let transposed = is_transposed(&name, shape.len());
                found.push(SavedTensor { name, shape, values: values(), transposed, on_release: None });
            }
        });
        Self { is_model: true, ..Self::sorted(found) }
    }

    /// Returns a snapshot of flat tensors.
    pub fn from_tensors(tensors: impl IntoIterator<Item = (String, Tensor<1>)>) -> Self {
        let saved = |(name, values): (String, Tensor<1>)| {
            let shape = values.dims().to_vec();
            SavedTensor { name, shape, values, transposed: false, on_release: None }
        };
        Self::sorted(tensors.into_iter().map(saved).collect())
    }

    fn sorted(mut tensors: Vec<SavedTensor>) -> Self {
        // The writer of the `safetensors` crate stores tensors in this order.
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Self { tensors, is_model: false }
    }

    /// Sets the callback `released`, which the snapshot calls when it releases a tensor.
    #[must_use]
    pub fn with_on_release(mut self, released: &OnRelease) -> Self {
        for tensor in &mut self.tensors {
            tensor.on_release = Some(Arc::clone(released));
        }
        self
    }

    /// Returns the size of all tensors in bytes, in f32.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(SavedTensor::bytes).sum()
    }

    /// Returns the size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        8 + self.header().len() as u64 + self.bytes()
    }

    /// Checks that no tensor contains NaN or infinity.
    ///
    /// # Errors
    /// Fails when a value is NaN or infinite; the error names the parameter.
    pub fn check_finite(&self) -> Result<(), Error> {
        for tensor in &self.tensors {
            if let Some(value) = tensor.row_by_row().into_iter().find(|value| !value.is_finite()) {
                return Err(Error::new(
                    Class::Numerical,
                    format!(
                        "parameter `{}` contains {value}, so the model was not saved; resume from an earlier \
                         checkpoint with a lower learning rate",
                        tensor.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Returns the values, copied to the host, in the published layout.
    pub fn to_named_tensors(&self) -> NamedTensors {
        let named = |tensor: &SavedTensor| (tensor.name.clone(), (tensor.shape.clone(), tensor.values()));
        self.tensors.iter().map(named).collect()
    }

    /// Writes a safetensors file and frees each tensor after it is written. Equal values give equal bytes.
    ///
    /// # Errors
    /// Returns any I/O error of the writer.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let header = self.header();
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        let mut bytes: Vec<u8> = Vec::new();
        for tensor in self.tensors {
            for values in tensor.values().chunks(1 << 18) {
                bytes.resize(size_of_val(values), 0);
                for (bytes, value) in bytes.chunks_exact_mut(4).zip(values) {
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
                out.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    fn header(&self) -> Vec<u8> {
        let mut end = 0;
        let infos = self.tensors.iter().map(|tensor| {
            let start = end;
            end += tensor.bytes() as usize;
            let shape = tensor.shape.clone();
            let data_offsets = (start, end);
            (tensor.name.clone(), TensorInfo { dtype: Dtype::F32, shape, data_offsets })
        });
        let metadata = self.is_model.then(|| HashMap::from([("format".to_string(), "pt".to_string())]));
        let metadata = Metadata::new(metadata, infos.collect()).expect("shapes and offsets agree");
        let mut header = serde_json::to_vec(&metadata).expect("metadata is valid JSON");
        header.resize(header.len().next_multiple_of(8), b' ');
        header
    }
}

/// Returns the values of every parameter, copied to the host, in the published layout.
pub fn to_named_tensors<M: Module>(model: &M) -> NamedTensors {
    Snapshot::new(model).to_named_tensors()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use burn::tensor::Device;

    use super::*;
    use crate::checkpoint::safetensors::named_tensors_to_bytes;
    use crate::{Architecture, BertConfig, BertForPreTraining, Preset};

    fn bytes(snapshot: Snapshot) -> Vec<u8> {
        let mut bytes = Vec::new();
        snapshot.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn file_equals_the_safetensors_crate_output() {
        let config = BertConfig::preset(Preset::Tiny, 50);
        let model = BertForPreTraining::new(&config, 1, &Device::flex());
        let snapshot = Snapshot::new(&model);
        let named = snapshot.to_named_tensors();
        let size = snapshot.file_bytes();
        let bytes = bytes(snapshot);
        assert_eq!(bytes.len() as u64, size);
        assert!(bytes == named_tensors_to_bytes(&named));
    }

    #[test]
    fn written_tensors_are_released() {
        let device = Device::flex();
        let tensors = [("b", 3), ("a", 5)].map(|(name, n)| (name.to_string(), Tensor::ones([n], &device)));
        let released = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&released);
        let on_release: OnRelease = Arc::new(move |bytes| note.lock().unwrap().push(bytes));
        let snapshot = Snapshot::from_tensors(tensors).with_on_release(&on_release);
        assert_eq!(snapshot.bytes(), 32);
        snapshot.check_finite().unwrap();
        assert!(released.lock().unwrap().is_empty());
        bytes(snapshot);
        assert_eq!(*released.lock().unwrap(), [20, 12]);
    }
}
