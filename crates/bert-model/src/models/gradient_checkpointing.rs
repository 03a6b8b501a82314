//! Gradient checkpointing: the forward pass saves only the input of each layer, and the backward pass computes each
//! layer again ("Training deep nets with sublinear memory cost", Chen, Xu, Zhang and Guestrin, 2016).
//!
//! Dropout masks depend on seed and position only, so both passes use the same masks, and every gradient has the same
//! bits as with [`BertModel::forward`]. A step costs one additional forward pass of the layers.

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};

use crate::layers::dropout::Mode;
use crate::models::bert::{BertInput, BertModel, BertOutput};

/// State of a forward pass that the backward pass needs.
pub struct RecomputeState {
    /// The model of the pass; shares its parameters.
    model: BertModel,
    input: BertInput,
    mode: Mode,
    /// `[batch, 1, 1, seq]`.
    bias: Tensor<4>,
    /// `layers` times `[batch, seq, hidden]`: the input of each layer, without autodiff.
    inputs: Vec<Tensor<3>>,
    /// The input of the heads, `[batch, seq, hidden]`: a leaf of the graph of the loss.
    output: Tensor<3>,
}

impl BertModel {
    /// Same as [`Self::forward`], but the graph of the output contains the pooler only. [`RecomputeState::backward`]
    /// computes the gradients of layers and embeddings.
    ///
    /// # Shapes
    /// - same as [`Self::forward`]
    pub fn forward_recomputing(&self, input: BertInput, mode: Mode) -> (BertOutput, RecomputeState) {
        let inner = self.clone().valid();
        let BertInput { input_ids, input_mask, segment_ids } = input.clone();
        let without = BertInput {
            input_ids: input_ids.inner(),
            input_mask: input_mask.inner(),
            segment_ids: segment_ids.inner(),
        };
        let (hidden, inner_bias) = inner.embed(without, mode);
        let mut inputs = inner.encoder.states(hidden, inner_bias, mode);
        let output = inputs.pop().expect("the input at least").autodiff().require_grad();
        let pooled_output = self.pooler.forward(output.clone());
        let bias = crate::layers::attention::attention_bias(input.input_mask.clone());
        let state = RecomputeState { model: self.clone(), input, mode, bias, inputs, output: output.clone() };
        (BertOutput { sequence_output: output, pooled_output }, state)
    }
}

impl RecomputeState {
    /// Returns the gradients of the layers, from the last to the first, and of the embeddings. `loss_gradients` holds
    /// the gradients of a loss of the output; the gradients of the hidden states and of the word embeddings are removed
    /// from it.
    ///
    /// Returns an empty list if the loss has no gradient for the hidden states.
    pub fn backward(self, loss_gradients: &mut Gradients) -> Vec<Gradients> {
        let Self { model, input, mode, bias, inputs, output } = self;
        let Some(mut gradient) = output.grad_remove(loss_gradients) else { return Vec::new() };
        let mut all = Vec::with_capacity(inputs.len() + 1);
        let layers = model.encoder.layer.iter().enumerate().rev();
        for ((index, layer), hidden) in layers.zip(inputs.into_iter().rev()) {
            let hidden = hidden.autodiff().require_grad();
            let (recomputed, _) = layer.forward(hidden.clone(), bias.clone(), mode, index);
            let mut gradients = weighted(recomputed, gradient).backward();
            gradient = hidden.grad_remove(&mut gradients).expect("a layer's output depends on its input");
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

/// Returns a scalar whose gradient with respect to `x` is `gradient`.
fn weighted<const D: usize>(x: Tensor<D>, gradient: Tensor<D>) -> Tensor<1> {
    (x * gradient.autodiff()).sum()
}
