//! The feed-forward network of a layer without its last bias: `y = gelu(x W1 + b1) W2`.
//!
//! This is section 3.3 of "Attention is all you need" with GELU. In f32, it runs the three operations
//! [`mod@super::dense`], [`mod@super::gelu`] and again [`mod@super::dense`], with their intermediate results
//! in memory. In bf16, memory traffic and the packing of operands take as much time as the products
//! themselves. Therefore, one thread computes all three operations for a few rows, for a few hundred
//! intermediate features at a time, which stay in its L2 cache. The backward pass needs `z = x W1 + b1`. The
//! forward pass saves `x W1` if the batch is small (`ops::saves_projections`); otherwise the backward pass
//! computes it again. Then it computes `dz = (dy W2') gelu'(z)`, `dx = dz W1'`, `dW1 = x' dz`, `db1 =
//! sum(dz)`, `dW2 = gelu(z)' dy`. For the sums over all rows, z and dz are stored in bf16, already packed.
//!
//! The three operations give the same bits in bf16, except for `db1`, whose terms are added in a different order.

mod bf16_blocks;

use burn::tensor::{Tensor, assert_shape};

use crate::arguments::{Gelu, Precision, Projection};
use crate::fused_op::fused_path;
use crate::matmul::packed_weights::KernelContext;
use crate::ops::dense;
use crate::ops::gelu::bias_gelu;

/// Returns `gelu(x W1 + b1) W2`. In bf16 on a GPU the output is in bf16.
///
/// # Shapes
/// - x: `[.., d_input]`
/// - first: `[d_input, d_intermediate]` and `[d_intermediate]`
/// - second: `[d_intermediate, d_output]`
/// - output: `[.., d_output]`
pub fn feed_forward<'a, const D: usize>(
    ctx: impl Into<KernelContext<'a>>,
    x: Tensor<D>,
    first: Projection,
    second: Tensor<2>,
    form: Gelu,
) -> Tensor<D> {
    let ctx = ctx.into();
    let [input, intermediate] = first.weight.dims();
    assert_eq!(x.dims()[D - 1], input, "the width of x");
    assert_shape!(first.bias, [intermediate]);
    assert_shape!(second, [intermediate, _]);
    if ctx.compute.precision == Precision::Bf16
        && let Some(path) = fused_path(ctx.compute, &[&x, &first.weight, &first.bias, &second])
    {
        return bf16_blocks::feed_forward((path, ctx.packed), x, first, second, form);
    }
    #[cfg(feature = "cubecl")]
    {
        let mut shape = x.dims();
        if let Some(y) = crate::gpu::feed_forward::feed_forward(ctx.compute, x.clone(), &first, &second, form)
        {
            shape[D - 1] = second.dims()[1];
            return y.reshape(shape);
        }
    }
    let wide = bias_gelu(ctx.compute, dense::product(ctx, x, first.weight), first.bias, form);
    dense::product(ctx, wide, second)
}
