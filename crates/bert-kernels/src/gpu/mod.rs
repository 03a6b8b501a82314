//! Kernels for GPUs, written in CubeCL, for some of the operations.
//!
//! They take f32 tensors of burn's CubeCL backend, and bf16 tensors between the products of a block, and run on the runtime of the tensors' device (CUDA, Vulkan, ..). The
//! equations are the same as in the CPU kernels, and autodiff tracks the results in the same way. The kernels exist
//! because burn 0.22.1 falls short on a GPU: it differentiates its erf GELU as if it were the tanh form, and a dropout
//! mask would be made on the host and copied; and its sums over rows and over large vocabularies use a few units of a
//! GPU. Matrix products are computed by cuBLASLt or by kernels of CubeCL.
//!
//! | module | operation |
//! |---|---|
//! | [`gelu`] | bias + GELU, erf and tanh |
//! | [`feed_forward`] | the feed-forward network of a layer |
//! | [`column_sums`] | sums over rows |
//! | [`dropout`] | the masks of [`mod@crate::cpu::dropout_mask`], made on the device |
//! | [`layer_norm`] | LayerNorm over the last axis, and bias + dropout + residual + LayerNorm |
//! | [`lanes`] | rows that a few units compute together |
//! | [`masked_lm`] | the loss of the masked-LM head |
//! | [`gather`] | rows of a table by index |
//! | [`embeddings`] | the sum of three embeddings |
//! | [`squares`] | sums of squares for the global norm |
//! | [`adamw`] | one update of a parameter and its moments, in place |
//! | [`product`] | matrix products with sums in f32 |
//! | `cublas`, [`strategy`] | who computes them; sizes of the attention kernels |
//! | [`self_attention`] | projections and attention, with queries, keys and values in one product |
//! | [`attention`] | attention in one kernel, for heads of 64 columns |
//! | [`softmax`] | scale + key bias + softmax + dropout of attention |
//!
//! # Tests
//!
//! `cargo test -p bert-kernels --features wgpu --test cube` runs every kernel against burn's operations on the
//! default device of wgpu, a software Vulkan (Mesa's lavapipe) included. Matrix units in f16 are there since Mesa 26:
//! `cargo test -p bert-kernels --features wgpu,burn/vulkan matrix_units -- --ignored`.

/// Launches a kernel. The arguments are, after its name: the client, the launch size, and the vector size if the kernel has
/// one; then tensors, whose buffers it gets; then its other arguments.
macro_rules! launch {
    ($kernel:ident, $client:expr, $size:expr $(, $vector:expr)?; $($tensor:expr),+ $(; $($other:expr),+)?) => {{
        let (count, dim) = $size;
        $kernel::launch($client, count, dim, $($vector,)? $($tensor.into_buffer_arg(),)+ $($($other),+)?);
    }};
}

pub(crate) mod adamw;
mod attention;
mod column_sums;
#[cfg(feature = "cuda")]
mod cublas;
pub(crate) mod dropout;
pub(crate) mod embeddings;
pub(crate) mod feed_forward;
pub(crate) mod gather;
pub(crate) mod gelu;
mod lanes;
pub(crate) mod layer_norm;
pub(crate) mod masked_lm;
pub(crate) mod product;
pub(crate) mod self_attention;
pub(crate) mod softmax;
pub(crate) mod squares;
mod strategy;

use burn::backend::{Autodiff, Cube};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::kernel;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

use crate::arguments::Kernels;
use crate::fused_op::{self, Fused, record};

/// Units of a cube; a power of two that every runtime supports.
const UNITS: u32 = 128;

/// An input of a kernel.
type Input = fused_op::Input<Cube>;

/// Returns a tensor of a CubeCL device as an input: f32, or bf16 between two operations, and not in a graph with gradient
/// checkpointing.
fn input<const D: usize>(x: Tensor<D>) -> Option<Input> {
    if !matches!(x.dtype(), DType::F32 | DType::BF16) {
        return None;
    }
    match x.clone().try_into_primitive::<Cube>() {
        Ok(x) => Some(Input::Plain(x)),
        Err(_) => x.try_into_primitive::<Autodiff<Cube>>().ok().map(Input::Graph),
    }
}

/// Runs an operation on tensors of any rank. Returns `None` if burn's own operations have to run instead.
fn apply_inputs<F: Fused<N, Cube>, const N: usize, const D: usize>(
    kernels: Kernels,
    operation: F,
    inputs: [Option<Input>; N],
) -> Option<Tensor<D>> {
    if kernels == Kernels::Plain || inputs.iter().any(Option::is_none) {
        return None;
    }
    let inputs = inputs.map(|input| input.expect("all are there"));
    if inputs.iter().all(|input| matches!(input, Input::Plain(_))) {
        return Some(Tensor::from_primitive::<Cube>(operation.value(inputs.map(Input::into_primitive))));
    }
    Some(Tensor::from_primitive::<Autodiff<Cube>>(record(operation, inputs.map(Input::into_graph))))
}

/// Runs an operation on flat f32 tensors. Returns `None` if burn's own operations have to run instead.
fn apply<F: Fused<N, Cube>, const N: usize>(
    kernels: Kernels,
    operation: F,
    tensors: [Tensor<1>; N],
) -> Option<Tensor<1>> {
    let is_f32 = tensors.iter().all(|x| x.dtype() == DType::F32);
    if is_f32 { apply_inputs(kernels, operation, tensors.map(input)) } else { None }
}

/// Returns a tensor with its elements in order, in a buffer of exactly their number.
///
/// A kernel reads lengths from its buffers. On CUDA, burn's buffers end with unused cells: rows are aligned.
fn into_contiguous(x: CubeTensor) -> CubeTensor {
    let mut x = kernel::into_contiguous(x);
    let bytes = (len(&x) * x.dtype.size()) as u64;
    let unused = x.handle.size_in_used() - bytes;
    x.handle = x.handle.offset_end(unused);
    x
}

/// Returns a tensor of the type and on the device of `x` to be overwritten.
fn empty_like(x: &CubeTensor, len: usize) -> CubeTensor {
    empty_with(x, len, x.dtype)
}

/// Returns a tensor of a type on the device of `x` to be overwritten.
fn empty_with(x: &CubeTensor, len: usize, dtype: DType) -> CubeTensor {
    empty_shaped(x, Shape::new([len]), dtype)
}

/// Returns a tensor of a shape and a type on the device of `x` to be overwritten.
fn empty_shaped(x: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape, dtype)
}

/// Returns a tensor whose buffer nothing else uses.
fn writable(x: CubeTensor) -> CubeTensor {
    if x.can_mut() { x } else { x.copy() }
}

/// Returns the number of elements.
fn len(x: &CubeTensor) -> usize {
    x.meta.num_elements()
}

/// Returns the number of tensors that one launch can take.
fn buffers_per_launch(client: &Client) -> usize {
    // One buffer is for the result, one for the sizes.
    let most = client.properties().hardware.max_bindings.saturating_sub(2) as usize;
    most.clamp(4, 32)
}

/// Returns the type of the elements, as kernels name it.
fn element(x: &CubeTensor) -> ElemType {
    ElemType::Float(match x.dtype {
        DType::BF16 => FloatKind::BF16,
        DType::F16 => FloatKind::F16,
        _ => FloatKind::F32,
    })
}

/// Returns the number of adjacent elements of x that a unit computes, of rows of this width: 16 bytes, if that divides the
/// rows.
fn vector_size(width: usize, x: &CubeTensor) -> usize {
    let most = 16 / x.dtype.size();
    [most, 4].into_iter().find(|&size| width.is_multiple_of(size)).unwrap_or(1)
}

/// Returns a launch size of at least `count` cubes.
fn cubes(count: usize) -> CubeCount {
    // The maximum length of a grid's x axis may be 65535 cubes.
    let x = count.clamp(1, 1 << 15);
    CubeCount::Static(x as u32, count.div_ceil(x).max(1) as u32, 1)
}

/// Returns the launch size with one unit for each of `count` elements.
fn elementwise(count: usize) -> (CubeCount, CubeDim) {
    one_cube_per_row(count.div_ceil(UNITS as usize))
}

/// Returns the launch size with one cube for each of `count` rows.
fn one_cube_per_row(count: usize) -> (CubeCount, CubeDim) {
    (cubes(count), CubeDim::new_1d(UNITS))
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use burn::tensor::{Device, DeviceKind};
    use burn_std::{Metadata, strides};

    use super::*;

    /// The buffers of burn on CUDA, made on a device of wgpu: they are longer than the tensor.
    #[test]
    fn buffers_have_the_length_of_the_tensor() {
        let zeros = Tensor::<1>::zeros([64], &Device::wgpu(DeviceKind::DefaultDevice));
        let mut x = zeros.try_into_primitive::<Cube>().expect("a tensor of the device");
        *x.meta = Metadata::new(Shape::new([51]), strides![1]);
        assert_eq!(into_contiguous(x).handle.size_in_used(), 51 * 4);
    }
}
