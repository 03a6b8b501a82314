//! AdamW on a GPU: the equations of [`mod@crate::ops::adamw`] in one pass over a parameter, one unit for each element.
//!
//! Parameter, moments and gradient have one length and no autodiff. The parameter and its moments are overwritten; a
//! buffer that is shared is copied first.

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{Inputs, elementwise, inputs, into_contiguous, len};
use crate::arguments::Kernels;
use crate::arguments::{AdamW, State};

/// Returns whether all tensors are on a GPU, so that [`update`] can be used.
pub(crate) fn serves(kernels: Kernels, state: &State, gradient: &Tensor<1>) -> bool {
    let is_gpu = |x: &Tensor<1>| matches!(inputs(kernels, [x.clone()]), Some(Inputs::Plain(_)));
    [&state.parameter, &state.first, &state.second, gradient].into_iter().all(is_gpu)
}

/// Computes one update of tensors on a GPU.
pub(crate) fn update(state: State, gradient: &Tensor<1>, step: AdamW) -> State {
    let State { parameter, first, second } = state;
    let own = |x: Tensor<1>| x.try_into_primitive::<Cube>().map(into_contiguous).expect("a tensor on a GPU");
    let [parameter, first, second] = [parameter, first, second].map(|x| writable(own(x)));
    let (count, dim) = elementwise(len(&parameter));
    let (c1, c2) = step.corrections.unwrap_or((1.0, 1.0));
    kernel::launch(
        &parameter.client,
        count,
        dim,
        parameter.clone().into_buffer_arg(),
        first.clone().into_buffer_arg(),
        second.clone().into_buffer_arg(),
        own(gradient.clone()).into_buffer_arg(),
        step.beta1 as f32,
        (1.0 - step.beta1) as f32,
        step.beta2 as f32,
        (1.0 - step.beta2) as f32,
        c1 as f32,
        c2 as f32,
        step.epsilon as f32,
        step.weight_decay as f32,
        step.gradient_scale as f32,
        step.learning_rate as f32,
    );
    let [parameter, first, second] = [parameter, first, second].map(Tensor::from_primitive::<Cube>);
    State { parameter, first, second }
}

/// Returns a tensor whose buffer nothing else uses.
fn writable(x: CubeTensor) -> CubeTensor {
    if x.can_mut() { x } else { x.copy() }
}

#[expect(clippy::too_many_arguments, reason = "four tensors, and the step")]
#[cube(launch)]
fn kernel(
    parameter: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
    b1: f32,
    a1: f32,
    b2: f32,
    a2: f32,
    c1: f32,
    c2: f32,
    epsilon: f32,
    decay: f32,
    scale: f32,
    rate: f32,
) {
    if ABSOLUTE_POS < parameter.len() {
        let g = gradient[ABSOLUTE_POS] * scale;
        let p = parameter[ABSOLUTE_POS];
        let m = b1 * first[ABSOLUTE_POS] + a1 * g;
        let v = b2 * second[ABSOLUTE_POS] + a2 * g * g;
        let update = (m / c1) / ((v / c2).sqrt() + epsilon);
        parameter[ABSOLUTE_POS] = p - rate * (update + decay * p);
        first[ABSOLUTE_POS] = m;
        second[ABSOLUTE_POS] = v;
    }
}
