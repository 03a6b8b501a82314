use std::collections::HashSet;
use std::path::Path;

use bert_data::{
    BuildConfig, BuildOutcome, Layout, build_held_out, held_out_folder, read_all_documents, verify,
};
use tempfile::TempDir;

use crate::support::{config, run, small_text, small_vocabulary};

/// Different documents: each has its number in letters.
fn numbered(documents: usize) -> Vec<String> {
    let letters =
        |number: usize| number.to_string().bytes().map(|b| char::from(b - b'0' + b'a')).collect::<String>();
    (0..documents).map(|n| format!("the cat {}.\nthe dog ran.\nis it hot?\n", letters(n))).collect()
}

fn build_both(config: &BuildConfig) -> [BuildOutcome; 2] {
    let training = run(config).unwrap();
    let held_out = build_held_out(config, &training.manifest, &mut |_| {}).unwrap().unwrap();
    [training, held_out]
}

/// Returns the training documents and the held-out documents.
fn both_documents(config: &BuildConfig) -> [HashSet<Vec<u32>>; 2] {
    let output = config.output.as_ref().map(|output| output.with_extension("held-out"));
    let held_out = BuildConfig { held_out: true, output, ..config.clone() };
    [config, &held_out].map(|config| documents(&run(config).unwrap()))
}

/// Returns the documents of a data set as token ids.
fn documents(outcome: &BuildOutcome) -> HashSet<Vec<u32>> {
    let bucket = read_all_documents(&outcome.data_set().unwrap()).unwrap();
    let text = bucket.documents();
    let ids = |number| {
        let (document, mut ids) = (text.document(number), Vec::new());
        document.append_tokens(0..document.tokens(), &mut ids);
        ids
    };
    (0..text.len()).map(ids).collect()
}

fn options(folder: &Path, input: &str, output: &str) -> BuildConfig {
    let base = config(&[&folder.join(input)], &small_vocabulary(folder), &folder.join(output));
    BuildConfig { hold_out: Some("20%".parse().unwrap()), layout: Layout::Documents, ..base }
}

#[test]
fn both_sets_share_no_document() {
    let folder = TempDir::new().unwrap();
    let texts = numbered(300);
    std::fs::write(folder.path().join("a.txt"), texts.join("\n")).unwrap();
    let [training, held_out] = both_documents(&options(folder.path(), "a.txt", "documents"));
    assert!(training.is_disjoint(&held_out));
    assert_eq!(training.len() + held_out.len(), 300);
    // 5 sigma of a binomial distribution.
    assert!((held_out.len() as f64 - 60.0).abs() < 35.0, "{}", held_out.len());
    let both = build_both(&options(folder.path(), "a.txt", "out"));
    assert_eq!(both[1].output, held_out_folder(&both[0].output));
    for (outcome, documents) in both.iter().zip([training, held_out]) {
        assert!(verify(&outcome.output, false).unwrap().is_good());
        let report = &outcome.manifest.report;
        let tokens = documents.iter().map(|ids| ids.len() as u64).sum();
        assert_eq!(
            (report.documents, report.tokens, report.unknown_tokens),
            (documents.len() as u64, tokens, 0)
        );
    }
}

#[test]
fn assignment_follows_the_text_of_a_document() {
    let folder = TempDir::new().unwrap();
    let mut texts = numbered(200);
    std::fs::write(folder.path().join("a.txt"), texts.join("\n")).unwrap();
    let one = both_documents(&BuildConfig { threads: 1, ..options(folder.path(), "a.txt", "one") });
    // Another order, in two files, by three threads, with a copy of every document.
    texts.reverse();
    std::fs::create_dir(folder.path().join("b")).unwrap();
    std::fs::write(folder.path().join("b/1.txt"), texts[..90].join("\n")).unwrap();
    std::fs::write(folder.path().join("b/2.txt"), [&texts[..], &texts[90..]].concat().join("\n")).unwrap();
    let other = both_documents(&BuildConfig { threads: 3, ..options(folder.path(), "b", "other") });
    assert_eq!(one, other);
    let seed = both_documents(&BuildConfig { random_seed: 1, ..options(folder.path(), "a.txt", "seed") });
    assert_ne!(one[1], seed[1]);
}

#[test]
fn same_command_keeps_both_sets() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), numbered(100).join("\n")).unwrap();
    let options =
        BuildConfig { layout: Layout::Instances, dupe_factor: 2, ..options(folder.path(), "a.txt", "out") };
    let first = build_both(&options);
    let second = build_both(&options);
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.manifest, second.manifest);
    }
    // Saved options build the held-out data again.
    let saved = BuildConfig::read(&first[1].output).unwrap();
    assert!(saved.held_out && saved.held_out_config().is_none());
    let again = run(&BuildConfig { output: Some(folder.path().join("again")), ..saved }).unwrap();
    assert_eq!(again.manifest.shards_digest(), first[1].manifest.shards_digest());
}

#[test]
fn too_few_documents_are_reported() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), small_text(3)).unwrap();
    let options =
        BuildConfig { hold_out: Some("0.1%".parse().unwrap()), ..options(folder.path(), "a.txt", "out") };
    let training = run(&options).unwrap();
    let error = build_held_out(&options, &training.manifest, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("--hold-out 0.1%"), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn paragraphs_are_reported_with_their_remedy() {
    let folder = TempDir::new().unwrap();
    let line = "the cat sat on the mat. the dog ran far away! ".repeat(10);
    std::fs::write(folder.path().join("a.txt"), format!("{line}\n{line}\n\n").repeat(15)).unwrap();
    let base = BuildConfig { hold_out: None, ..options(folder.path(), "a.txt", "lines") };
    let warned = |config: &BuildConfig| {
        let warnings = run(config).unwrap().manifest.report.warnings;
        warnings.iter().any(|warning| {
            warning.contains("the lines are paragraphs") && warning.contains("--split-sentences")
        })
    };
    assert!(warned(&base));
    let output = Some(folder.path().join("split"));
    assert!(!warned(&BuildConfig { split_sentences: true, output, ..base.clone() }));
    std::fs::write(folder.path().join("a.txt"), small_text(30)).unwrap();
    assert!(!warned(&BuildConfig { output: Some(folder.path().join("sentences")), ..base }));
}
