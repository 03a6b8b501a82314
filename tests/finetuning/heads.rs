//! Fine-tuning with other heads: question answering, tagging, multiple choice.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::common::{Folder, assert_self_contained, number};

pub(crate) const QUICK: &str = "finetune --checkpoint run --max-seq-length 48 --num-train-epochs 3 \
                                --train-batch-size 8 --learning-rate 3e-3";

pub(crate) const NAMES: [&str; 6] =
    ["the river", "a glacier", "the delta", "a volcano", "the desert", "a reef"];
const PLACES: [&str; 5] = ["the north", "warm water", "a narrow valley", "the old forest", "dry air"];

/// Returns a set in SQuAD format: in every text three things have a location. With `version_2`, every third question
/// has no answer.
fn questions(first: usize, texts: usize, version_2: bool) -> Value {
    let paragraph = |text: usize| {
        let mut context = String::from("Much has been written, and little is known. ");
        let mut qas = Vec::new();
        for part in 0..3 {
            let name = NAMES[(text + part) % 6];
            let place = PLACES[(2 * text + part) % 5];
            let start = context.chars().count() + name.len() + " lies in ".len();
            let _ = write!(context, "{name} lies in {place}. ");
            let impossible = version_2 && part == 2;
            let asked = if impossible { "a comet" } else { name };
            let answers =
                if impossible { json!([]) } else { json!([{ "text": place, "answer_start": start }]) };
            let id = format!("{text}-{part}");
            let question = format!("Where does {asked} lie?");
            qas.push(
                json!({ "id": id, "question": question, "answers": answers, "is_impossible": impossible }),
            );
        }
        json!({ "context": context, "qas": qas })
    };
    let paragraphs: Vec<Value> = (first..first + texts).map(paragraph).collect();
    let version = if version_2 { "v2.0" } else { "1.1" };
    json!({ "version": version, "data": [{ "title": "t", "paragraphs": paragraphs }] })
}

/// Returns the context and the answers of every question.
fn by_id(set: &Value) -> BTreeMap<String, (String, Vec<String>)> {
    let mut found = BTreeMap::new();
    for paragraph in set["data"][0]["paragraphs"].as_array().expect("paragraphs") {
        for question in paragraph["qas"].as_array().expect("questions") {
            let answers = question["answers"].as_array().expect("answers").iter();
            let answers = answers.map(|answer| answer["text"].as_str().expect("text").to_string());
            let context = paragraph["context"].as_str().expect("a text").to_string();
            found.insert(question["id"].as_str().expect("an id").to_string(), (context, answers.collect()));
        }
    }
    found
}

pub(crate) fn with_questions(version_2: bool) -> (Folder, Value) {
    let folder = Folder::with_run();
    let version = if version_2 { "v2.0" } else { "v1.1" };
    let dev = questions(20, 5, version_2);
    folder.write(&format!("squad/train-{version}.json"), questions(0, 20, version_2).to_string());
    folder.write(&format!("squad/dev-{version}.json"), dev.to_string());
    (folder, dev)
}

/// Checks each run's predictions on dev, their n-best lists and their scores.
fn check_answers_of_each_seed(folder: &Folder, report: &Value, dev: &Value) {
    let dev = by_id(dev);
    for (seed, run) in [1, 2].iter().zip(report["runs"].as_array().expect("runs")) {
        let answers = &folder.json(&format!("tuned/seed-{seed}/dev_predictions.json"))[0];
        let best = &folder.json(&format!("tuned/seed-{seed}/dev_nbest_predictions.json"))[0];
        let mut right = 0;
        for (id, (context, gold)) in &dev {
            let answer = answers[id].as_str().expect("an answer");
            assert!(!answer.is_empty() && context.contains(answer), "{id}: {answer:?}");
            // The official normalization removes articles; its other rules do not matter here.
            let plain = |text: &str| {
                let words = text.to_lowercase().replace(['.', ','], "");
                let words = words.split(' ').filter(|word| !["the", "a", ""].contains(word));
                words.map(String::from).collect::<Vec<_>>()
            };
            right += usize::from(plain(answer) == plain(&gold[0]));
            let candidates = best[id].as_array().expect("candidates");
            assert!(candidates.len() <= 5 && candidates[0]["text"] == json!(answer));
            let sum: f64 = candidates.iter().map(|candidate| number(candidate, "/probability")).sum();
            assert!((sum - 1.0).abs() < 1e-9);
        }
        assert!((number(run, "/dev/exact_match") - right as f64 / 15.0).abs() < 1e-12);
        assert!(number(run, "/dev/f1") >= number(run, "/dev/exact_match"));
        let history = run["history"].as_array().expect("epochs");
        assert!(number(&history[2], "/train_loss") < number(&history[0], "/train_loss"), "it learns");
    }
}

/// Checks that new questions together with the dev questions get the answers of dev.
fn check_predictions_equal_dev(folder: &Folder) {
    let mut asked = String::new();
    for paragraph in questions(20, 5, false)["data"][0]["paragraphs"].as_array().expect("paragraphs") {
        for question in paragraph["qas"].as_array().expect("questions") {
            let row = json!({ "question": question["question"], "context": paragraph["context"] });
            let _ = writeln!(asked, "{row}");
        }
    }
    folder.write("asked.jsonl", asked);
    folder.ok("bert predict --checkpoint tuned --input asked.jsonl --output answered.jsonl");
    let answers = &folder.json("tuned/predictions.json")[0];
    for (row, id) in folder
        .json("answered.jsonl")
        .iter()
        .zip((20..25).flat_map(|t| (0..3).map(move |p| format!("{t}-{p}"))))
    {
        assert_eq!(row["answer"], answers[&id], "{id}");
        assert!(number(row, "/probability") > 0.0);
    }
}

/// Checks that the output layer is also new when the checkpoint already is a question-answering model.
fn check_new_output_layer(folder: &Folder, flags: &str) {
    let still = QUICK.replace("3e-3", "1e-12").replace("--checkpoint run", "--checkpoint tuned");
    folder.ok(&format!("{still} {flags} --output still"));
    let outputs =
        |name: &str| folder.tensors(&format!("{name}/model/model.safetensors"))["qa_outputs.weight"].clone();
    assert_ne!(outputs("tuned"), outputs("still"));
}

#[test]
fn squad_answers_are_spans_of_the_context() {
    let (folder, dev) = with_questions(false);
    let flags = "--task squad --data squad --doc-stride 16 --max-query-length 12 --max-answer-length 6 --n-best-size 5";
    let ended = folder
        .ok(&format!("{QUICK} {flags} --seeds 1,2 --predict squad/dev-v1.1.json --output tuned --json"));
    let report = ended.json();
    assert_eq!((&report["train_examples"], &report["dev"]["examples"]), (&json!(60), &json!(15)));
    check_answers_of_each_seed(&folder, &report, &dev);
    // The best run answers the --predict file, which is dev here.
    let f1 = |run: usize| number(&report, &format!("/runs/{run}/dev/f1"));
    let best = if f1(1) > f1(0) { 2 } else { 1 };
    assert_eq!(
        folder.text("tuned/predictions.json"),
        folder.text(&format!("tuned/seed-{best}/dev_predictions.json"))
    );
    let interval = &report["dev"]["interval"];
    let mean = number(&report, "/dev/metrics/0/mean");
    assert!(number(interval, "/low") <= mean && mean <= number(interval, "/high"));
    let config = &folder.json("tuned/model/config.json")[0];
    assert_eq!(config["architectures"], json!(["BertForQuestionAnswering"]));
    check_predictions_equal_dev(&folder);
    check_new_output_layer(&folder, flags);
    folder.write("alone.txt", "Where does the river lie?\n");
    folder.refused(
        "bert predict --checkpoint tuned --input alone.txt",
        3,
        "alone.txt:1: \"text_b\" is missing, expected the text that contains",
    );
    folder.ok("bert report tuned");
    assert_self_contained(&folder.text("tuned/report.html"));
    folder.refused("bert scores tuned tuned --paired", 2, "task squad has no labels to compare");
    // The head of a fine-tuned model is reused.
    let line = format!("{QUICK} {flags} --output further --select last").replace("run ", "tuned ");
    let further = folder.ok(&format!("{} --json", line.replace("epochs 3", "epochs 1"))).json();
    let first = |report: &Value| number(report, "/runs/0/history/0/train_loss");
    assert!(first(&further) < first(&report), "{} {}", first(&further), first(&report));
}

/// Checks that a question may take more than half of the sequence, as in training.
#[test]
fn long_questions_are_answered_as_in_dev() {
    let (folder, _) = with_questions(false);
    let mut dev = questions(20, 2, false);
    let question = "Where in the wide world that much has been written of does it lie then and why there?";
    for text in dev["data"][0]["paragraphs"].as_array_mut().expect("paragraphs") {
        text["qas"].as_array_mut().expect("questions").truncate(1);
        text["qas"][0]["question"] = question.into();
    }
    folder.write("squad/dev-v1.1.json", dev.to_string());
    let flags = "--task squad --data squad --max-seq-length 40 --max-query-length 30 --doc-stride 4";
    folder.ok(&format!("{QUICK} {flags} --output tuned").replace("--max-seq-length 48", ""));
    let rows = dev["data"][0]["paragraphs"].as_array().expect("paragraphs").iter();
    let rows =
        rows.map(|text| json!({ "question": question, "context": text["context"] }).to_string() + "\n");
    folder.write("asked.jsonl", rows.collect::<String>());
    folder.ok("bert predict --checkpoint tuned --input asked.jsonl --output answered.jsonl");
    let best = &folder.json("tuned/seed-1/dev_nbest_predictions.json")[0];
    for (row, id) in folder.json("answered.jsonl").iter().zip(["20-0", "21-0"]) {
        assert_eq!(row["answer"], best[id][0]["text"]);
        assert!((number(row, "/probability") - number(&best[id][0], "/probability")).abs() < 1e-6);
    }
}

#[test]
fn squad2_predicts_unanswerable_questions() {
    let (folder, dev) = with_questions(true);
    let line = format!("{QUICK} --task squad2 --data squad --max-query-length 12 --json --output");
    let scored = |flags: &str, name: &str| {
        let report = folder.ok(&format!("{line} {name} {flags}")).json();
        let answers = folder.json(&format!("{name}/seed-1/dev_predictions.json"))[0].clone();
        let given = by_id(&dev).keys().filter(|id| answers[*id] != json!("")).count();
        (number(&report, "/dev/metrics/1/mean"), given)
    };
    let (_, given) = scored("", "tuned");
    let odds = &folder.json("tuned/seed-1/dev_null_odds.json")[0];
    let without: Vec<_> = by_id(&dev).into_keys().filter(|id| odds[id].as_f64() > Some(0.0)).collect();
    assert_eq!(given, 15 - without.len(), "an answer is given where no answer scores less");
    // Always the empty answer, whatever its score: correct for one question in three.
    let (exact, given) = scored("--null-score-diff-threshold -1000", "silent");
    assert!((exact - 1.0 / 3.0).abs() < 1e-12 && given == 0);
    let (_, given) = scored("--null-score-diff-threshold 1000", "talkative");
    assert_eq!(given, 15);
}

#[test]
fn invalid_squad_files_are_rejected() {
    let (folder, _) = with_questions(true);
    let path = "squad/dev.json";
    let line = format!("{QUICK} --task squad --max-query-length 12 --output tuned");
    folder.write("squad/train.json", questions(0, 4, false).to_string());
    let files = "--train-file squad/train.json --dev-file squad/dev.json";
    let refused = |bytes: String, message: &str, code: i32| {
        folder.write(path, bytes);
        folder.refused(&format!("{line} {files}"), code, message);
        assert!(!folder.at("tuned").exists());
    };
    refused(
        questions(0, 2, true).to_string(),
        "question 0-2 has no answer in its text: this is SQuAD 2.0",
        3,
    );
    let elsewhere = questions(0, 2, false).to_string().replace("\"answer_start\":", "\"answer_start\":1");
    refused(elsewhere, "not the answer", 3);
    refused("{\"data\":[\n7]}".into(), "dev.json:2:", 3);
    for (flags, message) in [
        ("--adapter pfeiffer", "--adapter: works with tasks that classify or score a text or a pair"),
        ("--null-score-diff-threshold 0", "in squad every question has an answer"),
        ("--doc-stride 0", "--doc-stride is 0, but must be at least 1"),
        ("--max-query-length 45", "leave no room for the text"),
        ("--test-file x", "no labelled test set"),
    ] {
        let line = line.replace(
            "--max-query-length 12",
            if flags.contains("query") { "" } else { "--max-query-length 12" },
        );
        folder.refused(&format!("{line} {files} {flags}"), 2, message);
    }
    folder.refused(
        "finetune --task rte --data d --checkpoint run --output tuned --n-best-size 3",
        2,
        "works with --task squad and squad2",
    );
}

/// Returns sentences in which names follow `the river` and `near`.
fn tagged(first: usize, sentences: usize) -> String {
    let mut text = String::from("-DOCSTART- -X- -X- O\n\n");
    for at in first..first + sentences {
        let river = ["Nile", "Amazon", "Ganges", "Rhine"][at % 4];
        let town = ["Cairo", "Lima", "Old Delhi", "Bonn"][at / 2 % 4];
        text.push_str("The DT O\nriver NN O\n");
        let _ = writeln!(text, "{river} NNP B-WATER");
        text.push_str("bends VB O\nnear IN O\n");
        for (nth, word) in town.split(' ').enumerate() {
            let _ = writeln!(text, "{word} NNP {}-TOWN", if nth == 0 { "B" } else { "I" });
        }
        text.push_str(". . O\n\n");
    }
    text
}

/// Returns a folder with a run and the files of a tagging task in `ner/`.
pub(crate) fn with_tags() -> Folder {
    let folder = Folder::with_run();
    folder.write("ner/train.txt", tagged(0, 60));
    folder.write("ner/valid.txt", tagged(7, 12));
    folder.write("ner/test.txt", tagged(3, 9));
    folder.write("new.txt", "A\nsmall\nriver\n\nCairo\n");
    folder
}

/// Returns the command line of a fine-tuning on tags.
fn tagging(epochs: u32) -> String {
    let line = QUICK.replace("3e-3", "1e-2").replace("epochs 3", &format!("epochs {epochs}"));
    format!("{line} --task conll --data ner")
}

/// Checks that words and tags of the predictions equal the dev file, and that the predicted entities of one
/// kind are plausible.
fn check_dev_predictions(written: &str) {
    let mut expected = tagged(7, 12).replace("-DOCSTART- -X- -X- O\n\n", "");
    let mut right = 0;
    let mut predicted = 0;
    let mut real = 0;
    for line in written.lines().filter(|line| !line.is_empty()) {
        let [word, tag, answer] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let (source, rest) = expected.trim_start().split_once('\n').expect("a line");
        assert!(source.starts_with(word) && source.ends_with(tag), "{source:?} {line:?}");
        expected = rest.to_string();
        // All entities have one word, except one kind of town.
        if tag == "B-WATER" || answer == "B-WATER" {
            real += usize::from(tag == "B-WATER");
            predicted += usize::from(answer == "B-WATER");
            right += usize::from(tag == answer);
        }
    }
    assert!(expected.trim().is_empty());
    assert!(real == 12 && right <= predicted, "{right} {predicted}");
}

#[test]
fn every_word_gets_a_tag() {
    let folder = with_tags();
    let report = folder.ok(&format!("{} --predict new.txt --output tuned --json", tagging(8))).json();
    let metrics: Vec<&Value> =
        report["dev"]["metrics"].as_array().expect("metrics").iter().map(|m| &m["metric"]).collect();
    assert_eq!(metrics, ["f1", "precision", "recall"]);
    let f1 = number(&report, "/dev/metrics/0/mean");
    assert!(f1 > 0.5, "{}", report["dev"]);
    assert_eq!(report["dev"]["interval"]["metric"], json!("f1"));
    let low = number(&report, "/dev/interval/low");
    let high = number(&report, "/dev/interval/high");
    assert!(low <= f1 && f1 <= high, "{}", report["dev"]);
    assert_eq!(report["test"]["examples"], json!(9));
    let config = &folder.json("tuned/model/config.json")[0];
    assert_eq!(config["architectures"], json!(["BertForTokenClassification"]));
    let names = json!({ "0": "O", "1": "B-TOWN", "2": "B-WATER", "3": "I-TOWN" });
    assert_eq!(config["id2label"], names);
    check_dev_predictions(&folder.text("tuned/seed-1/dev_predictions.txt"));
    let lines = folder.text("tuned/predictions.txt");
    let words: Vec<&str> = lines.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(words, ["A", "small", "river", "", "Cairo", ""]);

    folder.write("lines.txt", "A small river\nCairo\n");
    let tagged_lines = folder.ok("bert predict --checkpoint tuned --input lines.txt").stdout;
    let tags: Vec<Value> =
        tagged_lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let expected: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let found: Vec<&str> = tags
        .iter()
        .flat_map(|row| row["tags"].as_array().expect("tags"))
        .map(|tag| tag.as_str().expect("a tag"))
        .collect();
    assert_eq!(found, expected);
    let entities = expected.iter().filter(|tag| tag.starts_with("B-")).count();
    assert_eq!(
        tags.iter().map(|row| row["entities"].as_array().expect("entities").len()).sum::<usize>(),
        entities
    );
}

#[test]
fn truncated_words_are_reported() {
    let folder = with_tags();
    let short = tagging(1).replace("--max-seq-length 48", "--max-seq-length 6");
    let ended = folder.ok(&format!("{short} --output short"));
    ended.stderr_has("words of dev are beyond --max-seq-length 6");
    folder.write("long.txt", "A small river near a large old town\n");
    let row = folder.ok("bert predict --checkpoint short --input long.txt").json();
    assert!(
        number(&row, "/words_not_read") > 0.0 && row["tags"].as_array().map(Vec::len) == Some(8),
        "{row}"
    );
}

#[test]
fn tagging_keeps_a_frozen_encoder() {
    let folder = with_tags();
    folder.ok(&format!("{} --freeze-encoder --output frozen", tagging(1)));
    let before = folder.tensors("run/checkpoints/step-00000006/model.safetensors");
    let after = folder.tensors("frozen/model/model.safetensors");
    assert!(after.iter().all(|(name, tensor)| !name.starts_with("bert.") || before[name] == *tensor));
}

#[test]
fn invalid_tag_files_are_rejected() {
    let folder = with_tags();
    let line = tagging(8);
    folder.refused(&format!("{line} --test-file ner/none.txt --output other"), 1, "cannot read ner/none.txt");
    for (text, message) in [
        (tagged(0, 2) + "Bonn NNP B-CITY\n", "valid.txt:19: the tag \"B-CITY\" is not in the training file"),
        (tagged(0, 1) + "Bonn\n", "valid.txt:11: the word \"Bonn\" has no tag"),
    ] {
        folder.write("ner/valid.txt", text);
        folder.refused(&format!("{line} --output other"), 3, message);
    }
}
