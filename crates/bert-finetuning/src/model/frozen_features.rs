//! Computes the features of a frozen encoder once, for all epochs.

use bert_inference::classifier::{ClassifierModel, EVAL_BATCH};
use bert_inference::host_tensors::int_vector;
use bert_inference::{Features, StopFlag};
use bert_model::Mode;
use burn::tensor::{Device, Tensor};

/// Returns the features of all sequences, grouped by example, `[sequences, features]`, with autodiff.
pub(crate) fn all_features<M: ClassifierModel>(
    model: &M,
    features: &Features,
    device: &Device,
    stop: &StopFlag,
) -> Result<Tensor<2>, bert_inference::Error> {
    let per_example = features.per_example();
    let mut parts = Vec::new();
    let mut rows = vec![0i32; features.count() * per_example];
    let mut done = 0;
    for examples in features.by_length(EVAL_BATCH) {
        stop.check()?;
        let batch = features.batch(examples);
        for &example in &batch.examples {
            for row in &mut rows[example * per_example..][..per_example] {
                *row = done;
                done += 1;
            }
        }
        parts.push(model.features(batch.input(device), Mode::Eval));
    }
    let rows = int_vector(&rows, device);
    Ok(Tensor::cat(parts, 0).select(0, rows).autodiff())
}
