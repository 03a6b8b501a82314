//! Multi-head attention to the same or to a different sequence (Vaswani et al., 2017, section 3.2).

use bert_kernels::attention::AttentionSettings;
use bert_kernels::{Compute, attention};
use bert_model::layers::linear::{affine, linear, product};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

/// Projected keys and values of a sequence. A decoder keeps them between steps.
#[derive(Clone, Debug)]
pub struct KeysAndValues {
    /// `[batch, keys, hidden]`
    pub keys: Tensor<3>,
    /// `[batch, keys, hidden]`
    pub values: Tensor<3>,
}

impl KeysAndValues {
    /// Appends the keys and values of later positions.
    ///
    /// # Shapes
    /// - self: `[batch, m, hidden]`; later: `[batch, n, hidden]`
    /// - output: `[batch, m + n, hidden]`
    #[must_use]
    pub fn followed_by(self, later: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, later.keys], 1),
            values: Tensor::cat(vec![self.values, later.values], 1),
        }
    }

    /// Returns the given rows of the batch.
    #[must_use]
    pub fn select(&self, rows: burn::tensor::Tensor<1, burn::tensor::Int>) -> Self {
        let select = |x: &Tensor<3>| x.clone().select(0, rows.clone());
        Self { keys: select(&self.keys), values: select(&self.values) }
    }
}

/// The four projections of multi-head attention.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// `hidden -> hidden`.
    pub query: Linear,
    /// `memory -> hidden`.
    pub key: Linear,
    /// `memory -> hidden`.
    pub value: Linear,
    /// `hidden -> hidden`.
    pub output: Linear,
    heads: usize,
    #[module(skip)]
    compute: Compute,
}

impl MultiHeadAttention {
    /// Creates the attention of queries of width `hidden` to a sequence of width `memory`, all zeros.
    pub fn zeroed(hidden: usize, memory: usize, heads: usize, compute: Compute, device: &Device) -> Self {
        Self {
            query: linear(hidden, hidden, device),
            key: linear(memory, hidden, device),
            value: linear(memory, hidden, device),
            output: linear(hidden, hidden, device),
            heads,
            compute,
        }
    }

    /// Projects a sequence to keys and values.
    ///
    /// # Shapes
    /// - memory: `[batch, keys, memory]`
    /// - output: `[batch, keys, hidden]` each
    pub fn project(&self, memory: Tensor<3>) -> KeysAndValues {
        KeysAndValues {
            keys: affine(self.compute, &self.key, memory.clone()),
            values: affine(self.compute, &self.value, memory),
        }
    }

    /// Returns the attention's output without the bias of the output projection, and this bias, which the caller adds.
    ///
    /// # Shapes
    /// - x and output: `[batch, queries, hidden]`; bias of the output: `[hidden]`
    /// - memory: `[batch, keys, hidden]` each
    /// - bias: `[batch or 1, 1, queries or 1, keys]`, 0 or a large negative number
    pub fn forward(&self, x: Tensor<3>, memory: &KeysAndValues, bias: Tensor<4>) -> (Tensor<3>, Tensor<1>) {
        let scale = 1.0 / ((x.dims()[2] / self.heads) as f64).sqrt();
        let query = affine(self.compute, &self.query, x);
        let qkv = [query, memory.keys.clone(), memory.values.clone()];
        let context = attention::attention(
            self.compute,
            qkv,
            bias,
            AttentionSettings { heads: self.heads, scale, dropout: None },
        );
        product(self.compute, &self.output, context)
    }
}
