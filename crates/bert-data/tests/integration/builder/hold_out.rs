use std::collections::HashSet;
use std::path::Path;

use bert_data::{
    BuildConfig, BuildOutcome, Layout, Manifest, build_held_out, held_out_folder, read_all_documents, verify,
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
    let error = run(&options).unwrap_err();
    assert!(error.to_string().contains("`.hold_out` 0.1% selects 0 of 3 documents"), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert!(!folder.path().join("out").exists(), "nothing is left");
    let estimate = bert_data::dry_run(&options).unwrap();
    assert!(
        estimate.warnings.iter().any(|warning| warning.contains("--hold-out")),
        "{:?}",
        estimate.warnings
    );
}

/// Returns the words of the documents of a data set, without the division into sentences and pieces.
fn words(outcome: &BuildOutcome) -> HashSet<String> {
    let vocabulary = bert_data::Vocabulary::read(&outcome.manifest.vocabulary_path(&outcome.output)).unwrap();
    let text = |ids: Vec<u32>| {
        let pieces: String = ids.iter().map(|&id| format!(" {}", vocabulary.token(id))).collect();
        pieces.replace(" ##", "").replace(' ', "")
    };
    documents(outcome).into_iter().map(text).collect()
}

#[test]
fn lengths_vocabularies_and_pairs_do_not_move_documents() {
    let folder = TempDir::new().unwrap();
    let long = "the cat sat on the mat and ran far away ".repeat(20);
    let texts: Vec<String> = numbered(200)
        .iter()
        .enumerate()
        .map(|(n, text)| if n % 2 == 0 { format!("{long} {n}.\n{text}") } else { text.clone() })
        .collect();
    std::fs::write(folder.path().join("a.txt"), texts.join("\n")).unwrap();
    let base = options(folder.path(), "a.txt", "base");
    let letters = folder.path().join("letters.txt");
    let tokens = ('a'..='z').chain('0'..='9').flat_map(|c| [c.to_string(), format!("##{c}")]);
    let tokens =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?"].map(String::from).into_iter().chain(tokens);
    std::fs::write(&letters, tokens.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let base = BuildConfig { vocab: Some(letters), ..base };
    let held_out = |config: BuildConfig, name: &str| {
        let output = Some(folder.path().join(name));
        words(&run(&BuildConfig { held_out: true, output, ..config }).unwrap())
    };
    let expected = held_out(base.clone(), "one");
    assert!(!expected.is_empty());
    for (name, config) in [
        ("long", BuildConfig { max_seq_length: 512, ..base.clone() }),
        ("short", BuildConfig { max_seq_length: 16, ..base.clone() }),
        ("single", BuildConfig { nsp: bert_data::Nsp::Off, ..base.clone() }),
        ("split", BuildConfig { split_sentences: true, ..base.clone() }),
    ] {
        assert_eq!(held_out(config, name), expected, "{name}");
    }
}

#[test]
fn a_number_of_documents_is_held_out() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), numbered(100).join("\n")).unwrap();
    let options =
        BuildConfig { hold_out: Some("7".parse().unwrap()), ..options(folder.path(), "a.txt", "out") };
    let both = build_both(&options);
    assert_eq!(both.each_ref().map(|outcome| outcome.manifest.report.documents), [93, 7]);
    assert!(both[1].manifest.config.is_held_out_of(&both[0].manifest.config));
    assert!(both[1].manifest.shards[0].file.starts_with("_validation-"));
    let many = BuildConfig { hold_out: Some("51".parse().unwrap()), overwrite: true, ..options };
    let error = run(&many).unwrap_err().to_string();
    assert!(error.contains("`.hold_out` 51 is more than half of the 100 documents"), "{error}");
}

#[test]
fn other_training_data_withdraw_the_held_out_set() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), numbered(100).join("\n")).unwrap();
    let options = options(folder.path(), "a.txt", "out");
    let [training, held_out] = build_both(&options);
    run(&BuildConfig { max_seq_length: 64, overwrite: true, ..options }).unwrap();
    assert!(!held_out.output.exists());
    assert!(training.output.join("manifest.json").exists());
}

#[test]
fn held_out_documents_of_other_sets_are_found() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), numbered(200).join("\n")).unwrap();
    let base = options(folder.path(), "a.txt", "out");
    let [training, held_out] = build_both(&base).map(|outcome| outcome.manifest);
    let shared =
        |other: &Manifest| held_out.shared_documents(other).map(|found| (found.compared, found.shared));
    let all = held_out.report.documents;
    assert_eq!(shared(&training), Some((all, 0)));
    // Another length does not matter.
    let output = Some(folder.path().join("other"));
    let seed = BuildConfig { random_seed: 1, max_seq_length: 16, output: output.clone(), ..base.clone() };
    let other = run(&seed).unwrap();
    let expected = documents(&other);
    let text = BuildConfig { held_out: true, output: Some(folder.path().join("text")), ..base.clone() };
    let common = documents(&run(&text).unwrap()).intersection(&expected).count() as u64;
    assert!(common > all / 2);
    assert_eq!(shared(&other.manifest), Some((all, common)));
    // Other tokens cannot be compared.
    let cased = BuildConfig { do_lower_case: Some(false), overwrite: true, output, ..base };
    assert_eq!(shared(&run(&cased).unwrap().manifest), None);
}

#[test]
fn parts_hold_out_the_documents_of_a_whole_build() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), numbered(150).join("\n")).unwrap();
    let base = BuildConfig { num_shards: Some(2), ..options(folder.path(), "a.txt", "parts") };
    let configs = |part| {
        let config = BuildConfig { part: Some(part), parts: Some(2), ..base.clone() };
        [config.held_out_config().unwrap(), config]
    };
    for config in [1, 2].into_iter().flat_map(configs) {
        bert_data::tokenize_part(&config, &mut |_| {}).unwrap();
    }
    for config in [2, 1].into_iter().flat_map(configs) {
        bert_data::build_part(&config, &mut |_| {}).unwrap();
    }
    let output = base.output.clone().unwrap();
    bert_data::merge(&output, &mut |_| {}).unwrap();
    let whole = build_both(&BuildConfig { output: Some(folder.path().join("whole")), ..base });
    for (folder, outcome) in [output.clone(), held_out_folder(&output)].iter().zip(&whole) {
        let parts = bert_data::DataSet::open(folder).unwrap();
        assert_eq!(parts.manifest().shards_digest(), outcome.manifest.shards_digest());
        assert_eq!(parts.manifest().document_hashes, outcome.manifest.document_hashes);
    }
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
