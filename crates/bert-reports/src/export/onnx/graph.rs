//! Builds a graph of ONNX operators: nodes, constants, inputs and outputs.

use half::f16;

use crate::protobuf::Message;

/// Version of the operators: the first one with `LayerNormalization`.
pub(super) const OPSET: i64 = 17;
/// Version of the file format of ONNX 1.12, which introduced [`OPSET`].
pub(super) const IR_VERSION: i64 = 8;

/// Element types, by their numbers in `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32 = 1,
    I64 = 7,
    F16 = 10,
}

/// An attribute of a node.
pub(super) enum Attribute<'a> {
    Float(f32),
    Int(i64),
    Ints(&'a [i64]),
}

impl Attribute<'_> {
    fn message(&self, name: &str) -> Message {
        let message = Message::default().bytes(1, name);
        match self {
            Self::Float(value) => message.float(2, *value).int(20, 1),
            Self::Int(value) => message.int(3, *value).int(20, 2),
            Self::Ints(values) => message.ints(8, values.iter().copied()).int(20, 7),
        }
    }
}

/// A dimension of an input or output: a name or a size.
#[derive(Clone, Copy)]
pub(super) enum Dim {
    Named(&'static str),
    Size(usize),
}

/// A graph under construction.
pub(super) struct Graph {
    /// Element type of weights and hidden states.
    pub(super) element: Element,
    nodes: Vec<Message>,
    constants: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
}

impl Graph {
    /// Creates an empty graph.
    pub(super) fn new(element: Element) -> Self {
        Self { element, nodes: vec![], constants: vec![], inputs: vec![], outputs: vec![] }
    }

    /// Adds a node. Returns the name of its output.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], attributes: &[(&str, Attribute<'_>)]) -> String {
        let output = format!("{op}_{}", self.nodes.len());
        self.node_named(op, inputs, &output, attributes);
        output
    }

    /// Adds a node whose output has this name.
    pub(super) fn node_named(
        &mut self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, Attribute<'_>)],
    ) {
        let node = Message::default().each(1, inputs).bytes(2, output).bytes(3, output).bytes(4, op);
        self.nodes.push(node.each(5, attributes.iter().map(|(name, attribute)| attribute.message(name))));
    }

    /// Adds a constant of the graph's element type. Returns its name.
    pub(super) fn weights(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let bytes: Vec<u8> = match self.element {
            Element::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        self.constant(name, self.element, shape, bytes)
    }

    /// Adds a constant number of the graph's element type. Returns its name.
    pub(super) fn scalar(&mut self, name: &str, value: f32) -> String {
        self.weights(name, &[], &[value])
    }

    /// Adds a vector of integers, for example a shape or axes. Returns its name.
    pub(super) fn integers(&mut self, name: &str, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, Element::I64, &[values.len()], bytes)
    }

    fn constant(&mut self, name: &str, element: Element, shape: &[usize], bytes: Vec<u8>) -> String {
        let dims = shape.iter().map(|size| *size as i64);
        let tensor = Message::default().ints(1, dims).int(2, element as i64).bytes(8, name).bytes(9, bytes);
        self.constants.push(tensor);
        name.to_string()
    }

    /// Adds an input of integers. Returns its name.
    pub(super) fn input(&mut self, name: &str, dims: &[Dim]) -> String {
        self.inputs.push(value_info(name, Element::I64, dims));
        name.to_string()
    }

    /// Makes a value an output in f32.
    pub(super) fn output(&mut self, value: &str, name: &str, dims: &[Dim]) {
        match self.element {
            Element::F16 => {
                let to = [("to", Attribute::Int(Element::F32 as i64))];
                self.node_named("Cast", &[value], name, &to);
            }
            _ => self.node_named("Identity", &[value], name, &[]),
        }
        self.outputs.push(value_info(name, Element::F32, dims));
    }

    /// Returns the bytes of the model. `metadata` are the entries of `metadata_props`.
    pub(super) fn into_model(self, name: &str, metadata: &[(&str, String)]) -> Vec<u8> {
        let graph = Message::default()
            .each(1, self.nodes)
            .bytes(2, name)
            .each(5, self.constants)
            .each(11, self.inputs)
            .each(12, self.outputs);
        let entry = |(key, value): &(&str, String)| Message::default().bytes(1, key).bytes(2, value);
        Message::default()
            .int(1, IR_VERSION)
            .bytes(2, "bert")
            .bytes(7, graph)
            .bytes(8, Message::default().int(2, OPSET))
            .each(14, metadata.iter().map(entry))
            .into_bytes()
    }
}

fn value_info(name: &str, element: Element, dims: &[Dim]) -> Message {
    let shape = Message::default().each(
        1,
        dims.iter().map(|dim| match dim {
            Dim::Named(name) => Message::default().bytes(2, name),
            Dim::Size(size) => Message::default().int(1, *size as i64),
        }),
    );
    let tensor = Message::default().int(1, element as i64).bytes(2, shape);
    Message::default().bytes(1, name).bytes(2, Message::default().bytes(1, tensor))
}
