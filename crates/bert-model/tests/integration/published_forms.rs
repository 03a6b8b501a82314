//! Tiny checkpoints in every published form, written by the libraries that published them.
//!
//! `tests/golden/make_import_goldens.py` and `make_tensorflow_goldens.py` make the files.

use std::path::{Path, PathBuf};

use bert_model::{
    BertForPreTraining, BertModel, FolderContents, LoadPolicy, Mode, WeightsFiles, WeightsForm,
    load_pretrained, read_pretrained_config, read_pretrained_tensors,
};

use crate::common::{Golden, Worst, device, values};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/import").join(name)
}

/// Returns the values of a tensor at the positions of real tokens.
fn at_tokens(golden: &Golden, tensor: &[f32], width: usize) -> Vec<f32> {
    let mask = &golden.ints["input_mask"].1;
    let rows = tensor.chunks_exact(width).zip(mask);
    rows.filter(|(_, mask)| **mask == 1).flat_map(|(row, _)| row.iter().copied()).collect()
}

/// Compares the hidden states and the pooled output of an encoder with the golden values.
fn check_encoder(name: &str, suffix: &str, has_pooler: bool) {
    let golden = Golden::read("import", "expected.safetensors");
    let (model, config, _) =
        load_pretrained::<BertModel>(&folder(name), |config| config, LoadPolicy::FreshHeads, 0, &device())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    let output = model.forward(golden.input(&device()), Mode::Eval);
    let mut worst = Worst::default();
    let expected = |key: &str| golden.float(&format!("{key}{suffix}")).to_vec();
    let [got, expected_states] = [values(output.sequence_output), expected("sequence_output")]
        .map(|tensor| at_tokens(&golden, &tensor, config.hidden_size));
    worst.check("hidden states", &got, &expected_states, 0.0, 1e-5);
    if has_pooler {
        worst.check("pooled output", &values(output.pooled_output), &expected("pooled_output"), 0.0, 1e-5);
    }
    worst.report(name);
}

#[test]
fn every_form_gives_the_same_hidden_states() {
    use WeightsForm::{PyTorch, Safetensors, SeveralPyTorch, SeveralSafetensors, TensorFlow};
    for (name, form, suffix, has_pooler) in [
        ("google", TensorFlow, "", true),
        ("google-sharded", TensorFlow, "_f16", true),
        ("pytorch", PyTorch, "", true),
        ("pytorch-legacy", PyTorch, "", true),
        ("pytorch-parts", SeveralPyTorch, "_f16", true),
        ("pytorch-encoder", PyTorch, "", true),
        ("parts", SeveralSafetensors, "", true),
        ("f16", Safetensors, "_f16", true),
        ("bf16", Safetensors, "_bf16", true),
        ("masked-lm", Safetensors, "", false),
        ("next-sentence", Safetensors, "", true),
        ("encoder", Safetensors, "", true),
        ("classifier", Safetensors, "", true),
        ("untied", Safetensors, "", true),
    ] {
        assert_eq!(WeightsFiles::find(&folder(name)).unwrap().unwrap().form, form, "{name}");
        check_encoder(name, suffix, has_pooler);
    }
}

#[test]
fn every_full_form_has_equal_heads() {
    let reference = read_pretrained_tensors(&folder("parts")).unwrap();
    let load = |name: &str| {
        let loaded = load_pretrained::<BertForPreTraining>(
            &folder(name),
            |config| config,
            LoadPolicy::Exact,
            0,
            &device(),
        );
        bert_model::to_named_tensors(&loaded.unwrap_or_else(|error| panic!("{name}: {error}")).0)
    };
    let expected = load("parts");
    assert_eq!(expected.len(), reference.len());
    for name in ["google", "pytorch", "pytorch-legacy"] {
        assert!(load(name) == expected, "{name}");
    }
    assert!(load("google-sharded") == load("pytorch-parts"));
}

#[test]
fn contents_name_the_class_and_the_missing_tensors() {
    let contents = |name: &str| {
        let config = read_pretrained_config(&folder(name)).unwrap();
        FolderContents::new(&config, read_pretrained_tensors(&folder(name)).unwrap()).unwrap()
    };
    for (name, class, missing) in [
        ("google", "BertForPreTraining", 0),
        ("pytorch-encoder", "BertModel", 7),
        ("masked-lm", "BertForMaskedLM", 4),
        ("next-sentence", "BertForNextSentencePrediction", 5),
        ("classifier", "BertForSequenceClassification", 7),
        ("untied", "BertForPreTraining", 0),
    ] {
        let found = contents(name);
        assert_eq!((found.class, found.missing_heads.len()), (class, missing), "{name}");
        assert!(found.missing_encoder.is_empty() && found.misshapen.is_empty(), "{name}");
        assert_eq!(found.has_untied_decoder, name == "untied");
    }
    assert_eq!(contents("classifier").labels, Some(3));
}

#[test]
fn untied_decoder_is_refused_where_it_matters() {
    let load = |policy| {
        load_pretrained::<BertForPreTraining>(&folder("untied"), |config| config, policy, 0, &device())
    };
    let error = load(LoadPolicy::Exact).unwrap_err();
    assert!(error.to_string().contains("`, but BERT ties both; untied weights are"), "{error}");
    let (_, _, report) = load(LoadPolicy::FreshHeads).unwrap();
    assert_eq!(report.unexpected, ["cls.predictions.decoder.weight"]);
}
