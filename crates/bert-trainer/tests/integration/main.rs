//! Tests of the trainer against goldens and against itself; one binary.

mod documents; // documents on disk: resumed runs, evaluation
mod dynamic; // masks made by the loader: other epochs, other masks; resumed runs, the same
mod faults; // every n-th file operation fails, or the power does
mod features; // hidden states of texts
mod flips; // flipped bits and cuts are found before use
mod matrix; // stopped after every step, for each layout of the data
mod measures; // nats per character; what counting the text reaches
mod minbert; // the optimizer test of the minBERT assignment
mod models_beside; // best and averaged weights beside the checkpoints
mod runs; // resume, accumulation, loader order: a run equals itself however it is cut
mod trajectory; // ten steps of the reference's optimizer, against transformers and PyTorch
