//! Combines the encoder of one model with the head of another of the same size.
//!
//! After fine-tuning on a second task, the score of the first task's classifier with the new encoder shows how much of
//! the first task was forgotten. The loss of the pre-training heads with the new encoder shows how much of masked LM
//! was forgotten.

use std::path::Path;

use bert_model::{
    CurrentTensors, NamedTensors, WEIGHTS, current_names, named_tensors_to_bytes, not_tied,
    read_pretrained_tensors,
};
use bert_storage::Disk;
use bert_training::{Error, mismatch};

use crate::export::{POOLER, begin, folder_files, write_files};

/// Writes a model folder with the encoder of the model folder `encoder` and everything else from the model folder
/// `head`.
///
/// # Errors
/// Fails when the encoders differ in a name or a shape, when a folder cannot be read, or when `target` is not empty.
pub fn transplant_encoder(encoder: &Path, head: &Path, target: &Path) -> Result<(), Error> {
    let new = current_names(read_pretrained_tensors(encoder)?)?.tensors;
    let CurrentTensors { mut tensors, untied } = current_names(read_pretrained_tensors(head)?)?;
    if let Some((name, tied_to)) = untied.first() {
        return Err(not_tied(name, tied_to));
    }
    let differences = differing_shapes(&new, &tensors);
    if !differences.is_empty() {
        return Err(mismatch(differences));
    }
    tensors.extend(new.into_iter().filter(|(name, _)| is_of_encoder(name)));
    let files = folder_files(head, [(WEIGHTS, named_tensors_to_bytes(&tensors))])?;
    write_files(begin(&Disk, target)?, files)
}

fn is_of_encoder(name: &str) -> bool {
    name.starts_with("bert.")
}

/// Returns a description of each tensor that only one of two encoders has, or whose shapes differ. Poolers are not
/// compared, because a masked LM needs none.
fn differing_shapes(new: &NamedTensors, old: &NamedTensors) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> =
        new.keys().chain(old.keys()).filter(|name| is_of_encoder(name) && !name.contains(POOLER)).collect();
    let shape = |tensors: &NamedTensors, name: &String| tensors.get(name).map(|(shape, _)| shape.clone());
    let differs = names.into_iter().filter(|name| shape(new, name) != shape(old, name));
    differs.map(|name| format!("{name} is {:?} and {:?}", shape(new, name), shape(old, name))).collect()
}

#[cfg(test)]
mod tests {
    use bert_model::{
        Architecture, BertConfig, BertForPreTraining, BertForSequenceClassification, Preset, folder_sink,
        save_pretrained,
    };

    use super::*;
    use bert_inference::DeviceName;

    fn saved<M: Architecture>(config: &BertConfig, seed: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let device = DeviceName::default().open().unwrap();
        save_pretrained(&mut folder_sink(folder.path()), &M::new(config, seed, &device), config, None)
            .unwrap();
        folder
    }

    #[test]
    fn encoder_and_head_come_from_different_models() {
        let config = BertConfig { num_hidden_layers: 1, ..BertConfig::preset(Preset::Tiny, 30) };
        let classifier = saved::<BertForSequenceClassification>(&config, 1);
        let pretrained = saved::<BertForPreTraining>(&config, 2);
        let target = tempfile::tempdir().unwrap();
        transplant_encoder(classifier.path(), pretrained.path(), target.path()).unwrap();
        let [made, encoder, head] =
            [&target, &classifier, &pretrained].map(|at| read_pretrained_tensors(at.path()).unwrap());
        assert!(made.keys().eq(head.keys()));
        for (name, tensor) in &made {
            let source = if name.starts_with("bert.") { &encoder } else { &head };
            assert!(*tensor == source[name], "{name}");
        }
    }

    #[test]
    fn encoders_of_other_sizes_are_refused() {
        let config = BertConfig { num_hidden_layers: 1, ..BertConfig::preset(Preset::Tiny, 30) };
        let smaller = BertConfig { vocab_size: 20, ..config.clone() };
        let a = saved::<BertForPreTraining>(&config, 1);
        let b = saved::<BertForPreTraining>(&smaller, 1);
        let target = tempfile::tempdir().unwrap();
        let error = transplant_encoder(a.path(), b.path(), target.path()).unwrap_err().to_string();
        assert!(error.contains("word_embeddings.weight is Some([30, 128]) and Some([20, 128])"), "{error}");
        assert!(std::fs::read_dir(target.path()).unwrap().next().is_none());
    }
}
