//! BLEU and chrF against sacreBLEU: `tests/golden/make_sacrebleu_goldens.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use bert_tasks::{BleuTokenizer, TranslationMetric, summarize};
use serde::Deserialize;

#[derive(Deserialize)]
struct Goldens {
    cases: Vec<Case>,
    tokens: Vec<Tokens>,
}

#[derive(Deserialize)]
struct Case {
    tokenizer: String,
    hypotheses: Vec<String>,
    references: Vec<Vec<String>>,
    bleu: f64,
    chrf: f64,
}

#[derive(Deserialize)]
struct Tokens {
    tokenizer: String,
    line: String,
    tokens: Vec<String>,
}

fn golden_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

fn named(name: &str) -> BleuTokenizer {
    BleuTokenizer::ALL
        .into_iter()
        .find(|tokenizer| tokenizer.name() == name)
        .expect("a tokenizer of sacreBLEU")
}

fn check(goldens: &Goldens) {
    for Case { tokenizer, hypotheses, references, bleu, chrf } in &goldens.cases {
        let metrics = TranslationMetric::all(named(tokenizer));
        for (metric, expected) in metrics.into_iter().zip([bleu, chrf]) {
            let summary = summarize(metric, std::slice::from_ref(hypotheses), references);
            assert!(
                (summary.mean - expected).abs() < 1e-6,
                "{hypotheses:?}: {} is not {expected}",
                summary.mean
            );
        }
    }
    for Tokens { tokenizer, line, tokens } in &goldens.tokens {
        assert_eq!(&named(tokenizer).tokenize(line), tokens, "{tokenizer}: {line:?}");
    }
    assert!(goldens.cases.len() > 50 && goldens.tokens.len() > 25);
}

#[test]
fn scores_equal_sacrebleu() {
    let bytes = std::fs::read(golden_path("sacrebleu.json")).unwrap();
    check(&serde_json::from_slice(&bytes).unwrap());
}

#[test]
#[ignore = "needs Python with sacrebleu (BERT_PYTHON)"]
fn scores_equal_installed_sacrebleu() {
    let python = std::env::var_os("BERT_PYTHON").expect("this test needs BERT_PYTHON, an interpreter");
    let run = Command::new(python).arg(golden_path("make_sacrebleu_goldens.py")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    check(&serde_json::from_slice(&run.stdout).unwrap());
}

#[test]
fn interval_contains_the_mean_of_runs() {
    let references: Vec<Vec<String>> =
        (0..40).map(|i| vec![format!("sentence number {i} of the test set has some words")]).collect();
    let run = |wrong: usize| -> Vec<String> {
        let worse =
            |i: usize| if i.is_multiple_of(wrong) { "nothing".to_string() } else { references[i][0].clone() };
        (0..40).map(worse).collect()
    };
    for metric in TranslationMetric::all(BleuTokenizer::default()) {
        let summary = summarize(metric, &[run(3), run(5)], &references);
        assert_eq!(summary.mean, (summary.runs[0] + summary.runs[1]) / 2.0);
        assert!(summary.low < summary.mean && summary.mean < summary.high, "{summary:?}");
        let same = summarize(metric, &[run(3), run(5)], &references);
        assert_eq!(summary, same);
    }
}

#[test]
fn metrics_are_serialized_by_name() {
    let names = serde_json::to_string(&TranslationMetric::all(BleuTokenizer::Zh)).unwrap();
    assert_eq!(names, r#"["bleu","chrf"]"#);
}
