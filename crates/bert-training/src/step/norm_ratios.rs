//! Updates a model by a rule whose learning rate depends on norms of whole parameters, such as LAMB.
//!
//! The sums of squares of the chunks are added in f64 in the order of the chunks, so the ratios do not depend on the
//! number of ranks.

use burn::module::Module;

use crate::error::Error;
use crate::gradients::gradient_sum::Segment;
use crate::group::{Group, visit_parameters};
use crate::optimizer::update_rule::{NormSquares, UpdateByNorms};
use crate::optimizer::{Optimizer, StepGradients, Update};

/// Returns the module after one update by any rule.
///
/// # Errors
/// Fails as [`Group::gather`] does.
pub(crate) fn update<M: Module>(
    group: &mut Group,
    optimizer: &mut Optimizer,
    module: M,
    gradients: StepGradients,
    update: Update,
) -> Result<M, Error> {
    let rule = optimizer.rule().clone();
    let Some(by_norms) = rule.by_norms() else {
        return Ok(optimizer.update(module, gradients, update));
    };
    let tensors = gradients.tensors.clone();
    let module = optimizer.update(module, gradients, update);
    let ratios = ratios(group, optimizer, by_norms, &module)?;
    Ok(optimizer.apply(module, tensors, &ratios, update.learning_rate))
}

/// Returns, for each parameter, the factor by which its learning rate is multiplied.
fn ratios<M: Module>(
    group: &mut Group,
    optimizer: &Optimizer,
    by_norms: &dyn UpdateByNorms,
    module: &M,
) -> Result<Vec<f64>, Error> {
    let layout = optimizer.layout();
    let mut squares = Vec::new();
    visit_parameters(module, |tensor, value| squares.push(optimizer.squares(tensor, value)));
    let mut own = Vec::new();
    for Segment { tensor, range } in layout.segments(group.rank()) {
        let chunks = range.len().div_ceil(bert_kernels::adamw::CHUNK);
        let NormSquares { parameter_squares, update_squares } = std::mem::take(&mut squares[*tensor])
            .unwrap_or_else(|| NormSquares {
                parameter_squares: vec![0.0; chunks],
                update_squares: vec![0.0; chunks],
            });
        own.extend(
            parameter_squares.into_iter().zip(update_squares).flat_map(|(p, u)| [p.to_bits(), u.to_bits()]),
        );
    }
    let all = group.gather(own, |rank| 2 * layout.chunks(rank))?.concat();
    let chunks = all.chunks_exact(2).map(|bits| [f64::from_bits(bits[0]), f64::from_bits(bits[1])]);
    Ok(layout.by_tensor(chunks).iter().map(|chunks| ratio(by_norms, chunks)).collect())
}

/// Returns the ratio of a parameter, from the sums of squares of the parameter's chunks and of its update's chunks.
fn ratio(by_norms: &dyn UpdateByNorms, chunks: &[[f64; 2]]) -> f64 {
    let norm = |side: usize| chunks.iter().map(|squares| squares[side]).sum::<f64>().sqrt();
    by_norms.ratio(norm(0), norm(1))
}

#[cfg(test)]
mod tests {
    use burn::module::Param;
    use burn::tensor::Tensor;

    use super::*;
    use crate::gradients::gradient_sum::GradientSum;
    use crate::optimizer::OptimizerConfig;
    use crate::optimizer::optimizer_args::OptimizerName;

    #[derive(Module, Debug)]
    struct Decayed {
        weight: Param<Tensor<1>>,
    }

    #[derive(Module, Debug)]
    struct Excluded {
        bias: Param<Tensor<1>>,
    }

    fn update_with<M: Module>(
        optimizer: &mut Optimizer,
        module: M,
        parameter: &Tensor<1>,
        gradient: [f32; 2],
    ) -> M {
        let loss = (parameter.clone() * Tensor::from_data(gradient, &parameter.device())).sum();
        let mut sum = GradientSum::starting_at(0);
        sum.add(&module, [loss.backward()]);
        let gradients = StepGradients::complete(sum.total());
        let norm = gradient.map(|g| f64::from(g).powi(2)).iter().sum::<f64>().sqrt();
        update(&mut Group::alone(), optimizer, module, gradients, Update { norm, learning_rate: 1e-2 })
            .unwrap()
    }

    fn trajectory<M: Module>(
        mut module: M,
        value: fn(&M) -> Tensor<1>,
        bias_correction: bool,
    ) -> Vec<[f32; 2]> {
        let config =
            OptimizerConfig { rule: OptimizerName::Lamb, bias_correction, ..OptimizerConfig::default() };
        let mut optimizer = Optimizer::new(config, &module);
        let gradients = [[0.5, -0.25], [-0.3, 0.1], [0.2, 0.4], [1.5, -2.0], [0.0, 0.1], [0.3, -0.3]];
        let mut values = Vec::new();
        for gradient in gradients {
            let parameter = value(&module);
            module = update_with(&mut optimizer, module, &parameter, gradient);
            let values_now = value(&module).inner().into_data().iter::<f32>().collect::<Vec<_>>();
            values.push([values_now[0], values_now[1]]);
        }
        values
    }

    fn parameter() -> Param<Tensor<1>> {
        Param::from_data([0.6f32, -0.8], &burn::tensor::Device::flex().autodiff())
    }

    fn assert_close(got: &[[f32; 2]], want: [[f64; 2]; 6]) {
        for (got, want) in got.concat().into_iter().zip(want.concat()) {
            assert!((f64::from(got) - want).abs() < 3e-7, "{got} is not {want}");
        }
    }

    // Golden trajectories: the equations computed in f64 for p = (0.6, -0.8), learning rate 1e-2 and a clipping norm of
    // 1, which the fourth gradient exceeds. Tolerance: f32 rounding.
    #[test]
    fn golden_trajectory_with_trust_ratio() {
        let decayed = Decayed { weight: parameter() };
        assert_close(
            &trajectory(decayed, |module| module.weight.val(), true),
            [
                [0.592935951, -0.792921921],
                [0.588108561, -0.784277493],
                [0.581368796, -0.791395910],
                [0.572802072, -0.786595811],
                [0.563918705, -0.782624751],
                [0.555606500, -0.777730078],
            ],
        );
    }

    #[test]
    fn excluded_parameters_have_no_ratio() {
        let excluded = Excluded { bias: parameter() };
        assert_close(
            &trajectory(excluded, |module| module.bias.val(), true),
            [
                [0.590000020, -0.790000040],
                [0.588085044, -0.786544000],
                [0.584610777, -0.790354000],
                [0.578516734, -0.786985956],
                [0.573365880, -0.784736465],
                [0.567453025, -0.781299714],
            ],
        );
    }

    #[test]
    fn golden_trajectory_without_bias_correction() {
        let decayed = Decayed { weight: parameter() };
        assert_close(
            &trajectory(decayed, |module| module.weight.val(), false),
            [
                [0.592930941, -0.792926924],
                [0.588125143, -0.784270462],
                [0.581492580, -0.791488928],
                [0.572901858, -0.786728853],
                [0.563988954, -0.782820397],
                [0.555651973, -0.777964073],
            ],
        );
    }

    #[test]
    fn a_zero_norm_has_ratio_one() {
        let rule = OptimizerConfig { rule: OptimizerName::Lamb, ..OptimizerConfig::default() }.update_rule();
        let ratio = |chunks: &[[f64; 2]]| ratio(rule.by_norms().unwrap(), chunks);
        assert_eq!(ratio(&[[0.0, 4.0], [0.0, 0.0]]), 1.0);
        assert_eq!(ratio(&[[4.0, 0.0]]), 1.0);
        assert_eq!(ratio(&[[4.0, 1.0], [5.0, 0.0]]), 3.0);
    }
}
