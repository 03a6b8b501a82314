//! Models in use: the built-in one, folders of other projects, predictions, and the Python libraries that read our
//! folders.

mod built_in; // the built-in model
mod cards; // model cards of exports and fine-tuned models
mod description; // the trained length, pooling, heads and settings of a model in every program
mod foreign_models; // model folders of other projects: missing tensors, their tokenizers, other formats
mod hub; // models by their names on the Hugging Face Hub
mod likelihood; // minimal pairs, and the words and sentences nearest to a query
mod onnx; // graphs for ONNX Runtime
mod parity; // the answers of every kind of model in other libraries
mod predict; // predict, features: a model on new texts
mod probe; // a word changed, and which predictions flip
mod published; // checkpoints of PyTorch and TensorFlow: import, inspect, and the commands that read them
mod python; // shards and exported folders, read by the Python libraries they are meant for
mod trainer; // a folder for the Trainer of transformers, and the same rows for our programs
