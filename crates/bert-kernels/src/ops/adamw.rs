//! The global gradient norm, and the AdamW update in one pass over each tensor.
//!
//! ```text
//! g <- g * scale                            (scale < 1 where the global norm was clipped)
//! m <- b1 m + (1 - b1) g ;  v <- b2 v + (1 - b2) g^2
//! u <- (m / c1) / (sqrt(v / c2) + eps)      (c = 1 without bias correction)
//! p <- p - lr (u + decay p)
//! ```
//!
//! Ports `AdamWeightDecayOptimizer` of the reference's `optimization.py`. [`update`] overwrites the buffers of the
//! parameter and its moments in place, unless they are shared. The caller chooses the learning rate, the clipping and
//! the parameters that decay.
//!
//! LAMB needs norms of the update before it changes the parameter, so [`Updates::only`] selects one half of an update.
//!
//! [`Updates::update_part`] and [`chunk_squares`] give the same bits for a whole tensor and for parts of it that begin and end
//! at multiples of [`CHUNK`].

use std::ops::Range;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use rayon::prelude::*;

pub use crate::arguments::{AdamW, CHUNK, Pass, State};
use crate::arguments::{Compute, Kernels};
use crate::cpu::flex_slices::{contiguous, slice, slice_mut};
use crate::cpu::math::vectorized;
use crate::fused_op::{Input, TensorBackend, fused_path};
use crate::ops::ordered_sum;

/// Updates a parameter and its moments, and returns them.
///
/// # Shapes
/// - all: `[n]`
pub fn update(compute: Compute, state: State, gradient: Tensor<1>, step: AdamW) -> State {
    let [n] = state.parameter.dims();
    Updates::new(compute).update_part(state, 0..n, gradient, step)
}

/// Updates of many parameters. On a GPU, they share launches, and the returned tensors have their values only
/// after this value is dropped.
#[derive(Debug)]
pub struct Updates {
    compute: Compute,
    pass: Pass,
    #[cfg(feature = "cubecl")]
    queue: crate::gpu::adamw::Queue,
}

impl Updates {
    /// Creates updates that use this implementation.
    pub fn new(compute: Compute) -> Self {
        Self {
            compute,
            pass: Pass::Whole,
            #[cfg(feature = "cubecl")]
            queue: Default::default(),
        }
    }

    /// Selects the part of an update that the next calls compute.
    pub fn only(&mut self, pass: Pass) -> &mut Self {
        self.pass = pass;
        self
    }

    /// Updates the elements `range` of a parameter, and their moments.
    ///
    /// # Shapes
    ///
    /// - parameter: `[n]`
    /// - moments and gradient: `[range]`
    pub fn update_part(
        &mut self,
        state: State,
        range: Range<usize>,
        gradient: Tensor<1>,
        step: AdamW,
    ) -> State {
        let [n] = gradient.dims();
        let State { parameter, first, second } = &state;
        assert!(range.len() == n && first.dims() == [n] && second.dims() == [n], "lengths differ");
        if fused_path(self.compute, &[parameter, first, second, &gradient]) == Some(TensorBackend::Flex) {
            return update_slices(self.pass, state, range, gradient, step);
        }
        let pass = self.pass;
        #[cfg(feature = "cubecl")]
        if crate::gpu::adamw::serves(self.compute.kernels, &state, &gradient) {
            if range == (0..state.parameter.dims()[0]) {
                return self.queue.update(pass, state, &gradient, step);
            }
            let update = |state| crate::gpu::adamw::Queue::default().update(pass, state, &gradient, step);
            return on_part(state, range, update);
        }
        on_part(state, range, |state| match pass {
            Pass::Whole => plain(state, gradient, step),
            Pass::Moments => plain_moments(state, gradient, step),
            Pass::Parameter => plain_parameter(state, step),
        })
    }
}

/// Computes the part `pass` of an update with the CPU kernels.
fn update_slices(pass: Pass, state: State, range: Range<usize>, gradient: Tensor<1>, step: AdamW) -> State {
    let State { parameter, first, second } = state;
    let own = |x: Tensor<1>| contiguous(Input::from(x).into_primitive());
    let [mut parameter, mut first, mut second] = [parameter, first, second].map(own);
    let gradient = own(gradient);
    slice_mut(&mut parameter)[range]
        .par_chunks_mut(CHUNK)
        .zip(slice_mut(&mut first).par_chunks_mut(CHUNK))
        .zip(slice_mut(&mut second).par_chunks_mut(CHUNK))
        .zip(slice(&gradient).par_chunks(CHUNK))
        .for_each(|(((p, m), v), g)| match pass {
            Pass::Whole => update_chunk(p, m, v, g, step),
            Pass::Moments => moments_chunk(m, v, g, step),
            Pass::Parameter => parameter_chunk(p, m, v, step),
        });
    let tensor = |x: FlexTensor| Tensor::from_primitive::<Flex>(x);
    State { parameter: tensor(parameter), first: tensor(first), second: tensor(second) }
}

/// Applies an update to a part of the parameter and returns the whole state; `state` has the moments of this
/// part.
fn on_part(state: State, range: Range<usize>, update: impl FnOnce(State) -> State) -> State {
    let [n] = state.parameter.dims();
    if range == (0..n) {
        return update(state);
    }
    let part = state.parameter.clone().slice([range.clone()]);
    let updated = update(State { parameter: part, ..state });
    State { parameter: state.parameter.slice_assign([range], updated.parameter), ..updated }
}

/// Computes [`update`] with burn's own operations.
///
/// # Shapes
/// - same as [`update`]
pub fn plain(state: State, gradient: Tensor<1>, step: AdamW) -> State {
    plain_parameter(plain_moments(state, gradient, step), step)
}

fn plain_moments(state: State, gradient: Tensor<1>, step: AdamW) -> State {
    let gradient = if step.gradient_scale == 1.0 { gradient } else { gradient * step.gradient_scale };
    let first = state.first * step.beta1 + gradient.clone() * (1.0 - step.beta1);
    let second = state.second * step.beta2 + gradient.clone() * gradient * (1.0 - step.beta2);
    State { parameter: state.parameter, first, second }
}

fn plain_parameter(state: State, step: AdamW) -> State {
    let update = plain_update(state.parameter.clone(), state.first.clone(), state.second.clone(), step);
    State { parameter: state.parameter - update * step.learning_rate, ..state }
}

/// Returns the update at learning rate 1, from moments that are already updated.
fn plain_update(parameter: Tensor<1>, first: Tensor<1>, second: Tensor<1>, step: AdamW) -> Tensor<1> {
    let update = match step.corrections {
        Some((c1, c2)) => first / c1 / ((second / c2).sqrt() + step.epsilon),
        None => first / (second.sqrt() + step.epsilon),
    };
    if step.weight_decay == 0.0 { update } else { update + parameter * step.weight_decay }
}

/// Hyperparameters of a step in f32.
#[derive(Clone, Copy)]
struct Rounded {
    beta1: f32,
    beta2: f32,
    /// `1 - beta1`
    weight1: f32,
    /// `1 - beta2`
    weight2: f32,
    correction1: f32,
    correction2: f32,
    epsilon: f32,
    decay: f32,
    scale: f32,
    rate: f32,
}

impl Rounded {
    #[inline(always)]
    fn new(step: AdamW) -> Self {
        let (correction1, correction2) = step.corrections.unwrap_or((1.0, 1.0));
        Self {
            beta1: step.beta1 as f32,
            beta2: step.beta2 as f32,
            weight1: (1.0 - step.beta1) as f32,
            weight2: (1.0 - step.beta2) as f32,
            correction1: correction1 as f32,
            correction2: correction2 as f32,
            epsilon: step.epsilon as f32,
            decay: step.weight_decay as f32,
            scale: step.gradient_scale as f32,
            rate: step.learning_rate as f32,
        }
    }

    #[inline(always)]
    fn update_moments(&self, m: &mut f32, v: &mut f32, g: f32) {
        let g = g * self.scale;
        *m = *m * self.beta1 + g * self.weight1;
        *v = *v * self.beta2 + g * g * self.weight2;
    }

    /// Returns the update at learning rate 1.
    #[inline(always)]
    fn update(&self, p: f32, m: f32, v: f32) -> f32 {
        (m / self.correction1) / ((v / self.correction2).sqrt() + self.epsilon) + p * self.decay
    }
}

vectorized! {
    fn update_chunk(p: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32], step: AdamW) {
        let step = Rounded::new(step);
        for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(g) {
            step.update_moments(m, v, *g);
            *p -= step.update(*p, *m, *v) * step.rate;
        }
    }
}

vectorized! {
    fn moments_chunk(m: &mut [f32], v: &mut [f32], g: &[f32], step: AdamW) {
        let step = Rounded::new(step);
        for ((m, v), g) in m.iter_mut().zip(v).zip(g) {
            step.update_moments(m, v, *g);
        }
    }
}

vectorized! {
    fn parameter_chunk(p: &mut [f32], m: &[f32], v: &[f32], step: AdamW) {
        let step = Rounded::new(step);
        for ((p, m), v) in p.iter_mut().zip(m).zip(v) {
            *p -= step.update(*p, *m, *v) * step.rate;
        }
    }
}

vectorized! {
    fn squares_of_update(p: &[f32], m: &[f32], v: &[f32], step: AdamW) -> f64 {
        let step = Rounded::new(step);
        let mut lanes = [0f64; SQUARES];
        for ((p, m), v) in p.chunks(SQUARES).zip(m.chunks(SQUARES)).zip(v.chunks(SQUARES)) {
            for (((lane, p), m), v) in lanes.iter_mut().zip(p).zip(m).zip(v) {
                let update = f64::from(step.update(*p, *m, *v));
                *lane += update * update;
            }
        }
        lanes.into_iter().sum()
    }
}

/// The order in which the sums of chunks are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormOrder {
    /// The order of the fused kernels: first the chunks of each tensor, then the tensors.
    ByTensor,
    /// The order of burn's own operations: all chunks of all tensors, one after the other.
    Flat,
}

impl NormOrder {
    /// Returns the order for tensors like `x`.
    pub fn for_tensor<const D: usize>(compute: Compute, x: &Tensor<D>) -> Self {
        match fused_path(compute, &[x]) {
            Some(_) => Self::ByTensor,
            None => Self::Flat,
        }
    }

    /// Returns the total of the sums of all chunks of all tensors, added in this order.
    pub fn total<'a>(self, tensors: impl Iterator<Item = &'a [f64]>) -> f64 {
        match self {
            Self::ByTensor => tensors.map(|chunks| chunks.iter().sum::<f64>()).sum(),
            Self::Flat => tensors.flatten().fold(0.0, |sum, chunk| sum + chunk),
        }
    }
}

/// Returns, for each tensor, the sums of the squares of its chunks of [`CHUNK`] elements; the last chunk may be
/// shorter.
///
/// On `Flex` each chunk is summed in f64; on other backends it is summed in the tensor's precision, and all sums are
/// copied to the host in one transfer.
///
/// # Shapes
///
/// - tensors: `[n]` each, with any `n`
pub fn chunk_squares(compute: Compute, tensors: &[Tensor<1>]) -> Vec<Vec<f64>> {
    if !all_are_fused(compute, tensors) {
        return transferred_chunk_squares(compute.kernels, tensors, None).0;
    }
    let sums = |x: &Tensor<1>| {
        let x = contiguous(Input::from(x.clone()).into_primitive());
        slice(&x).par_chunks(CHUNK).map(sum_of_squares).collect()
    };
    tensors.iter().map(sums).collect()
}

/// Returns [`chunk_squares`] and the values of another tensor; on a GPU, all of them are copied in one transfer.
///
/// # Shapes
///
/// - tensors: `[n]` each, with any `n`
/// - other: `[m]`
pub fn chunk_squares_and(
    compute: Compute,
    tensors: &[Tensor<1>],
    other: Tensor<1>,
) -> (Vec<Vec<f64>>, Vec<f32>) {
    if !all_are_fused(compute, tensors) {
        return transferred_chunk_squares(compute.kernels, tensors, Some(other));
    }
    (chunk_squares(compute, tensors), other.into_data().iter::<f32>().collect())
}

/// Returns whether the fused kernels can use all tensors.
fn all_are_fused(compute: Compute, tensors: &[Tensor<1>]) -> bool {
    tensors.iter().all(|x| fused_path(compute, &[x]).is_some())
}

/// Computes [`chunk_squares_and`] on the device of the tensors.
fn transferred_chunk_squares(
    kernels: Kernels,
    tensors: &[Tensor<1>],
    other: Option<Tensor<1>>,
) -> (Vec<Vec<f64>>, Vec<f32>) {
    let squares = (!tensors.is_empty()).then(|| joined_chunk_squares(kernels, tensors));
    let parts: Vec<Tensor<1>> = squares.into_iter().chain(other).collect();
    if parts.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let data = Tensor::cat(parts, 0).into_data();
    let mut values = data.iter::<f64>();
    // An empty tensor has one chunk.
    let lengths = tensors.iter().map(|x| x.dims()[0].div_ceil(CHUNK).max(1));
    let squares = lengths.map(|length| values.by_ref().take(length).collect()).collect();
    (squares, values.map(|value| value as f32).collect())
}

/// Returns the sums of the squares of all chunks of all tensors, one after the other.
fn joined_chunk_squares(kernels: Kernels, tensors: &[Tensor<1>]) -> Tensor<1> {
    #[cfg(feature = "cubecl")]
    if let Some(sums) = crate::gpu::squares::chunk_squares(kernels, tensors) {
        return sums;
    }
    #[cfg(not(feature = "cubecl"))]
    let _ = kernels;
    Tensor::cat(tensors.iter().map(|x| ordered_sum::parts(x.clone() * x.clone())).collect(), 0)
}

/// Returns, for each chunk of [`CHUNK`] elements, the sum of the squares of the update `u`, from moments that are
/// already updated. `u` is the change of the parameter at learning rate 1.
///
/// # Shapes
///
/// - all: `[n]`
pub fn update_squares(compute: Compute, state: &State, step: AdamW) -> Vec<f64> {
    let State { parameter, first, second } = state;
    if fused_path(compute, &[parameter, first, second]) != Some(TensorBackend::Flex) {
        let update = plain_update(parameter.clone(), first.clone(), second.clone(), step);
        return transferred_chunk_squares(compute.kernels, &[update], None).0.concat();
    }
    let [p, m, v] = [parameter, first, second].map(|x| contiguous(Input::from(x.clone()).into_primitive()));
    slice(&p)
        .par_chunks(CHUNK)
        .zip(slice(&m).par_chunks(CHUNK))
        .zip(slice(&v).par_chunks(CHUNK))
        .map(|((p, m), v)| squares_of_update(p, m, v, step))
        .collect()
}

/// Number of lanes of a sum of squares. They fill several vector registers, because successive additions to
/// one register wait for each other.
const SQUARES: usize = 64;

vectorized! {
    fn sum_of_squares(x: &[f32]) -> f64 {
        let mut lanes = [0f64; SQUARES];
        let chunks = x.chunks_exact(SQUARES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(*x) * f64::from(*x);
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(*x) * f64::from(*x);
        }
        lanes.into_iter().sum()
    }
}
