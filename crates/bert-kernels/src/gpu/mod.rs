//! GPU kernels for some of the operations, written in CubeCL.
//!
//! The kernels take f32 tensors of burn's CubeCL backend, and bf16 tensors between the products of a block.
//! They run on the runtime of the tensors' device (CUDA, Vulkan, ..). In CubeCL's terms, a cube is a thread
//! block, a unit is a thread, and a plane is a warp. The equations are the same as in the CPU kernels, and
//! autodiff tracks the results in the same way. The kernels avoid three faults of burn 0.22.1 on a GPU: it
//! differentiates its erf GELU as if it were the tanh form, a dropout mask would be computed on the host and
//! copied, and its sums over rows and over large vocabularies use only a few units. cuBLASLt or CubeCL's own
//! kernels compute the matrix products.
//!
//! | module | operation |
//! |---|---|
//! | [`gelu`] | bias + GELU, erf and tanh |
//! | [`feed_forward`] | the feed-forward network of a layer |
//! | [`column_sums`] | sums over rows |
//! | [`dropout`] | the masks of [`mod@crate::cpu::dropout_mask`], made on the device |
//! | [`layer_norm`] | LayerNorm over the last axis, and bias + dropout + residual + LayerNorm |
//! | [`lanes`] | sums and maxima over the units that share a row |
//! | [`masked_lm`] | the loss of the masked-LM head |
//! | [`gather`] | rows of a table by index |
//! | [`embeddings`] | the sum of three embeddings |
//! | [`squares`] | sums of squares for the global norm |
//! | [`adamw`] | one update of a parameter and its moments, in place |
//! | [`product`] | matrix products with sums in f32 |
//! | `cublas`, [`strategy`] | the matrix products of cuBLASLt and of CubeCL; sizes of the attention kernels |
//! | [`self_attention`] | projections and attention, with queries, keys and values in one product |
//! | [`attention`] | attention in one kernel, for heads of 64 columns |
//! | [`softmax`] | scale + key bias + softmax + dropout of attention |
//!
//! # Tests
//!
//! `cargo test -p bert-kernels --features wgpu --test cube` compares every kernel with burn's operations on
//! the default device of wgpu, which may be a software Vulkan (Mesa's lavapipe). Since Mesa 26, lavapipe has
//! matrix units in f16, which another test needs:
//! `cargo test -p bert-kernels --features wgpu,burn/vulkan matrix_units -- --ignored`.

/// Launches a kernel. The first group of arguments is the kernel's name, the client, the launch size and, if
/// the kernel has one, the vector size. The second group is the tensors, whose buffers are passed to the
/// kernel. The third group is its other arguments.
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

/// Number of units of a cube; a power of two that every runtime supports.
const UNITS: u32 = 128;

/// An input of a kernel.
type Input = fused_op::Input<Cube>;

/// Returns a tensor as an input. Returns `None` if it is not on a CubeCL device, is neither in f32 nor in
/// bf16, or is in a graph with gradient checkpointing.
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

/// Returns a contiguous tensor whose buffer has exactly as many elements as the tensor.
///
/// Kernels read lengths from their buffers. On CUDA, burn's buffers may end with unused elements, because
/// burn aligns rows.
fn into_contiguous(x: CubeTensor) -> CubeTensor {
    let mut x = kernel::into_contiguous(x);
    let bytes = (len(&x) * x.dtype.size()) as u64;
    let unused = x.handle.size_in_used() - bytes;
    x.handle = x.handle.offset_end(unused);
    x
}

/// Returns a flat uninitialized tensor with the dtype and the device of `x`.
fn empty_like(x: &CubeTensor, len: usize) -> CubeTensor {
    empty_with(x, len, x.dtype)
}

/// Returns a flat uninitialized tensor of this dtype on the device of `x`.
fn empty_with(x: &CubeTensor, len: usize, dtype: DType) -> CubeTensor {
    empty_shaped(x, Shape::new([len]), dtype)
}

/// Returns an uninitialized tensor of this shape and dtype on the device of `x`.
fn empty_shaped(x: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape, dtype)
}

/// Returns the tensor, or a copy if its buffer is shared.
fn writable(x: CubeTensor) -> CubeTensor {
    if x.can_mut() { x } else { x.copy() }
}

/// Returns the number of elements of a tensor.
fn len(x: &CubeTensor) -> usize {
    x.meta.num_elements()
}

/// Returns the number of tensors that one launch can take.
fn buffers_per_launch(client: &Client) -> usize {
    // Two bindings are reserved for the result and for the sizes.
    let most = client.properties().hardware.max_bindings.saturating_sub(2) as usize;
    most.clamp(4, 32)
}

/// Returns the dtype of a tensor as CubeCL's element type.
fn element(x: &CubeTensor) -> ElemType {
    ElemType::Float(match x.dtype {
        DType::BF16 => FloatKind::BF16,
        DType::F16 => FloatKind::F16,
        _ => FloatKind::F32,
    })
}

/// Returns the number of adjacent elements that a unit reads at once in rows of `width` elements: 16 bytes or
/// 4 elements if that divides the width, otherwise 1.
fn vector_size(width: usize, x: &CubeTensor) -> usize {
    let most = 16 / x.dtype.size();
    [most, 4].into_iter().find(|&size| width.is_multiple_of(size)).unwrap_or(1)
}

/// Returns a number of cubes that is at least `count`.
fn cubes(count: usize) -> CubeCount {
    // Some runtimes allow at most 65,535 cubes along an axis.
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

    /// On CUDA, burn's buffers may be longer than the tensor. This test creates such a buffer on a wgpu
    /// device.
    #[test]
    fn buffers_have_the_length_of_the_tensor() {
        let zeros = Tensor::<1>::zeros([64], &Device::wgpu(DeviceKind::DefaultDevice));
        let mut x = zeros.try_into_primitive::<Cube>().expect("a tensor of the device");
        *x.meta = Metadata::new(Shape::new([51]), strides![1]);
        assert_eq!(into_contiguous(x).handle.size_in_used(), 51 * 4);
    }
}
