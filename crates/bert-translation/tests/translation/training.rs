//! Training runs: learning, stop and resume, refused resumes, and translation with the result.

use std::fs;
use std::path::{Path, PathBuf};

use bert_inference::{DeviceName, StopFlag, resolve_model_folder};
use bert_model::{
    Architecture, BertConfig, BertModel, FolderTokenizer, Preset, folder_sink, save_pretrained,
};
use bert_translation::{
    Error, Fusion, ParallelArgs, SearchConfig, TrainConfig, TrainEvent, TrainOutcome, Translator, train,
};
use burn::tensor::Device;

const WORDS: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

/// Writes a vocabulary, a BERT folder and parallel text: the target is the source in upper case, in reverse order.
fn prepare(folder: &Path) {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
    let upper = WORDS.map(str::to_uppercase);
    let words: Vec<String> = special.into_iter().chain(WORDS.map(String::from)).chain(upper).collect();
    fs::write(folder.join("vocab.txt"), words.join("\n")).unwrap();
    let config = BertConfig::preset(Preset::Tiny, words.len());
    let bert = BertModel::new(&config, 3, &Device::flex());
    let vocabulary = FolderTokenizer { do_lower_case: false, ..FolderTokenizer::uncased(&words, 512) };
    save_pretrained(&mut folder_sink(folder.join("bert")), &bert, &config, Some(vocabulary)).unwrap();
    let mut source = String::new();
    let mut target = String::new();
    for (i, j) in (0..64).map(|pair| (pair / 8, pair % 8)) {
        source += &format!("{} {}\n", WORDS[i], WORDS[j]);
        target += &format!("{} {}\n", WORDS[j].to_uppercase(), WORDS[i].to_uppercase());
    }
    fs::write(folder.join("source.txt"), source).unwrap();
    fs::write(folder.join("target.txt"), target).unwrap();
}

fn config(folder: &Path, fusion: Fusion, output: &str) -> TrainConfig {
    let path = |name: &str| folder.join(name);
    TrainConfig {
        text: ParallelArgs {
            source: Some(path("source.txt")),
            target: Some(path("target.txt")),
            table: None,
            columns: vec![],
        },
        source_vocab: (fusion == Fusion::None).then(|| path("vocab.txt")),
        target_vocab: path("vocab.txt"),
        fusion,
        bert: path("bert"),
        hidden_size: 32,
        intermediate_size: 64,
        heads: 2,
        layers: 1,
        max_length: 8,
        dropout: 0.1,
        drop_net: 1.0,
        label_smoothing: 0.1,
        steps: 12,
        batch_size: 16,
        learning_rate: 5e-3,
        warmup_steps: None,
        seed: 5,
        save_interval: 100,
        output: path(output),
        device: DeviceName::Flex,
    }
}

fn run(config: &TrainConfig, resume: bool, stop_after: Option<u64>) -> Result<TrainOutcome, Error> {
    let stop = StopFlag::new();
    train(config, Some(&config.bert), resume.into(), &stop, &mut |event| match event {
        TrainEvent::Step(metrics) if Some(metrics.step) == stop_after => stop.request(2),
        _ => {}
    })
}

fn checkpoint_files(output: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = output.join("checkpoints/step-00000012");
    let names = ["model.safetensors", "optimizer.safetensors", "translation.json", "target_vocab.txt"];
    let files = names.map(|name| folder.join(name)).into_iter().chain([output.join("metrics.jsonl")]);
    files.map(|path| (path.strip_prefix(output).unwrap().into(), fs::read(&path).unwrap())).collect()
}

#[test]
fn resumed_run_has_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    for fusion in [Fusion::None, Fusion::Embeddings, Fusion::Fused] {
        let whole = config(folder.path(), fusion, &format!("whole-{fusion:?}"));
        run(&whole, false, None).unwrap();
        let stopped = config(folder.path(), fusion, &format!("stopped-{fusion:?}"));
        for (resume, step) in [(false, 5), (true, 9)] {
            let error = run(&stopped, resume, Some(step)).unwrap_err();
            assert_eq!(error.exit_code(), 130, "{error}");
        }
        let outcome = run(&stopped, true, None).unwrap();
        assert_eq!(outcome.steps, 12);
        for (a, b) in checkpoint_files(&whole.output).into_iter().zip(checkpoint_files(&stopped.output)) {
            assert!(a == b, "{fusion:?}: {} differs", a.0.display());
        }
    }
}

#[test]
fn run_is_not_continued_with_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let first = config(folder.path(), Fusion::Fused, "run");
    run(&first, false, None).unwrap();
    let code = |config: &TrainConfig, resume| run(config, resume, None).unwrap_err().exit_code();
    assert_eq!(code(&first, false), 1, "without --resume");
    for other in [
        TrainConfig { seed: 6, ..first.clone() },
        TrainConfig { drop_net: 0.5, ..first.clone() },
        TrainConfig { learning_rate: 1e-3, ..first.clone() },
    ] {
        assert_eq!(code(&other, true), 4);
    }
    fs::write(folder.path().join("target.txt"), "X\n".repeat(64)).unwrap();
    assert_eq!(code(&first, true), 4, "another text");
}

#[test]
fn wrong_settings_name_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let good = config(folder.path(), Fusion::Embeddings, "run");
    let cases = [
        (TrainConfig { heads: 3, ..good.clone() }, "`.heads`"),
        (TrainConfig { steps: 0, ..good.clone() }, "`.steps`"),
        (TrainConfig { drop_net: 1.5, ..good.clone() }, "`.drop_net`"),
        (TrainConfig { fusion: Fusion::None, ..good.clone() }, "`.source_vocab`"),
        (TrainConfig { source_vocab: Some("vocab.txt".into()), ..good.clone() }, "`.source_vocab`"),
    ];
    for (config, flag) in cases {
        let error = run(&config, false, None).unwrap_err();
        assert!(error.to_string().contains(flag) && error.exit_code() == 2, "{error}");
    }
    assert!(!good.output.exists());
}

#[test]
fn every_kind_of_model_learns_to_translate() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    for fusion in [Fusion::None, Fusion::Embeddings, Fusion::Fused] {
        let config =
            TrainConfig { steps: 400, dropout: 0.0, ..config(folder.path(), fusion, &format!("{fusion:?}")) };
        let outcome = run(&config, false, None).unwrap();
        let loss = outcome.metrics.unwrap().cross_entropy;
        assert!(loss < 0.3, "{fusion:?}: {loss}");
        let model = resolve_model_folder(&config.output, &mut |error| panic!("{error}")).unwrap();
        for beam_size in [1, 4] {
            let search = SearchConfig { beam_size, length_penalty: 0.6, max_length: 100 };
            let translator = Translator::open(&model, search, DeviceName::Flex).unwrap();
            let found = translator.translate(&["three seven", "", "one one"], 2, &mut |_| {});
            let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
            assert_eq!(texts, ["SEVEN THREE", "", "ONE ONE"], "{fusion:?}");
        }
    }
}

#[test]
fn other_models_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let search = SearchConfig { beam_size: 1, length_penalty: 0.0, max_length: 9 };
    let error = Translator::open(&folder.path().join("bert"), search, DeviceName::Flex).err().unwrap();
    assert!(error.to_string().contains("bert translate train") && error.exit_code() == 4, "{error}");
}
