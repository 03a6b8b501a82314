//! BERT as a graph of ONNX operators. The weights have the names of `transformers`.

use bert_model::{BertConfig, Gelu, NamedTensors};

use crate::export::onnx::graph::{Attribute, Dim, Element, Graph};

/// Number that is added to the attention scores of padding, as in the reference.
const PADDING_SCORE: f32 = -10_000.0;

/// The head of an exported model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Hidden states, and the pooled output if the model has a pooler.
    Encoder,
    MaskedLm,
    Sequence,
    Token,
    Answers,
}

const BATCH: Dim = Dim::Named("batch");
const LENGTH: Dim = Dim::Named("sequence");

/// A network under construction.
pub(super) struct Network<'a> {
    pub(super) graph: Graph,
    config: &'a BertConfig,
    /// Tensors with the prefix `bert.`, unless `prefix` is empty.
    tensors: &'a NamedTensors,
    prefix: &'static str,
}

impl<'a> Network<'a> {
    /// Builds the encoder and a head.
    pub(super) fn build(
        config: &'a BertConfig,
        tensors: &'a NamedTensors,
        head: Head,
        element: Element,
    ) -> Graph {
        let has_prefix = tensors.keys().any(|name| name.starts_with("bert."));
        let prefix = if has_prefix { "bert." } else { "" };
        let mut network = Self { graph: Graph::new(element), config, tensors, prefix };
        let states = network.encoder();
        network.head(&states, head);
        network.graph
    }

    fn encoder(&mut self) -> String {
        let [ids, mask, segments] = ["input_ids", "attention_mask", "token_type_ids"]
            .map(|name| self.graph.input(name, &[BATCH, LENGTH]));
        for (name, values) in [
            ("zero", &[0][..]),
            ("one", &[1]),
            ("mask_axes", &[1, 2]),
            ("merged_heads", &[0, 0, self.config.hidden_size as i64]),
            ("split_heads", &[0, 0, self.config.num_attention_heads as i64, self.head_size() as i64]),
        ] {
            self.graph.integers(name, values);
        }
        let mut states = self.embeddings(&ids, &segments);
        let element = self.graph.element as i64;
        let mask = self.graph.node("Cast", &[&mask], &[("to", Attribute::Int(element))]);
        let one = self.graph.scalar("one_float", 1.0);
        let padding = self.graph.node("Sub", &[&one, &mask], &[]);
        let score = self.graph.scalar("padding_score", PADDING_SCORE);
        let padding = self.graph.node("Mul", &[&padding, &score], &[]);
        let padding = self.graph.node("Unsqueeze", &[&padding, "mask_axes"], &[]);
        let scale = (self.head_size() as f32).sqrt().recip();
        self.graph.scalar("attention_scale", scale);
        if self.config.hidden_act == Gelu::Erf {
            self.graph.scalar("sqrt_half", 0.5f32.sqrt());
        } else {
            self.graph.scalar("sqrt_two_over_pi", (2.0 / std::f32::consts::PI).sqrt());
            self.graph.scalar("cubic", 0.044_715);
        }
        self.graph.scalar("half", 0.5);
        for layer in 0..self.config.num_hidden_layers {
            states = self.layer(&format!("{}encoder.layer.{layer}", self.prefix), &states, &padding);
        }
        states
    }

    fn head_size(&self) -> usize {
        self.config.hidden_size / self.config.num_attention_heads
    }

    fn embeddings(&mut self, ids: &str, segments: &str) -> String {
        let table = format!("{}embeddings", self.prefix);
        let [words, positions, types] = ["word", "position", "token_type"]
            .map(|name| self.tensor(&format!("{table}.{name}_embeddings.weight")));
        let words = self.graph.node("Gather", &[&words, ids], &[]);
        let types = self.graph.node("Gather", &[&types, segments], &[]);
        let shape = self.graph.node("Shape", &[ids], &[]);
        let length = self.graph.node("Gather", &[&shape, "one"], &[]);
        let positions = self.graph.node("Slice", &[&positions, "zero", &length, "zero"], &[]);
        let sum = self.graph.node("Add", &[&words, &types], &[]);
        let sum = self.graph.node("Add", &[&sum, &positions], &[]);
        self.layer_norm(&format!("{table}.LayerNorm"), &sum)
    }

    fn layer(&mut self, name: &str, states: &str, padding: &str) -> String {
        let [query, key, value] = [("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])]
            .map(|(part, order)| {
                let projected = self.dense(&format!("{name}.attention.self.{part}"), states);
                let heads = self.graph.node("Reshape", &[&projected, "split_heads"], &[]);
                self.graph.node("Transpose", &[&heads], &[("perm", Attribute::Ints(&order))])
            });
        let scores = self.graph.node("MatMul", &[&query, &key], &[]);
        let scores = self.graph.node("Mul", &[&scores, "attention_scale"], &[]);
        let scores = self.graph.node("Add", &[&scores, padding], &[]);
        let probabilities = self.graph.node("Softmax", &[&scores], &[("axis", Attribute::Int(-1))]);
        let context = self.graph.node("MatMul", &[&probabilities, &value], &[]);
        let context = self.graph.node("Transpose", &[&context], &[("perm", Attribute::Ints(&[0, 2, 1, 3]))]);
        let context = self.graph.node("Reshape", &[&context, "merged_heads"], &[]);
        let attended = self.dense(&format!("{name}.attention.output.dense"), &context);
        let sum = self.graph.node("Add", &[&attended, states], &[]);
        let attended = self.layer_norm(&format!("{name}.attention.output.LayerNorm"), &sum);
        let inner = self.dense(&format!("{name}.intermediate.dense"), &attended);
        let inner = self.gelu(&inner);
        let outer = self.dense(&format!("{name}.output.dense"), &inner);
        let sum = self.graph.node("Add", &[&outer, &attended], &[]);
        self.layer_norm(&format!("{name}.output.LayerNorm"), &sum)
    }

    fn gelu(&mut self, x: &str) -> String {
        let inner = match self.config.hidden_act {
            Gelu::Erf => {
                let scaled = self.graph.node("Mul", &[x, "sqrt_half"], &[]);
                self.graph.node("Erf", &[&scaled], &[])
            }
            Gelu::Tanh => {
                let square = self.graph.node("Mul", &[x, x], &[]);
                let cube = self.graph.node("Mul", &[&square, x], &[]);
                let cube = self.graph.node("Mul", &[&cube, "cubic"], &[]);
                let sum = self.graph.node("Add", &[x, &cube], &[]);
                let scaled = self.graph.node("Mul", &[&sum, "sqrt_two_over_pi"], &[]);
                self.graph.node("Tanh", &[&scaled], &[])
            }
        };
        let sum = self.graph.node("Add", &[&inner, "one_float"], &[]);
        let product = self.graph.node("Mul", &[x, &sum], &[]);
        self.graph.node("Mul", &[&product, "half"], &[])
    }

    fn head(&mut self, states: &str, head: Head) {
        let Self { config, .. } = *self;
        match head {
            Head::Encoder => {
                let hidden = Dim::Size(config.hidden_size);
                self.graph.output(states, "last_hidden_state", &[BATCH, LENGTH, hidden]);
                if self.tensors.contains_key(&format!("{}pooler.dense.weight", self.prefix)) {
                    let pooled = self.pooled(states);
                    self.graph.output(&pooled, "pooler_output", &[BATCH, hidden]);
                }
            }
            Head::MaskedLm => {
                let transformed = self.dense("cls.predictions.transform.dense", states);
                let transformed = self.gelu(&transformed);
                let transformed = self.layer_norm("cls.predictions.transform.LayerNorm", &transformed);
                let table = format!("{}embeddings.word_embeddings.weight", self.prefix);
                let table = self.graph.node("Transpose", &[&table], &[("perm", Attribute::Ints(&[1, 0]))]);
                let logits = self.graph.node("MatMul", &[&transformed, &table], &[]);
                let bias = self.tensor("cls.predictions.bias");
                let logits = self.graph.node("Add", &[&logits, &bias], &[]);
                self.graph.output(&logits, "logits", &[BATCH, LENGTH, Dim::Size(config.vocab_size)]);
            }
            Head::Sequence => {
                let pooled = self.pooled(states);
                let logits = self.dense("classifier", &pooled);
                self.graph.output(&logits, "logits", &[BATCH, Dim::Size(config.num_labels)]);
            }
            Head::Token => {
                let logits = self.dense("classifier", states);
                self.graph.output(&logits, "logits", &[BATCH, LENGTH, Dim::Size(config.num_labels)]);
            }
            Head::Answers => {
                let logits = self.dense("qa_outputs", states);
                let last = || [("axis", Attribute::Int(2))];
                self.graph.integers("start", &[0]);
                for (index, name) in [("start", "start_logits"), ("one", "end_logits")] {
                    let column = self.graph.node("Gather", &[&logits, index], &last());
                    self.graph.integers(&format!("{name}_axis"), &[2]);
                    let column = self.graph.node("Squeeze", &[&column, &format!("{name}_axis")], &[]);
                    self.graph.output(&column, name, &[BATCH, LENGTH]);
                }
            }
        }
    }

    /// Returns the output of the pooler: a dense layer and tanh on the first token.
    fn pooled(&mut self, states: &str) -> String {
        let first = self.graph.node("Gather", &[states, "zero"], &[("axis", Attribute::Int(1))]);
        let first = self.graph.node("Squeeze", &[&first, "one"], &[]);
        let dense = self.dense(&format!("{}pooler.dense", self.prefix), &first);
        self.graph.node("Tanh", &[&dense], &[])
    }

    /// Adds a tensor of the checkpoint as a constant.
    fn tensor(&mut self, name: &str) -> String {
        let (shape, values) = &self.tensors[name];
        self.graph.weights(name, shape, values)
    }

    fn dense(&mut self, name: &str, input: &str) -> String {
        let weight = format!("{name}.weight");
        let (shape, values) = &self.tensors[&weight];
        let outputs = shape[0];
        let inputs = shape[1];
        let mut transposed = vec![0.0; values.len()];
        for (output, row) in values.chunks_exact(inputs.max(1)).enumerate() {
            for (input, value) in row.iter().enumerate() {
                transposed[input * outputs + output] = *value;
            }
        }
        let weight = self.graph.weights(&weight, &[inputs, outputs], &transposed);
        let bias = self.tensor(&format!("{name}.bias"));
        let product = self.graph.node("MatMul", &[input, &weight], &[]);
        self.graph.node("Add", &[&product, &bias], &[])
    }

    fn layer_norm(&mut self, name: &str, input: &str) -> String {
        let [weight, bias] = ["weight", "bias"].map(|part| self.tensor(&format!("{name}.{part}")));
        let epsilon = self.config.layer_norm_eps as f32;
        let attributes = [("axis", Attribute::Int(-1)), ("epsilon", Attribute::Float(epsilon))];
        self.graph.node("LayerNormalization", &[input, &weight, &bias], &attributes)
    }
}
