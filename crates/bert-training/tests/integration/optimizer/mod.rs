//! The optimizer against other implementations.

mod lion; // a third optimizer through the public interface
mod minbert; // the optimizer test of the minBERT assignment
mod trajectory; // ten steps of the reference's optimizer, against transformers and PyTorch
