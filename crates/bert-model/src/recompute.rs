//! A pass through the encoder that keeps the input of each layer only, and computes the layer once more for its
//! gradients ("Training deep nets with sublinear memory cost", Chen, Xu, Zhang and Guestrin, 2016).
//!
//! Dropout is a function of seed and place, so the second pass drops what the first did, and every gradient has the
//! bits of [`BertModel::forward`]'s. A step takes a forward pass more.

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};

use crate::dropout::Mode;
use crate::model::{BertInput, BertModel, BertOutput};

/// State of a forward pass that the backward pass needs.
pub struct Kept {
    /// Shares its parameters with the model of the pass.
    model: BertModel,
    input: BertInput,
    mode: Mode,
    /// `[batch, 1, 1, seq]`.
    bias: Tensor<4>,
    /// `layers` times `[batch, seq, hidden]`: the input of each layer, without autodiff.
    inputs: Vec<Tensor<3>>,
    /// The heads' input.
    output: Tensor<3>,
}

impl BertModel {
    /// [`Self::forward`]; gradients reach the pooler and stop at the hidden states, for [`Kept::backward`].
    ///
    /// # Shapes
    ///
    /// - as for [`Self::forward`]
    pub fn forward_recomputing(&self, input: BertInput, mode: Mode) -> (BertOutput, Kept) {
        let inner = self.clone().valid();
        let BertInput { input_ids, input_mask, segment_ids } = input.clone();
        let without = BertInput {
            input_ids: input_ids.inner(),
            input_mask: input_mask.inner(),
            segment_ids: segment_ids.inner(),
        };
        let (hidden, inner_bias) = inner.embed(without, mode);
        let mut inputs = inner.encoder.states(hidden, inner_bias, mode, None);
        let output = inputs.pop().expect("the input at least").autodiff().require_grad();
        let pooled_output = self.pooler.forward(output.clone());
        let bias = crate::attention::attention_bias(input.input_mask.clone());
        let kept = Kept { model: self.clone(), input, mode, bias, inputs, output: output.clone() };
        (BertOutput { sequence_output: output, pooled_output }, kept)
    }
}

impl Kept {
    /// Returns the gradients of layers (the last layer's first) and embeddings, given the gradients of a loss of the
    /// output.
    ///
    /// Returns an empty list if the loss has no gradient for the hidden states.
    pub fn backward(self, of_loss: &mut Gradients) -> Vec<Gradients> {
        let Self { model, input, mode, bias, inputs, output } = self;
        let Some(mut gradient) = output.grad_remove(of_loss) else { return Vec::new() };
        let mut all = Vec::with_capacity(inputs.len() + 1);
        let layers = model.encoder.layer.iter().enumerate().rev();
        for ((index, layer), hidden) in layers.zip(inputs.into_iter().rev()) {
            let hidden = hidden.autodiff().require_grad();
            let (again, _) = layer.forward(hidden.clone(), bias.clone(), mode, index, None);
            let mut gradients = weighted(again, gradient).backward();
            gradient = hidden.grad_remove(&mut gradients).expect("a layer's output depends on its input");
            all.push(gradients);
        }
        let mut of_embeddings = weighted(model.embed(input, mode).0, gradient);
        // Each word's gradient is added to the table's from the masked-LM head, in the order of a pass that keeps
        // everything: of two terms burn goes down the second first.
        let table = model.embeddings.word_embeddings.weight.val();
        if let Some(of_table) = table.grad_remove(of_loss) {
            of_embeddings = of_embeddings + weighted(table, of_table);
        }
        all.push(of_embeddings.backward());
        all
    }
}

/// A number whose gradient with regard to `x` is `gradient`.
fn weighted<const D: usize>(x: Tensor<D>, gradient: Tensor<D>) -> Tensor<1> {
    (x * gradient.autodiff()).sum()
}
