//! AdamW on a GPU: the equations of [`mod@crate::ops::adamw`] in one pass over a parameter, one unit for each element.
//!
//! Parameter, moments and gradient have one length and no autodiff. The results go into new buffers.

use burn::backend::Cube;
use burn::tensor::Tensor;
use cubecl::prelude::*;

use super::{Inputs, elementwise, empty_like, inputs, into_contiguous, len};
use crate::arguments::Kernels;
use crate::arguments::{AdamW, State};

/// Computes one update, if all tensors are on a GPU; else returns `None`.
pub(crate) fn update(kernels: Kernels, state: &State, gradient: &Tensor<1>, step: AdamW) -> Option<State> {
    let State { parameter, first, second } = state;
    let tensors = [parameter.clone(), first.clone(), second.clone(), gradient.clone()];
    let Inputs::Plain(tensors) = inputs(kernels, tensors)? else { return None };
    let [parameter, first, second, gradient] = tensors.map(into_contiguous);
    let new: [_; 3] = std::array::from_fn(|_| empty_like(&parameter, len(&parameter)));
    let (count, dim) = elementwise(len(&parameter));
    let (c1, c2) = step.corrections.unwrap_or((1.0, 1.0));
    kernel::launch(
        &new[0].client,
        count,
        dim,
        parameter.into_buffer_arg(),
        first.into_buffer_arg(),
        second.into_buffer_arg(),
        gradient.into_buffer_arg(),
        new[0].clone().into_buffer_arg(),
        new[1].clone().into_buffer_arg(),
        new[2].clone().into_buffer_arg(),
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
    let [parameter, first, second] = new.map(Tensor::from_primitive::<Cube>);
    Some(State { parameter, first, second })
}

#[expect(clippy::too_many_arguments, reason = "four tensors in, three out, and the step")]
#[cube(launch)]
fn kernel(
    parameter: &[f32],
    first: &[f32],
    second: &[f32],
    gradient: &[f32],
    new_parameter: &mut [f32],
    new_first: &mut [f32],
    new_second: &mut [f32],
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
    if ABSOLUTE_POS < new_parameter.len() {
        let g = gradient[ABSOLUTE_POS] * scale;
        let p = parameter[ABSOLUTE_POS];
        let m = b1 * first[ABSOLUTE_POS] + a1 * g;
        let v = b2 * second[ABSOLUTE_POS] + a2 * g * g;
        let update = (m / c1) / ((v / c2).sqrt() + epsilon);
        new_parameter[ABSOLUTE_POS] = p - rate * (update + decay * p);
        new_first[ABSOLUTE_POS] = m;
        new_second[ABSOLUTE_POS] = v;
    }
}
