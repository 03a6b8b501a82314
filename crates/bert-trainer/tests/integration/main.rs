//! Tests of the trainer against goldens and against itself; one binary.

mod runs; // resume, accumulation, loader order: a run equals itself however it is cut
mod trajectory; // ten steps of the reference's optimizer, against transformers and PyTorch
