//! Vocabularies and lower-casing that do not match.

use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, Layout, casing_warning, dry_run};

use crate::support::{config, run, shards, small_text, small_vocabulary};

/// Returns a cased vocabulary: the small one, and its words with capitals.
fn cased_vocabulary(folder: &Path) -> PathBuf {
    let small = std::fs::read_to_string(small_vocabulary(folder)).unwrap();
    let capitals =
        ["The", "Cat", "Dog", "Sun", "Is", "Walking", "##ING"].map(|word| format!("{word}\n")).concat();
    let path = folder.join("cased.txt");
    std::fs::write(&path, small + &capitals).unwrap();
    path
}

fn capitals(text: &str) -> String {
    text.lines()
        .map(|line| line.get(..1).unwrap_or("").to_uppercase() + line.get(1..).unwrap_or("") + "\n")
        .collect()
}

/// Each of two vocabularies with each of two texts, lower-cased or not.
#[test]
fn casing_mismatch_is_reported_with_its_percentage() {
    let folder = tempfile::tempdir().unwrap();
    let [uncased, cased] = [small_vocabulary(folder.path()), cased_vocabulary(folder.path())];
    let [lower, upper] = ["lower.txt", "upper.txt"].map(|name| folder.path().join(name));
    std::fs::write(&lower, small_text(40)).unwrap();
    std::fs::write(&upper, capitals(&small_text(40))).unwrap();
    let share = "do-lower-case is on, but the vocabulary is cased: 9 % of its words (7 of 74) have upper-case letters";
    let words = "do-lower-case is off, but the vocabulary is uncased: 16.7 % of the words at the beginning of the text";
    for (vocab, text, do_lower_case, message) in [
        (&uncased, &upper, true, None),
        (&uncased, &lower, true, None),
        (&cased, &lower, true, Some(share)),
        (&cased, &upper, true, Some(share)),
        (&cased, &upper, false, None),
        (&cased, &lower, false, None),
        (&uncased, &lower, false, None),
        (&uncased, &upper, false, Some(words)),
    ] {
        let config = BuildConfig {
            do_lower_case: Some(do_lower_case),
            dupe_factor: 1,
            overwrite: true,
            ..config(&[text], vocab, &folder.path().join("data"))
        };
        let warning = casing_warning(&config).unwrap();
        assert_eq!(warning.is_some(), message.is_some(), "{warning:?}");
        if let (Some(warning), Some(message)) = (&warning, message) {
            assert!(warning.contains(message), "{warning}");
            let documents = BuildConfig { layout: Layout::Documents, dupe_factor: 10, ..config.clone() };
            for config in [&config, &documents] {
                let report = run(config).unwrap().manifest.report;
                assert_eq!(&report.warnings[0], warning, "of the report");
            }
            assert_eq!(&dry_run(&config).unwrap().warnings[0], warning);
        } else {
            let report = run(&config).unwrap().manifest.report;
            assert!(report.warnings.iter().all(|warning| !warning.contains("lower-case is")), "{report}");
        }
    }
}

/// The published vocabularies with matching text give no warning, and with other text they do.
#[test]
#[ignore = "needs ../shared"]
fn the_published_vocabularies() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let warning = |vocab: &str, corpus: &str, do_lower_case: bool| {
        let vocab = shared.join(format!("vocab/bert-base-{vocab}-vocab.txt"));
        let input = shared.join("corpora").join(corpus);
        let config = BuildConfig {
            do_lower_case: Some(do_lower_case),
            ..config(&[&input], &vocab, Path::new("nowhere"))
        };
        casing_warning(&config).unwrap().unwrap_or_default()
    };
    let english = "simplewiki-2017.txt.zst";
    let chinese = "zhwiki-sentences.txt.zst";
    for (vocab, corpus, do_lower_case) in [
        ("uncased", english, true),
        ("cased", english, false),
        ("chinese", chinese, true),
        ("chinese", "zh_news_sample.txt", true),
        ("chinese", chinese, false),
        ("chinese", "zh_news_sample.txt", false),
    ] {
        assert_eq!(warning(vocab, corpus, do_lower_case), "", "{vocab}");
    }
    let cased = warning("cased", english, true);
    assert!(cased.contains("31 % of its words (8366 of 26955)"), "{cased}");
    let uncased = warning("uncased", english, false);
    assert!(uncased.contains("but the vocabulary is uncased"), "{uncased}");
    println!("{cased}\n{uncased}");
}

/// Returns the words of all rows of a data set, without special tokens.
fn words_of(config: &BuildConfig) -> Vec<String> {
    let outcome = run(config).unwrap();
    let vocabulary = outcome.manifest.vocabulary_path(&outcome.output);
    let vocabulary = bert_data::Vocabulary::read(&vocabulary).unwrap();
    let mut words = Vec::new();
    for shard in shards(&outcome) {
        for row in 0..shard.len() {
            words.extend(shard.row(row).input_ids.iter().map(|&id| vocabulary.token(id).to_owned()));
        }
    }
    words
}

/// Returns a folder with a German text, and its vocabulary in the three forms.
fn german(config: &serde_json::Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = "Sie M\u{d6}CHTE das Boot\nSie mochte das \u{6771}\u{4eac}\n\n".repeat(4);
    std::fs::write(folder.path().join("text.txt"), text).unwrap();
    let mut words = vec!["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sie", "das", "boot", "mochte"];
    words.extend(["m\u{f6}chte", "\u{6771}\u{4eac}", "\u{6771}", "\u{4eac}"]);
    std::fs::write(folder.path().join("words"), words.join("\n")).unwrap();
    let vocab: serde_json::Map<_, _> =
        words.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), id.into())).collect();
    let json = serde_json::json!({"model": {"type": "WordPiece", "vocab": vocab}, "normalizer": config});
    std::fs::create_dir(folder.path().join("model")).unwrap();
    std::fs::write(folder.path().join("model/tokenizer.json"), json.to_string()).unwrap();
    folder
}

#[test]
fn a_build_obeys_the_settings_of_a_model_folder() {
    let settings = serde_json::json!({
        "type": "BertNormalizer", "lowercase": true, "strip_accents": false, "handle_chinese_chars": false
    });
    let folder = german(&settings);
    let at = |name: &str| folder.path().join(name);
    let build = |output: &str| BuildConfig {
        nsp: bert_data::Nsp::Off,
        masking: bert_data::Masking::Dynamic,
        ..config(&[&at("text.txt")], &at("model"), &at(output))
    };
    let words = words_of(&build("as-stated"));
    assert!(words.contains(&"m\u{f6}chte".into()) && words.contains(&"\u{6771}\u{4eac}".into()), "{words:?}");
    let manifest = bert_data::Manifest::read(&at("as-stated")).unwrap();
    assert_eq!((manifest.config.strip_accents, manifest.config.tokenize_chinese_chars), (Some(false), false));
    let flags = BuildConfig {
        strip_accents: Some(true),
        tokenize_chinese_chars: Some(true),
        ..build("as-the-flags-say")
    };
    let words = words_of(&flags);
    assert!(!words.contains(&"m\u{f6}chte".into()) && words.contains(&"\u{6771}".into()), "{words:?}");
}

#[test]
fn accents_are_kept_for_accented_vocabularies() {
    let folder = german(&serde_json::Value::Null);
    let at = |name: &str| folder.path().join(name);
    let build = |strip_accents, output: &str| BuildConfig {
        strip_accents,
        nsp: bert_data::Nsp::Off,
        ..config(&[&at("text.txt")], &at("words"), &at(output))
    };
    let by_words = build(None, "by-words");
    assert!(casing_warning(&by_words).unwrap().unwrap().contains("1 of the 8 words"));
    assert!(words_of(&by_words).contains(&"m\u{f6}chte".into()));
    let stripped = build(Some(true), "stripped");
    assert!(casing_warning(&stripped).unwrap().unwrap().contains("--strip-accents false"));
    assert!(!words_of(&stripped).contains(&"m\u{f6}chte".into()));
}

#[test]
fn words_beyond_the_limit_of_the_folder_are_reported() {
    let folder = german(&serde_json::json!({"type": "BertNormalizer"}));
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("long.txt"), format!("das {0} {0}\ndas boot\n\n", "x".repeat(150)).repeat(4)).unwrap();
    let warnings = |output: &str| {
        let config = config(&[&at("long.txt")], &at("model"), &at(output));
        run(&BuildConfig { nsp: bert_data::Nsp::Off, ..config }).unwrap().manifest.report.warnings.join("\n")
    };
    assert!(!warnings("as-usual").contains("too long for the tokenizer"));
    let json = std::fs::read_to_string(at("model/tokenizer.json")).unwrap();
    let limit = r#""model":{"max_input_chars_per_word":100,"#;
    std::fs::write(at("model/tokenizer.json"), json.replace(r#""model":{"#, limit)).unwrap();
    let stated = warnings("as-stated");
    assert!(stated.contains("4 sentence(s) of long.txt have words that are too long"), "{stated}");
}

#[test]
fn lower_case_as_in_turkish_is_recorded() {
    let folder = german(&serde_json::json!({"type": "BertNormalizer"}));
    let base =
        config(&[&folder.path().join("text.txt")], &folder.path().join("words"), &folder.path().join("out"));
    let turkish = BuildConfig { language: Some("tr".to_owned()), nsp: bert_data::Nsp::Off, ..base };
    let manifest = run(&turkish).unwrap().manifest;
    assert_eq!(manifest.config.language.as_deref(), Some("tr"));
    let warnings = manifest.report.warnings.join("\n");
    assert!(warnings.contains("lower-cased as in Turkish"), "{warnings}");
}
