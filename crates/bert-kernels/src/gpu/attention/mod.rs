//! Attention on a GPU with one kernel for the forward pass and one for the backward pass, without scores in
//! global memory: FlashAttention-2 (Dao, 2023) for heads of 64 columns, with the key bias and the dropout of
//! [`super::softmax`].
//!
//! Forward, `p = exp(scale q k' + bias - l)` and `y = (m p) v`, where l is the logarithm of a row's sum of
//! exponentials. In addition to the inputs, only l and y are saved. Backward, with `d = sum(dy y)` over a
//! row: `dv = (m p)' dy`, `ds = scale p (m (dy v') - d)`, `dq = ds k`, `dk = ds' q`.
//!
//! The kernels read queries, keys and values from one `[rows, 3 hidden]` matrix, and write the gradients to
//! another. A cube computes a block of queries in the forward pass and a whole head in the backward pass. It
//! reads the keys block by block. The forward pass computes l before it adds any values, so it never rescales
//! a sum. The kernels use no atomic additions.

mod blocks;
mod kernels;
mod plan;
mod sums;

use burn::tensor::DType;
use burn_cubecl::kernel::cast;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use self::kernels::{backward_kernel, forward_kernel};
use self::plan::{HEAD, Plan};
use super::column_sums::column_sums;
use super::dropout::mask;
use super::softmax::Softmax;
use super::{element, empty_like, empty_with, into_contiguous, len};

/// Maximum number of positions.
const POSITIONS: usize = 512;

/// The attention of a layer, with the plans of its forward and its backward kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attention {
    softmax: Softmax,
    batch: usize,
    plans: [Plan; 2],
}

/// The values that the backward pass needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// `[rows, 3 hidden]`: queries, keys and values without their biases, in the operand dtype.
    projected: CubeTensor,
    /// `[3 hidden]`: the biases of the projections
    biases: CubeTensor,
    /// `[batch * seq]`: the bias of each key
    key_bias: CubeTensor,
    /// `[rows, hidden]`
    pub(super) context: CubeTensor,
    /// `[batch * heads * seq]`: the log-sum-exp of each row of scores
    log_sums: CubeTensor,
}

impl Attention {
    /// Chooses the plans of both kernels; returns `None` if they cannot run for these sizes on the device of
    /// `projected`.
    pub(super) fn new(softmax: Softmax, batch: usize, projected: &CubeTensor) -> Option<Self> {
        let head = len(projected) / (3 * batch * softmax.seq * softmax.heads);
        let (_, _, most) = projected.client.properties().hardware.max_cube_count;
        if head != HEAD || softmax.seq > POSITIONS || batch > most as usize {
            return None;
        }
        let plans = [Plan::new(projected, 0)?, Plan::new(projected, 1)?];
        Some(Self { softmax, batch, plans })
    }

    /// Returns the values that the backward pass needs, among them the context.
    pub(super) fn forward(&self, inputs: [CubeTensor; 3]) -> Saved {
        let [projected, biases, key_bias] = inputs.map(into_contiguous);
        let Softmax { heads, seq, scale, dropout } = self.softmax;
        let plan = self.plans[0];
        let context = empty_like(&projected, len(&projected) / 3);
        let log_sums = empty_with(&projected, self.batch * heads * seq, DType::F32);
        let saved = Saved { projected, biases, key_bias, context, log_sums };
        let Saved { projected, biases, key_bias, context, log_sums } = saved.clone();
        let size = self.launch_size(plan, seq.div_ceil(plan.blocks.queries));
        launch!(forward_kernel, &context.client.clone(), size, plan.vector;
            projected, biases, key_bias, context, log_sums;
            scale, mask(dropout), plan, element(&saved.context));
        saved
    }

    /// Returns the gradients of queries, keys and values side by side, `[rows, 3 hidden]`, and their sum over
    /// the rows, `[3 hidden]`.
    pub(super) fn backward(&self, saved: Saved, gradient: CubeTensor) -> (CubeTensor, CubeTensor) {
        let Softmax { scale, dropout, seq, .. } = self.softmax;
        let plan = self.plans[1];
        let Saved { projected, biases, key_bias, context, log_sums } = saved;
        let joined = empty_like(&projected, len(&projected));
        let width = len(&biases);
        let sums = empty_with(&projected, self.batch * width, DType::F32);
        // With a single block of keys, the gradient of a query needs no partial sums, so their buffer is a
        // placeholder.
        let parts = if seq > plan.blocks.keys { len(&context) } else { plan.vector };
        let parts = empty_with(&projected, parts, DType::F32);
        launch!(backward_kernel, &joined.client, self.launch_size(plan, 1), plan.vector;
            projected, biases, key_bias, context, into_contiguous(cast(gradient, joined.dtype)), log_sums,
            joined.clone(), parts, sums.clone();
            scale, mask(dropout), plan, element(&joined));
        (joined, column_sums(sums, self.batch, width))
    }

    /// Returns the launch size for `cubes` cubes per head.
    fn launch_size(&self, plan: Plan, cubes: usize) -> (CubeCount, CubeDim) {
        (CubeCount::Static(cubes as u32, self.softmax.heads as u32, self.batch as u32), plan.dim())
    }
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use burn::backend::Cube;
    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::{Device, DeviceKind, Tensor, TensorData};

    use super::*;
    use crate::cpu::dropout_mask::Dropout;

    /// Returns numbers between -1 and 1.
    fn numbers(device: &Device, seed: u64, len: usize) -> CubeTensor {
        let number =
            |i| (crate::cpu::dropout_mask::mix(seed << 32 | i) >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        let data = TensorData::new((0..len as u64).map(number).collect::<Vec<f32>>(), [len]);
        Tensor::<1>::from_data(data, device).try_into_primitive::<Cube>().expect("a tensor of the device")
    }

    fn host(x: CubeTensor) -> Vec<f32> {
        let x = cast(x, DType::F32);
        Tensor::<1>::from_primitive::<Cube>(x).into_data().iter::<f32>().collect()
    }

    #[test]
    #[ignore = "needs Vulkan with matrix units in f16 (Mesa 26 has them in lavapipe) and the feature burn/vulkan"]
    fn matrix_units_agree_with_units() {
        let device = Device::wgpu(DeviceKind::DefaultDevice);
        let [batch, heads] = [2, 3];
        for seq in [1, 17, 33, 128, 129, 512] {
            let softmax = Softmax { heads, seq, scale: 0.125, dropout: Dropout::new(7, 0.1) };
            let columns = heads * HEAD;
            let run = |factors, has_units| {
                let numbers = |seed, columns| numbers(&device, seed, batch * seq * columns);
                let rounded = |seed, columns| cast(cast(numbers(seed, columns), DType::F16), factors);
                let projected = rounded(1, 3 * columns);
                let attention = Attention::new(softmax, batch, &projected).expect("a cube has the memory");
                println!("{:?}", attention.plans.map(|plan| plan.blocks));
                assert!(attention.plans.iter().all(|plan| plan.workers.has_matrix_units() == has_units));
                let biases = numbers(2, 3 * columns);
                let biases = Cube::float_slice(biases, &[(0..3 * columns).into()]);
                let saved = attention.forward([projected, biases, numbers(3, 1)]);
                let [context, log_sums] = [&saved.context, &saved.log_sums].map(|x| host(x.clone()));
                let (joined, sums) = attention.backward(saved, rounded(4, columns));
                [context, log_sums, host(joined), host(sums)]
            };
            let [want, got] =
                [(DType::F32, false), (DType::F16, true)].map(|(factors, has)| run(factors, has));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let scale = want.iter().fold(0f32, |scale, x| scale.max(x.abs()));
                let worst = got
                    .iter()
                    .zip(want)
                    .map(|(a, b)| (a - b).abs())
                    .fold(0f32, |worst, x| if x <= worst { worst } else { x });
                println!("{seq} {i}: {:.1e}", worst / scale);
                assert!(worst <= 5e-3 * scale, "{seq} {i}: off by {worst} of {scale}");
            }
        }
    }
}
