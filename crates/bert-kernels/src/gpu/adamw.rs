//! AdamW on a GPU: the equations of [`mod@crate::ops::adamw`] in one pass over parameters, moments and gradients.
//!
//! The parameter, its moments and the gradient have the same length and no autodiff. The parameter and its
//! moments are overwritten. A buffer that is shared is copied first. Updates with equal hyperparameters share
//! a launch: a [`Queue`] collects them and launches them when it is dropped.

use burn::backend::Cube;
use burn::tensor::{DType, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{
    Input, UNITS, buffers_per_launch, input, into_contiguous, len, one_cube_per_row, vector_size, writable,
};
use crate::arguments::{AdamW, Kernels, Pass, State};

/// Number of vectors of each tensor that a cube updates.
const BLOCK: usize = 4 * UNITS as usize;

/// Updates that wait for a common launch. Dropping the queue launches them; later operations read the new values.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    groups: Vec<Group>,
}

/// Updates with equal hyperparameters: parameters, moments and gradients.
#[derive(Debug)]
struct Group {
    step: AdamW,
    /// Number of adjacent elements that a unit updates at once.
    vector: usize,
    tensors: Vec<[CubeTensor; 4]>,
}

/// Returns whether [`Queue::update`] can be used: the kernels are not plain, and all tensors are f32 tensors on a GPU
/// without autodiff.
pub(crate) fn serves(kernels: Kernels, state: &State, gradient: &Tensor<1>) -> bool {
    let is_gpu = |x: &Tensor<1>| x.dtype() == DType::F32 && matches!(input(x.clone()), Some(Input::Plain(_)));
    kernels != Kernels::Plain
        && [&state.parameter, &state.first, &state.second, gradient].into_iter().all(is_gpu)
}

impl Queue {
    /// Queues an update of tensors on a GPU and returns the tensors that will contain the updated state.
    pub(crate) fn update(&mut self, pass: Pass, state: State, gradient: &Tensor<1>, step: AdamW) -> State {
        // One kernel serves all passes: decay rates of 1 keep the moments, and a learning rate of 0 keeps the
        // parameter.
        let step = match pass {
            Pass::Whole => step,
            Pass::Moments => AdamW { learning_rate: 0.0, ..step },
            Pass::Parameter => AdamW { beta1: 1.0, beta2: 1.0, ..step },
        };
        let State { parameter, first, second } = state;
        let own =
            |x: Tensor<1>| x.try_into_primitive::<Cube>().map(into_contiguous).expect("a tensor on a GPU");
        let [parameter, first, second] = [parameter, first, second].map(|x| writable(own(x)));
        let most = buffers_per_launch(&parameter.client) / 4;
        let tensors = [parameter.clone(), first.clone(), second.clone(), own(gradient.clone())];
        let vector = vector_size(len(&parameter), &parameter);
        let fits =
            |group: &&mut Group| group.step == step && group.vector == vector && group.tensors.len() < most;
        match self.groups.iter_mut().find(fits) {
            Some(group) => group.tensors.push(tensors),
            None => self.groups.push(Group { step, vector, tensors: vec![tensors] }),
        }
        let [parameter, first, second] = [parameter, first, second].map(Tensor::from_primitive::<Cube>);
        State { parameter, first, second }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.groups.drain(..).for_each(Group::launch);
    }
}

impl Group {
    fn launch(self) {
        let Self { step, vector, tensors } = self;
        let client = tensors[0][0].client.clone();
        let cubes = tensors.iter().map(|[parameter, ..]| (len(parameter) / vector).div_ceil(BLOCK)).sum();
        let (count, dim) = one_cube_per_row(cubes);
        let buffers = |place: usize| tensors.iter().map(|x| x[place].clone().into_buffer_arg()).collect();
        let (c1, c2) = step.corrections.unwrap_or((1.0, 1.0));
        kernel::launch(
            &client,
            count,
            dim,
            vector,
            buffers(0),
            buffers(1),
            buffers(2),
            buffers(3),
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
    }
}

#[expect(clippy::too_many_arguments, reason = "four tensors, and the step")]
#[cube(launch)]
fn kernel<N: Size>(
    parameters: &mut Sequence<Box<[Vector<f32, N>]>>,
    firsts: &mut Sequence<Box<[Vector<f32, N>]>>,
    seconds: &mut Sequence<Box<[Vector<f32, N>]>>,
    gradients: &Sequence<Box<[Vector<f32, N>]>>,
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
    // Number of cubes that work on the tensors before this one.
    let mut before = 0usize.runtime();
    #[unroll]
    for number in 0..gradients.len() {
        let gradient = gradients.index(number);
        let cubes = gradient.len().div_ceil(BLOCK);
        if CUBE_POS >= before && CUBE_POS < before + cubes {
            let parameter = parameters.index_mut(number);
            let first = firsts.index_mut(number);
            let second = seconds.index_mut(number);
            let start = (CUBE_POS - before) * BLOCK;
            let end = min(start + BLOCK, gradient.len());
            let mut i = start + UNIT_POS as usize;
            while i < end {
                let g = gradient[i] * Vector::new(scale);
                let p = parameter[i];
                let m = first[i] * Vector::new(b1) + g * Vector::new(a1);
                let v = second[i] * Vector::new(b2) + g * g * Vector::new(a2);
                let update = (m / Vector::new(c1)) / ((v / Vector::new(c2)).sqrt() + Vector::new(epsilon));
                parameter[i] = p - (update + p * Vector::new(decay)) * Vector::new(rate);
                first[i] = m;
                second[i] = v;
                i += UNITS as usize;
            }
        }
        before += cubes;
    }
}
