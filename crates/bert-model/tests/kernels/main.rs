//! Compares losses and gradients of the whole model on fused and on plain operations.

use bert_kernels::Kernels;
use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertInput, Gelu, LossNormalizer, Mode, Preset,
    PretrainingInput, PretrainingTargets, named_parameters,
};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};

const BATCH: usize = 3;
const SEQ: usize = 21;

fn ints<const D: usize>(values: impl Iterator<Item = usize>, shape: [usize; D]) -> Tensor<D, Int> {
    let values: Vec<i64> = values.map(|x| x as i64).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex().autodiff())
}

struct Collect<'a> {
    gradients: &'a Gradients,
    values: Vec<Vec<f32>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.gradients).expect("every parameter has a gradient");
        self.values.push(gradient.into_data().iter::<f32>().collect());
    }
}

/// Returns both losses and all gradients of one pass with dropout.
fn pass(config: &BertConfig, kernels: Kernels) -> (Vec<f32>, Vec<Vec<f32>>) {
    let mut config = config.clone();
    config.compute.kernels = kernels;
    let model = &BertForPreTraining::new(&config, 5, &Device::flex().autodiff());
    let grid = [BATCH, SEQ];
    let places = 0..BATCH * SEQ;
    let bert = BertInput {
        input_ids: ints(places.clone().map(|i| i * 37 % 700), grid),
        // The last row is all padding.
        input_mask: ints(
            places.clone().map(|i| usize::from(i / SEQ < 2 && i % SEQ < SEQ - 3 * (i / SEQ))),
            grid,
        ),
        segment_ids: ints(places.map(|i| usize::from(i % SEQ > 9)), grid),
    };
    let input = PretrainingInput { bert, masked_lm_positions: ints([1, 5, 22, 30, 31].into_iter(), [5]) };
    let targets = PretrainingTargets {
        masked_lm_ids: ints([3, 699, 512, 511, 0].into_iter(), [5]),
        masked_lm_weights: Tensor::from_data(
            TensorData::new(vec![1.0f32, 1.0, 1.0, 0.0, 1.0], [5]),
            &Device::flex().autodiff(),
        ),
        next_sentence_labels: ints([0, 1, 1].into_iter(), [3]),
    };
    let normalizer = LossNormalizer { masked_lm: 4.0, next_sentence: Some(3.0) };
    let loss = model.loss(input, targets, normalizer, Mode::train(11));
    let losses = [&loss.masked_lm, &loss.next_sentence].map(|loss| loss.clone().into_scalar::<f32>());
    let gradients = loss.total.backward();
    let mut collect = Collect { gradients: &gradients, values: Vec::new() };
    model.visit(&mut collect);
    (losses.to_vec(), collect.values)
}

#[test]
fn fused_and_plain_passes_agree() {
    let mut config = BertConfig::preset(Preset::Tiny, 700);
    for hidden_act in [Gelu::Erf, Gelu::Tanh] {
        config.hidden_act = hidden_act;
        let model = BertForPreTraining::new(&config, 5, &Device::flex().autodiff());
        let names = named_parameters(&model).into_iter().map(|(name, ..)| name);
        let (losses, gradients) = pass(&config, Kernels::Fused);
        let (plain_losses, plain_gradients) = pass(&config, Kernels::Plain);
        for (got, want) in losses.iter().zip(&plain_losses) {
            assert!((got - want).abs() < 1e-5 * want, "{got} is not {want}");
        }
        assert_eq!(gradients.len(), plain_gradients.len());
        for ((name, got), want) in names.zip(&gradients).zip(&plain_gradients) {
            let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let difference: Vec<f32> = got.iter().zip(want).map(|(got, want)| got - want).collect();
            // The gradient of the keys' bias is rounding error only, at most 1e-6.
            assert!(norm(&difference) < 2e-5 * norm(want) + 1e-6, "{hidden_act:?}: {name}");
        }
        assert_eq!((losses, gradients), pass(&config, Kernels::Fused), "a second fused pass differs");
    }
}
