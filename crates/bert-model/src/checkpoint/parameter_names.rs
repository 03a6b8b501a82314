//! Reads and sets a module's parameters in the layout of Hugging Face's checkpoints, with their names and shapes.
//!
//! A module's path is the published name except for ten substitutions ([`hf_name`]). The only difference in layout is
//! the dense weight: `[out, in]` in a checkpoint, `[in, out]` in burn.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Tensor, TensorData};

/// The shape and values of each tensor in the published layout, by published name.
pub type NamedTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Returns the published name of the parameter at a module path:
/// `bert.encoder.layer.0.attention.self_attention.query.weight` is
/// `bert.encoder.layer.0.attention.self.query.weight`, and `layer_norm.gamma` is `LayerNorm.weight`.
pub fn hf_name(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('.')
        .map(|part| match part {
            "self_attention" => "self", // a keyword in Rust
            "layer_norm" => "LayerNorm",
            "gamma" => "weight",
            "beta" => "bias",
            "lora_a" => "lora_A",
            "lora_b" => "lora_B",
            // No class of `transformers` has this head, so `transformers` must not load it as a classifier.
            "head_classifier" => "head.classifier",
            // Variants of `FeatureHead`.
            "Mlp" => "dense",
            "Gru" => "gru",
            "BiLstm" => "lstm",
            part => part,
        })
        .collect();
    parts.join(".")
}

/// Returns the name that a parameter has in a model with heads, where names of the encoder begin with `bert.`.
pub(crate) fn canonical(name: &str) -> String {
    let bare = ["embeddings.", "encoder.", "pooler."];
    if bare.iter().any(|prefix| name.starts_with(prefix)) { format!("bert.{name}") } else { name.to_string() }
}

/// Renames every tensor.
pub(crate) fn rename_tensors(tensors: NamedTensors, name: impl Fn(&str) -> String) -> NamedTensors {
    tensors.into_iter().map(|(old, tensor)| (name(&old), tensor)).collect()
}

/// Returns whether burn stores this tensor transposed: true for dense weights, false for embedding tables and vectors.
pub fn is_transposed(name: &str, rank: usize) -> bool {
    rank == 2 && !name.ends_with("_embeddings.weight")
}

/// Returns the published name, id and published shape of every parameter, in the order of the module's fields.
pub fn named_parameters<M: Module>(model: &M) -> Vec<(String, ParamId, Vec<usize>)> {
    let mut found = Vec::new();
    visit_parameters(model, |name, id, shape, _| found.push((name, id, shape)));
    found
}

/// Calls `f` with the published name, id and published shape of every parameter, and a function that returns its values
/// flattened in burn's layout.
pub(crate) fn visit_parameters<M: Module>(
    model: &M,
    mut f: impl FnMut(String, ParamId, Vec<usize>, &dyn Fn() -> Tensor<1>),
) {
    model.visit(&mut Visit { path: vec![], f: &mut f });
}

/// Returns the module with new parameter values. `f` gets the published name and shape of each parameter and returns
/// its values in the published layout, or `None` to keep them.
///
/// Ids, devices and gradient tracking do not change.
///
/// # Panics
/// Panics if the number of values that `f` returns differs from the number of elements of the shape.
pub fn map_parameters<M: Module>(model: M, mut f: impl FnMut(&str, &[usize]) -> Option<Vec<f32>>) -> M {
    model.map(&mut Map { path: vec![], f: &mut f })
}

/// Returns the transpose of a matrix `[rows, columns]` in row-major order.
pub(crate) fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    // Square blocks keep both reads and writes in the L1 cache.
    const BLOCK: usize = 32;
    let mut out = vec![0f32; values.len()];
    for row in (0..rows).step_by(BLOCK) {
        for column in (0..columns).step_by(BLOCK) {
            for r in row..(row + BLOCK).min(rows) {
                for c in column..(column + BLOCK).min(columns) {
                    out[c * rows + r] = values[r * columns + c];
                }
            }
        }
    }
    out
}

/// Returns the published name and shape of a parameter.
fn published_name_and_shape(path: &[String], shape: &[usize]) -> (String, Vec<usize>) {
    let name = hf_name(&path.join("."));
    let mut shape = shape.to_vec();
    if is_transposed(&name, shape.len()) {
        shape.reverse();
    }
    (name, shape)
}

/// The callback of [`visit_parameters`].
type OnParameter<'a> = dyn FnMut(String, ParamId, Vec<usize>, &dyn Fn() -> Tensor<1>) + 'a;
/// The callback of [`map_parameters`].
type NewValues<'a> = dyn FnMut(&str, &[usize]) -> Option<Vec<f32>> + 'a;

/// A traversal of a module that calls `f` for each parameter. The type is not generic over `f`, because then
/// burn would compile the traversal of each module once for each closure.
struct Visit<'a> {
    /// Field names from the root to the current module.
    path: Vec<String>,
    f: &'a mut OnParameter<'a>,
}

impl ModuleVisitor for Visit<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (name, shape) = published_name_and_shape(&self.path, &param.lazy_shape());
        let values = || -> Tensor<1> { param.val().reshape([-1]) };
        (self.f)(name, param.id, shape, &values);
    }
}

/// A traversal of a module that replaces parameters; see [`Visit`].
struct Map<'a> {
    path: Vec<String>,
    f: &'a mut NewValues<'a>,
}

impl ModuleMapper for Map<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (name, shape) = published_name_and_shape(&self.path, &param.lazy_shape());
        let Some(values) = (self.f)(&name, &shape) else {
            return param;
        };
        assert_eq!(values.len(), shape.iter().product::<usize>(), "{name}");
        let values = if is_transposed(&name, D) { transpose(&values, shape[0], shape[1]) } else { values };
        // This code never reads the parameter's value, so a lazy parameter is not initialized first.
        let data = TensorData::new(values, param.lazy_shape());
        let tensor = Tensor::from_data(data, &param.lazy_device());
        let id = param.id;
        param.transform_for_load(tensor, id)
    }
}
