//! Reads and replaces a module's parameters by the names, shapes and layout of Hugging Face's checkpoints.
//!
//! Field names are chosen so that a module's path is the published name but for a handful of substitutions
//! ([`hf_name`]). Dense weights are the one difference in layout: `[out, in]` in a checkpoint, `[in, out]` in burn.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Tensor, TensorData};

/// Shape and values of each tensor by its published name, in the published layout.
pub type NamedTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The published name of the parameter at a module path:
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
            part => part,
        })
        .collect();
    parts.join(".")
}

/// The name inside a model with heads, where the encoder is `bert.`.
pub(crate) fn canonical(name: &str) -> String {
    let bare = ["embeddings.", "encoder.", "pooler."];
    match bare.iter().any(|prefix| name.starts_with(prefix)) {
        true => format!("bert.{name}"),
        false => name.to_string(),
    }
}

/// The same tensors under other names.
pub(crate) fn renamed(tensors: NamedTensors, name: impl Fn(&str) -> String) -> NamedTensors {
    tensors.into_iter().map(|(old, tensor)| (name(&old), tensor)).collect()
}

/// Whether burn holds this tensor transposed: every dense weight, and no table.
pub fn is_transposed(name: &str, rank: usize) -> bool {
    rank == 2 && !name.ends_with("_embeddings.weight")
}

/// Name, id and published shape of every parameter, in the order of the module's fields.
pub fn named_parameters<M: Module>(model: &M) -> Vec<(String, ParamId, Vec<usize>)> {
    let mut found = Vec::new();
    visit_parameters(model, |name, id, shape, _| found.push((name, id, shape)));
    found
}

/// Hands out name, id and published shape of every parameter, and how to get its values, row by row as burn holds them.
pub(crate) fn visit_parameters<M: Module>(
    model: &M,
    f: impl FnMut(String, ParamId, Vec<usize>, &dyn Fn() -> Tensor<1>),
) {
    model.visit(&mut Walk { path: vec![], f });
}

/// The module with other values: `f` is given each parameter's published name and shape, and gives its
/// values in the published layout, or `None` to leave it as it is.
///
/// Ids, devices and whether gradients are tracked stay as they are.
///
/// # Panics
///
/// If `f` gives another number of values than the shape has.
pub fn map_parameters<M: Module>(model: M, f: impl FnMut(&str, &[usize]) -> Option<Vec<f32>>) -> M {
    model.map(&mut Walk { path: vec![], f })
}

/// Rows become columns.
pub(crate) fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    // In square blocks, so that reads and writes both stay within the cache.
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

/// Published name and shape of a parameter.
fn published(path: &[String], shape: &[usize]) -> (String, Vec<usize>) {
    let name = hf_name(&path.join("."));
    let mut shape = shape.to_vec();
    if is_transposed(&name, shape.len()) {
        shape.reverse();
    }
    (name, shape)
}

/// A way through a module: the path to where it is, and what it does with each parameter.
struct Walk<F> {
    path: Vec<String>,
    f: F,
}

impl<F: FnMut(String, ParamId, Vec<usize>, &dyn Fn() -> Tensor<1>)> ModuleVisitor for Walk<F> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (name, shape) = published(&self.path, &param.lazy_shape());
        let values = || -> Tensor<1> { param.val().reshape([-1]) };
        (self.f)(name, param.id, shape, &values);
    }
}

impl<F: FnMut(&str, &[usize]) -> Option<Vec<f32>>> ModuleMapper for Walk<F> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (name, shape) = published(&self.path, &param.lazy_shape());
        let Some(values) = (self.f)(&name, &shape) else {
            return param;
        };
        assert_eq!(values.len(), shape.iter().product::<usize>(), "{name}");
        let values = match is_transposed(&name, D) {
            true => transpose(&values, shape[0], shape[1]),
            false => values,
        };
        // Nothing here asks for the parameter's value: a fresh one has none yet, and need not be made.
        let data = TensorData::new(values, param.lazy_shape());
        let tensor = Tensor::from_data(data, &param.lazy_device());
        let id = param.id;
        param.transform_for_load(tensor, id)
    }
}
