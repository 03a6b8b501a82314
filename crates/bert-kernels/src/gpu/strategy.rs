//! Chooses the kernels of CubeCL for matrix products.
//!
//! Without its feature `autotune`, burn uses the simplest kernel with tensor cores. For NVIDIA GPUs, the list
//! for each role begins with the kernel that was the fastest of 50 in most products of this role on an H200
//! (docs/results.md). A kernel that the device does not support, or that does not compile there, is skipped.
//! None uses atomic additions, so equal products have equal bits on the same kind of device.
//!
//! The sizes of the attention kernels are here too.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::multi_level::Strategy::{DoubleTmaMma, SimpleTmaCmma, SpecializedTmaMma};
use cubek::matmul::multi_level::routines::batch::simple::SimpleArgs;
use cubek::matmul::routine::BlueprintStrategy::Inferred;
use cubek::std::InputBinding;

use super::{element, empty_shaped};

/// Sizes of an attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Blocks {
    /// Number of queries in a block.
    pub(super) queries: usize,
    /// Number of keys in a block.
    pub(super) keys: usize,
    /// Number of units of a cube.
    pub(super) units: usize,
}

/// Sizes of the forward and the backward kernel of attention, in order of increasing memory traffic. The
/// first entry that fits in shared memory is used. The order is an estimate and has not been measured on a
/// GPU.
pub(super) const ATTENTION: [[Blocks; 2]; 3] = [
    [Blocks { queries: 64, keys: 128, units: 256 }, Blocks { queries: 32, keys: 128, units: 256 }],
    [Blocks { queries: 16, keys: 32, units: 64 }; 2],
    [Blocks { queries: 16, keys: 16, units: 64 }; 2],
];

/// Whether each kernel, by its name, compiles on the device.
static COMPILED: LazyLock<Mutex<HashMap<String, bool>>> = LazyLock::new(Mutex::default);

/// Returns `a b` in the dtype `result`, with sums in f32. Both operands have the same dtype.
///
/// # Shapes
/// - a: `[.., m, k]`; b: `[.., k, n]`
/// - output: `[.., m, n]`
pub(super) fn multiply(a: CubeTensor, b: CubeTensor, result: DType) -> CubeTensor {
    if a.dtype == DType::BF16 && a.client.name() == "cuda" {
        for strategy in candidates(&a, &b) {
            if let Some(product) = launch(&strategy, &a, &b, result) {
                return product;
            }
        }
    }
    matmul(a, b, None, MatmulStrategy::default(), result).expect("every product has a kernel")
}

/// Returns the kernels for a product, the fastest first. They depend on which operand is transposed: the left
/// one in the gradient of a weight, the right one in the gradient of an input.
fn candidates(a: &CubeTensor, b: &CubeTensor) -> Vec<Strategy> {
    let by_columns = |x: &CubeTensor| x.meta.strides().last() != Some(&1);
    let several_rows = SimpleArgs { multi_rows: true, ..Default::default() };
    if by_columns(a) {
        vec![SpecializedTmaMma(Default::default()), DoubleTmaMma(Default::default())]
    } else if by_columns(b) {
        vec![SimpleTmaCmma(Inferred(several_rows)), SpecializedTmaMma(Default::default())]
    } else {
        vec![DoubleTmaMma(Default::default()), SpecializedTmaMma(Default::default())]
    }
}

/// Returns the product computed by one kernel; `None` if the device cannot run the kernel.
fn launch(strategy: &Strategy, a: &CubeTensor, b: &CubeTensor, result: DType) -> Option<CubeTensor> {
    let name = strategy.to_string();
    let compiled = COMPILED.lock().expect("the map is never left half changed").get(&name).copied();
    if compiled == Some(false) {
        return None;
    }
    let mut shape = a.meta.shape().to_vec();
    let last = shape.len() - 1;
    shape[last] = b.meta.shape()[last];
    let out = empty_shaped(a, Shape::from(shape), result);
    let [left, right, sums] = [a, b, &out].map(element);
    let mut elements = MatmulElems::from_globals(&MatmulGlobalElems { lhs: left, rhs: right, out: sums });
    let [left, right] = [(a, left), (b, right)].map(|(x, kind)| InputBinding::new(x.clone().binding(), kind));
    let strategy = strategy.clone().into();
    launch_ref(&strategy, &a.client, left, right, out.clone().binding(), &mut elements).ok()?;
    if compiled.is_none() {
        // On the first use of a kernel, a compilation error becomes visible as an error of the result.
        let works = a.client.check([&out.handle]).is_ok();
        COMPILED.lock().expect("the map is never left half changed").insert(name, works);
        return works.then_some(out);
    }
    Some(out)
}
