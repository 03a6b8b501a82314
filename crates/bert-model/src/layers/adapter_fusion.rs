//! AdapterFusion: attention over the outputs of several adapters (Pfeiffer et al. 2021).

use bert_kernels::Compute;
use bert_kernels::layer_norm::{LayerNormParameters, layer_norm};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, activation};

use crate::config::adapter::BottleneckForm;
use crate::layers::bottleneck_adapter::Bottleneck;
use crate::layers::dropout::TokenMasks;
use crate::layers::linear::linear;

/// The adapters of one layer and the attention over them.
#[derive(Module, Debug)]
pub struct AdapterFusion {
    /// The frozen adapters, in the order of the attention weights.
    pub adapters: Vec<Bottleneck>,
    /// `hidden -> hidden`.
    pub query: Linear,
    /// `hidden -> hidden`.
    pub key: Linear,
    /// `hidden -> hidden`, without bias.
    pub value: Linear,
    dropout_prob: f64,
}

impl AdapterFusion {
    pub(crate) fn zeroed(hidden: usize, reductions: &[f64], dropout_prob: f64, device: &Device) -> Self {
        let adapter =
            |&reduction: &f64| Bottleneck::zeroed(BottleneckForm::Pfeiffer, hidden, reduction, device);
        Self {
            adapters: reductions.iter().map(adapter).collect(),
            query: linear(hidden, hidden, device),
            key: linear(hidden, hidden, device),
            value: LinearConfig::new(hidden, hidden).with_bias(false).init(device),
            dropout_prob,
        }
    }

    /// Returns the attention weights of the adapters, `[batch, seq, adapters]`, and the mixture,
    /// `[batch, seq, hidden]`.
    fn mix(&self, compute: Compute, x: Tensor<3>, masks: TokenMasks<'_>) -> (Tensor<3>, Tensor<3>) {
        let [batch, seq, hidden] = x.dims();
        let added: Vec<Tensor<3>> =
            self.adapters.iter().map(|adapter| adapter.forward(compute, x.clone())).collect();
        let added: Tensor<4> = Tensor::stack(added, 2); // [batch, seq, adapters, hidden]
        let query = self.query.forward(x).reshape([batch, seq, 1, hidden]);
        let scores = (self.key.forward(added.clone()) * query).sum_dim(3); // [batch, seq, adapters, 1]
        let scores = masks.apply(scores.reshape([batch, seq, self.adapters.len()]), self.dropout_prob);
        let shares = activation::softmax(scores, 2); // [batch, seq, adapters]
        let values = self.value.forward(added);
        let mixture = (values * shares.clone().reshape([batch, seq, self.adapters.len(), 1])).sum_dim(2);
        (shares, mixture.reshape([batch, seq, hidden]))
    }

    /// Computes the end of the block: mixture, residual and LayerNorm. Returns the output and the attention weights.
    ///
    /// # Shapes
    /// - h, input and output: `[batch, seq, hidden]`; shares: `[batch, seq, adapters]`
    pub(crate) fn finish_block(
        &self,
        compute: Compute,
        h: Tensor<3>,
        input: Tensor<3>,
        norm: LayerNormParameters,
        masks: TokenMasks<'_>,
    ) -> (Tensor<3>, Tensor<3>) {
        let sum = h + input;
        let x = layer_norm(compute, sum.clone(), norm.clone());
        let (shares, mixture) = self.mix(compute, x, masks);
        (layer_norm(compute, mixture + sum, norm), shares)
    }

    /// Returns the squared distance of V from the identity, `[1]`.
    pub fn distance(&self) -> Tensor<1> {
        let value = self.value.weight.val();
        let [hidden, _] = value.dims();
        let identity = Tensor::<2>::eye(hidden, &value.device());
        (value - identity).square().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::parameter_names::map_parameters;
    use crate::layers::dropout::{Mode, Site};

    fn tensor(values: &[f32], shape: [usize; 3], device: &Device) -> Tensor<3> {
        Tensor::<1>::from_data(values, device).reshape(shape)
    }

    /// Two adapters with values set by hand: `V` is the identity, and a score is the query times the adapter's output.
    #[test]
    fn mixture_is_attention_over_adapter_outputs() {
        let device = Device::flex();
        let fusion = AdapterFusion::zeroed(2, &[1.0, 2.0], 0.0, &device);
        let identity = |at: usize| if at == 0 || at == 3 { 1.0 } else { 0.0 };
        let fusion = map_parameters(fusion, |name, shape| {
            let len: usize = shape.iter().product();
            Some(match name {
                "adapters.0.up.bias" => vec![1.0, 0.0],
                "adapters.1.up.bias" => vec![0.0, 3.0],
                _ if name.ends_with("query.weight")
                    || name.ends_with("key.weight")
                    || name.ends_with("value.weight") =>
                {
                    (0..4).map(identity).collect()
                }
                _ => vec![0.0; len],
            })
        });
        let x = tensor(&[2.0, 0.5], [1, 1, 2], &device);
        let masks = TokenMasks { key: Mode::Eval.site(Site::Classifier), tokens: None };
        let (shares, mixture) = fusion.mix(Compute::default(), x, masks);
        // The scores are 2 * 1 and 0.5 * 3, so the weights are proportional to e^2 and e^1.5.
        let share = 1.0 / (1.0 + (-0.5f32).exp());
        let shares: Vec<f32> = shares.into_data().try_to_vec().unwrap();
        let mixture: Vec<f32> = mixture.into_data().try_to_vec().unwrap();
        assert!((shares[0] - share).abs() < 1e-6 && (shares[1] - (1.0 - share)).abs() < 1e-6, "{shares:?}");
        assert!(
            (mixture[0] - share).abs() < 1e-6 && (mixture[1] - 3.0 * (1.0 - share)).abs() < 1e-5,
            "{mixture:?}"
        );
        let distance: Vec<f32> = fusion.distance().into_data().try_to_vec().unwrap();
        assert_eq!(distance, [0.0]);
    }
}
