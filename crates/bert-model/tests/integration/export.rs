//! Loads the saved folders with `transformers` and compares the outputs.
//!
//! Runs `tests/golden/check_export.py` with the interpreter that the environment variable `BERT_PYTHON`
//! names (torch and transformers installed).

use std::path::Path;

use bert_model::{
    Architecture, BertConfig, BertForPreTraining, BertForSequenceClassification, BertModel, FolderTokenizer,
    LoadPolicy, Mode, PretrainingInput, folder_sink, load_named_tensors, named_tensors_to_bytes,
    read_pretrained_tensors, save_pretrained, to_named_tensors,
};
use burn::tensor::{Int, Tensor};

use crate::common::{batch, device, run_python, small_config, values};

const WORDS: [&str; 12] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "##s", "!", "cafe", "un", "##do"];

fn floats<const D: usize>(tensor: Tensor<D>) -> (Vec<usize>, Vec<f32>) {
    (tensor.dims().to_vec(), values(tensor))
}

#[test]
#[ignore = "needs Python with transformers (BERT_PYTHON)"]
fn transformers_loads_our_folders_and_we_load_its() {
    let dir = tempfile::tempdir().unwrap();
    let config = small_config().with_labels(&["no", "yes", "maybe"]);
    let pretraining = BertForPreTraining::new(&config, 1, &device());
    let classifier = BertForSequenceClassification::new(&config, 2, &device());
    let encoder = BertModel::new(&config, 3, &device());

    let words = WORDS.map(String::from);
    let vocabulary = Some(FolderTokenizer::uncased(&words, 20));
    let save = |name: &str| folder_sink(dir.path().join(name));
    save_pretrained(&mut save("pretraining"), &pretraining, &config, vocabulary.clone()).unwrap();
    save_pretrained(&mut save("classifier"), &classifier, &config, vocabulary).unwrap();
    save_pretrained(&mut save("encoder"), &encoder, &config, None).unwrap();

    let input = || batch(&[8, 6], 8, config.vocab_size, &device());
    let every = Tensor::<1, Int>::arange(0..16, &device());
    let heads = PretrainingInput { bert: input(), masked_lm_positions: every };
    let heads = pretraining.forward(heads, Mode::Eval);
    let states = encoder.forward(input(), Mode::Eval);
    let expected = [
        ("input_ids", floats(input().input_ids.float())),
        ("input_mask", floats(input().input_mask.float())),
        ("segment_ids", floats(input().segment_ids.float())),
        ("prediction_logits", floats(heads.prediction_logits)),
        ("seq_relationship_logits", floats(heads.seq_relationship_logits)),
        ("classifier_logits", floats(classifier.forward(input(), Mode::Eval))),
        ("sequence_output", floats(states.sequence_output)),
        ("pooled_output", floats(states.pooled_output)),
        // "Hello worlds!" and "café undo xyz" as a pair.
        ("pair_ids", (vec![12], [2, 5, 6, 7, 8, 3, 9, 10, 11, 1, 3, 0].map(|i| i as f32).to_vec())),
    ];
    let expected = named_tensors_to_bytes(&expected.map(|(name, tensor)| (name.to_string(), tensor)).into());
    std::fs::write(dir.path().join("expected.safetensors"), expected).unwrap();
    run_python("check_export.py", dir.path());

    check_models_saved_again(dir.path(), &config, &pretraining, &classifier);
}

/// Checks that the models that the script saved again, under each class, have the same numbers.
fn check_models_saved_again(
    dir: &Path,
    config: &BertConfig,
    pretraining: &BertForPreTraining,
    classifier: &BertForSequenceClassification,
) {
    let read = |name: &str| read_pretrained_tensors(&dir.join(name)).unwrap();
    let exact = LoadPolicy::Exact;
    let fresh_heads = LoadPolicy::FreshHeads;
    let fresh = || BertForPreTraining::new(config, 9, &device());
    let weights = to_named_tensors(pretraining);
    let (model, _) = load_named_tensors(fresh(), read("again-BertForPreTraining"), exact).unwrap();
    assert_eq!(to_named_tensors(&model), weights);
    for (class, lost) in [
        ("again-BertForMaskedLM", &["bert.pooler.", "cls.seq_relationship."][..]),
        ("again-BertModel", &["cls."]),
    ] {
        let (model, report) = load_named_tensors(fresh(), read(class), fresh_heads).unwrap();
        assert!(report.missing.iter().all(|name| lost.iter().any(|l| name.starts_with(l))));
        assert!(!report.missing.is_empty());
        for (name, tensor) in to_named_tensors(&model) {
            assert!(tensor == weights[&name] || report.missing.contains(&name), "{class} {name}");
        }
    }
    let again = read("again-BertForSequenceClassification");
    let fresh = BertForSequenceClassification::new(config, 9, &device());
    let (model, _) = load_named_tensors(fresh, again, exact).unwrap();
    assert_eq!(to_named_tensors(&model), to_named_tensors(classifier));
}
