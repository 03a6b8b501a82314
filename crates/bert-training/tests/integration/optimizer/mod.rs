//! The optimizer against other implementations.

mod minbert; // the optimizer test of the minBERT assignment
mod trajectory; // ten steps of the reference's optimizer, against transformers and PyTorch
