//! Gradient checkpointing: the forward pass saves only the input of each layer, and the backward pass computes each
//! layer again ("Training deep nets with sublinear memory cost", Chen, Xu, Zhang and Guestrin, 2016).
//!
//! Dropout masks depend on seed and position only, so both passes use the same masks, and every gradient has the same
//! bits as with [`BertModel::forward`]. A step costs one additional forward pass of the layers.

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};

use crate::layers::dropout::{Mode, SelectedTokens};
use crate::models::bert::{BertInput, BertModel};

/// State of a forward pass that the backward pass needs.
pub struct RecomputeState {
    /// A copy of the model that shares its parameters.
    model: BertModel,
    input: BertInput,
    /// The tokens that the heads read.
    tokens: SelectedTokens,
    mode: Mode,
    /// `[batch, 1, 1, seq]`.
    bias: Tensor<4>,
    /// `layers` times `[batch, seq, hidden]`: the input of each layer, without autodiff.
    inputs: Vec<Tensor<3>>,
    /// The input of the heads, `[n, hidden]`: a leaf of the graph of the loss.
    output: Tensor<2>,
}

impl BertModel {
    /// Returns the states like [`Self::selected_states`], but they are a leaf of the graph.
    /// [`RecomputeState::backward`] computes the gradients of layers and embeddings.
    ///
    /// # Shapes
    /// - same as [`Self::selected_states`]
    pub fn forward_recomputing(
        &self,
        input: BertInput,
        tokens: SelectedTokens,
        mode: Mode,
    ) -> (Tensor<2>, RecomputeState) {
        let inner = self.clone().valid();
        let BertInput { input_ids, input_mask, segment_ids } = input.clone();
        let without = BertInput {
            input_ids: input_ids.inner(),
            input_mask: input_mask.inner(),
            segment_ids: segment_ids.inner(),
        };
        let (hidden, inner_bias) = inner.embed(without, mode);
        let (inputs, output) =
            inner.encoder.inputs_and_selected(hidden, inner_bias, &tokens.clone().inner(), mode);
        let output = output.autodiff().require_grad();
        let bias = crate::layers::attention::attention_bias(input.input_mask.clone());
        let model = self.clone();
        let state = RecomputeState { model, input, tokens, mode, bias, inputs, output: output.clone() };
        (output, state)
    }
}

impl RecomputeState {
    /// Returns the gradients of the layers, from the last to the first, and of the embeddings. `loss_gradients` holds
    /// the gradients of a loss of the output; the gradients of the hidden states and of the word embeddings are removed
    /// from it.
    ///
    /// Returns an empty list if the loss has no gradient for the hidden states.
    pub fn backward(self, loss_gradients: &mut Gradients) -> Vec<Gradients> {
        let Self { model, input, tokens, mode, bias, mut inputs, output } = self;
        let Some(gradient) = output.grad_remove(loss_gradients) else { return Vec::new() };
        let mut all = Vec::with_capacity(inputs.len() + 1);
        let (last, before) = model.encoder.layer.split_last().expect("at least one layer");
        let hidden = inputs.pop().expect("an input for each layer");
        let (gradients, mut gradient) = recomputed(hidden, gradient, |hidden| {
            last.forward(hidden, bias.clone(), mode, before.len(), Some(&tokens)).0.squeeze_dim(0)
        });
        all.push(gradients);
        for ((index, layer), hidden) in before.iter().enumerate().zip(inputs).rev() {
            let gradients;
            (gradients, gradient) = recomputed(hidden, gradient, |hidden| {
                layer.forward(hidden, bias.clone(), mode, index, None).0
            });
            all.push(gradients);
        }
        let mut embedding_loss = weighted(model.embed(input, mode).0, gradient);
        // Adds the gradient of the embedding lookup to the table's gradient from the masked-LM head. The order is the
        // order of a pass without recomputation, because burn computes the second term's gradients first.
        let table = model.embeddings.word_embeddings.weight.val();
        if let Some(table_gradient) = table.grad_remove(loss_gradients) {
            embedding_loss = embedding_loss + weighted(table, table_gradient);
        }
        all.push(embedding_loss.backward());
        all
    }
}

/// Computes a layer again, and its backward pass. `gradient` is the gradient of the layer's output. Returns the
/// gradients of the layer's parameters, and the gradient of its input.
fn recomputed<const D: usize>(
    hidden: Tensor<3>,
    gradient: Tensor<D>,
    layer: impl FnOnce(Tensor<3>) -> Tensor<D>,
) -> (Gradients, Tensor<3>) {
    let hidden = hidden.autodiff().require_grad();
    let mut gradients = weighted(layer(hidden.clone()), gradient).backward();
    let gradient = hidden.grad_remove(&mut gradients).expect("a layer's output depends on its input");
    (gradients, gradient)
}

/// Returns a scalar whose gradient with respect to `x` is `gradient`.
fn weighted<const D: usize>(x: Tensor<D>, gradient: Tensor<D>) -> Tensor<1> {
    (x * gradient.autodiff()).sum()
}
