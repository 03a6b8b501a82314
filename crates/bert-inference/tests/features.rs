//! Tests that features equal the hidden states of the model, whose own goldens are in `bert-model`.

use std::path::Path;

use bert_inference::{Error, Extractor, LineFeatures, MemoryModel, ModelOptions};
use bert_model::{Architecture, BertConfig, BertInput, BertModel, Preset, folder_sink, save_pretrained};
use bert_tasks::Example;
use bert_tokenization::Vocabulary;
use burn::tensor::{Device, Int, Tensor, TensorData};

const WORDS: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n##e\n|\n";

/// Writes a folder with a model of three layers.
fn model(folder: &Path) -> BertModel {
    let mut config = BertConfig::preset(Preset::Tiny, WORDS.lines().count());
    (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) = (16, 2, 3);
    (config.intermediate_size, config.max_position_embeddings) = (32, 12);
    let model = BertModel::new(&config, 5, &Device::flex());
    let words = Vocabulary::from_bytes(WORDS.as_bytes().to_vec(), Path::new("vocab.txt")).unwrap();
    let files = bert_model::FolderTokenizer::uncased(words.tokens(), 12);
    let mut sink = folder_sink(folder);
    save_pretrained(&mut sink, &model, &config, Some(files)).unwrap();
    model
}

/// Returns the ids of each line, and the length of its first segment.
fn expected_sequences() -> [(Vec<i32>, usize); 5] {
    let long = [vec![2], [5, 6, 7, 8].repeat(3)[..10].to_vec(), vec![3]].concat();
    [(vec![2, 5, 6, 3], 4), (vec![2, 3], 2), (vec![2, 5, 3, 7, 8, 9, 3], 3), (vec![2, 6, 3], 3), (long, 12)]
}

#[test]
fn features_of_every_layer_and_token() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    // Texts of different lengths, so that some are padded; the last is truncated to the model's 12 positions.
    let mut texts = ["a b", "", "A", "b", "a b c d a b c d a b c d a b c d"].map(Example::from_text).to_vec();
    texts[2].text_b = Some("c de".to_string());
    texts.iter_mut().zip(1..).for_each(|(text, line)| text.index = line.to_string());
    let layers = [-1, 0, 1, -3];
    let extractor =
        Extractor::open(folder.path(), ModelOptions::default()).unwrap().with_layers(&layers).unwrap();
    let mut found: Vec<LineFeatures> = Vec::new();
    extractor
        .each_line(&texts, |lines| {
            found.extend_from_slice(lines);
            Ok::<(), Error>(())
        })
        .unwrap();

    let expected = expected_sequences();
    let words: Vec<&str> = WORDS.lines().collect();
    assert_eq!(found.len(), expected.len());
    for (at, (line, (ids, first))) in found.iter().zip(expected).enumerate() {
        assert_eq!(line.line, at as u64);
        assert_eq!(line.tokens, ids.iter().map(|&id| words[id as usize]).collect::<Vec<_>>());
        let length = ids.len();
        let row = |values: Vec<i32>| -> Tensor<2, Int> {
            Tensor::from_data(TensorData::new(values, [1, length]), &Device::flex())
        };
        let segments = (0..length).map(|token| i32::from(token >= first)).collect();
        let input =
            BertInput { input_ids: row(ids), input_mask: row(vec![1; length]), segment_ids: row(segments) };
        let states = model.forward_with_states(input).hidden_states;
        // Layer 0 is the first layer; the embeddings are state 0.
        for (values, state) in line.layers.iter().zip([3, 1, 2, 1]) {
            let expected: Vec<f32> = states[state].clone().into_data().try_into_vec().unwrap();
            assert_eq!(values.len(), length * 16);
            let far = values.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far < 1e-5, "line {at}, state {state}: {far}");
        }
    }
}

#[test]
fn models_open_from_bytes() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    let memory = MemoryModel::new(files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..]))).unwrap();
    let from_bytes = Extractor::open(memory.folder(), ModelOptions::default()).unwrap();
    drop(memory);
    let from_folder = Extractor::open(folder.path(), ModelOptions::default()).unwrap();
    assert_eq!(from_bytes.encode(&["a b"]).unwrap(), from_folder.encode(&["a b"]).unwrap());
}
