//! Fine-tuning with other heads: question answering, tagging, multiple choice.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::common::{Folder, assert_self_contained, number};
use crate::finetuning::tasks::with_entailment;

const QUICK: &str = "finetune --checkpoint run --max-seq-length 48 --num-train-epochs 3 --train-batch-size 8 \
                     --learning-rate 3e-3";

const NAMES: [&str; 6] = ["the river", "a glacier", "the delta", "a volcano", "the desert", "a reef"];
const PLACES: [&str; 5] = ["the north", "warm water", "a narrow valley", "the old forest", "dry air"];

/// Returns a set in SQuAD format: in every text three things have a location. With `version_2`, every third question
/// has no answer.
fn questions(first: usize, texts: usize, version_2: bool) -> Value {
    let paragraph = |text: usize| {
        let mut context = String::from("Much has been written, and little is known. ");
        let mut qas = Vec::new();
        for part in 0..3 {
            let (name, place) = (NAMES[(text + part) % 6], PLACES[(2 * text + part) % 5]);
            let start = context.chars().count() + name.len() + " lies in ".len();
            let _ = write!(context, "{name} lies in {place}. ");
            let impossible = version_2 && part == 2;
            let asked = if impossible { "a comet" } else { name };
            let answers = match impossible {
                true => json!([]),
                false => json!([{ "text": place, "answer_start": start }]),
            };
            let (id, question) = (format!("{text}-{part}"), format!("Where does {asked} lie?"));
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

fn with_questions(version_2: bool) -> (Folder, Value) {
    let folder = Folder::with_run();
    let version = if version_2 { "v2.0" } else { "v1.1" };
    let dev = questions(20, 5, version_2);
    folder.write(&format!("squad/train-{version}.json"), questions(0, 20, version_2).to_string());
    folder.write(&format!("squad/dev-{version}.json"), dev.to_string());
    (folder, dev)
}

#[test]
fn squad_answers_are_spans_of_the_context() {
    let (folder, dev) = with_questions(false);
    let flags = "--task squad --data squad --doc-stride 16 --max-query-length 12 --max-answer-length 6 --n-best-size 5";
    let ended = folder
        .ok(&format!("{QUICK} {flags} --seeds 1,2 --predict squad/dev-v1.1.json --output tuned --json"));
    let report = ended.json();
    assert_eq!((&report["train_examples"], &report["dev"]["examples"]), (&json!(60), &json!(15)));
    let dev = by_id(&dev);
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
    // New questions together with the dev questions: the dev answers do not change.
    let mut asked = String::new();
    for paragraph in questions(20, 5, false)["data"][0]["paragraphs"].as_array().expect("paragraphs") {
        for question in paragraph["qas"].as_array().expect("questions") {
            let row = json!({ "question": question["question"], "context": paragraph["context"] });
            let _ = writeln!(asked, "{row}");
        }
    }
    folder.write("asked.jsonl", asked);
    folder.ok("bert predict --model tuned --input asked.jsonl --output answered.jsonl");
    let answers = &folder.json("tuned/predictions.json")[0];
    for (row, id) in folder
        .json("answered.jsonl")
        .iter()
        .zip((20..25).flat_map(|t| (0..3).map(move |p| format!("{t}-{p}"))))
    {
        assert_eq!(row["answer"], answers[&id], "{id}");
        assert!(number(row, "/probability") > 0.0);
    }
    // The output layer is also new when the checkpoint already is a question-answering model.
    let still = QUICK.replace("3e-3", "1e-12").replace("--checkpoint run", "--checkpoint tuned");
    folder.ok(&format!("{still} {flags} --output still"));
    let outputs =
        |name: &str| folder.tensors(&format!("{name}/model/model.safetensors"))["qa_outputs.weight"].clone();
    assert_ne!(outputs("tuned"), outputs("still"));
    folder.write("alone.txt", "Where does the river lie?\n");
    folder.refused(
        "bert predict --model tuned --input alone.txt",
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
    folder.ok("bert predict --model tuned --input asked.jsonl --output answered.jsonl");
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
    let (path, line) =
        ("squad/dev.json", format!("{QUICK} --task squad --max-query-length 12 --output tuned"));
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
        ("--doc-stride 0", "--doc-stride: must be at least 1"),
        ("--max-query-length 45", "leave no room for the text"),
        ("--test-file x", "no labelled test set"),
    ] {
        let line = line.replace(
            "--max-query-length 12",
            if flags.contains("query") { "" } else { "--max-query-length 12" },
        );
        folder.refused(&format!("{line} {files} {flags}"), 2, message);
    }
    let ended = folder.run("finetune --task rte --data d --checkpoint run --output tuned --n-best-size 3");
    assert!(
        ended.code == Some(2) && ended.stderr.contains("works with --task squad and squad2"),
        "{}",
        ended.stderr
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
fn with_tags() -> Folder {
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
    let (mut right, mut predicted, mut real) = (0, 0, 0);
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
    let (low, high) = (number(&report, "/dev/interval/low"), number(&report, "/dev/interval/high"));
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
    let tagged_lines = folder.ok("bert predict --model tuned --input lines.txt").stdout;
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
    assert!(ended.stderr.contains("words of dev are beyond --max-seq-length 6"), "{}", ended.stderr);
    folder.write("long.txt", "A small river near a large old town\n");
    let row = folder.ok("bert predict --model short --input long.txt").json();
    assert!(
        number(&row, "/words_not_read") > 0.0 && row["tags"].as_array().map(Vec::len) == Some(8),
        "{row}"
    );
}

#[test]
fn tagging_keeps_a_frozen_encoder() {
    let folder = with_tags();
    folder.ok(&format!("{} --freeze-encoder --output frozen", tagging(1)));
    let (before, after) = (
        folder.tensors("run/checkpoints/step-00000006/model.safetensors"),
        folder.tensors("frozen/model/model.safetensors"),
    );
    assert!(after.iter().all(|(name, tensor)| !name.starts_with("bert.") || before[name] == *tensor));
}

#[test]
fn invalid_tag_files_are_rejected() {
    let folder = with_tags();
    let line = tagging(8);
    folder.refused(&format!("{line} --test-file ner/none.txt --output other"), 1, "none.txt: cannot read");
    for (text, message) in [
        (tagged(0, 2) + "Bonn NNP B-CITY\n", "valid.txt:19: the tag \"B-CITY\" is not in the training file"),
        (tagged(0, 1) + "Bonn\n", "valid.txt:11: the word \"Bonn\" has no tag"),
    ] {
        folder.write("ner/valid.txt", text);
        folder.refused(&format!("{line} --output other"), 3, message);
    }
}

/// Returns beginnings whose correct ending repeats a word.
fn endings(first: usize, rows: usize) -> String {
    let mut text = String::from(",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n");
    for at in first..first + rows {
        let (thing, right) = (NAMES[at % 6], at % 4);
        let ending = |choice: usize| match choice == right {
            true => format!("\"shows {thing}, again.\""),
            false => format!("shows {}.", NAMES[(at + choice + 1) % 6]),
        };
        let all: Vec<String> = (0..4).map(ending).collect();
        let _ = writeln!(text, "{at},v,A picture of {thing}.,The next one,{},{right}", all.join(","));
    }
    text
}

#[test]
fn swag_chooses_one_of_four_endings() {
    let folder = Folder::with_run();
    folder.write("swag/train.csv", endings(0, 48));
    folder.write("swag/val.csv", endings(48, 16));
    let line = format!("{QUICK} --task swag --data swag");
    let report =
        folder.ok(&format!("{line} --seeds 1,2 --output tuned --json --predict swag/val.csv")).json();
    assert_eq!(report["dev"]["examples"], json!(16));
    assert_eq!(number(&report, "/dev/majority_baseline/accuracy"), 0.25);
    let text = folder.text("tuned/seed-1/dev_probabilities.tsv");
    let predicted = folder.text("tuned/seed-1/dev_predictions.tsv");
    let mut right = 0;
    for (at, (row, answer)) in text.lines().zip(predicted.lines().skip(1)).enumerate() {
        let p: Vec<f64> = row.split('\t').map(|p| p.parse().expect("a number")).collect();
        assert!(p.len() == 4 && (p.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        let best = (1..4).fold(0, |best, i| if p[i] > p[best] { i } else { best });
        assert_eq!(answer, format!("{at}\t{best}"));
        right += usize::from(best == (48 + at) % 4);
    }
    assert_eq!(number(&report, "/runs/0/dev/accuracy"), right as f64 / 16.0);
    let config = &folder.json("tuned/model/config.json")[0];
    assert_eq!(config["architectures"], json!(["BertForMultipleChoice"]));
    let shape = &folder.tensors("tuned/model/model.safetensors")["classifier.weight"].0;
    assert_eq!(*shape, [1, 16]);
    folder.ok("bert scores tuned tuned --paired");
    folder.refused("bert predict --model tuned --input swag/val.csv", 4, "finetune --predict");
    // The outputs of a frozen encoder are computed once; only the head is trained.
    let frozen = folder
        .ok(&format!("{line} --freeze-encoder --learning-rate 1e-1 --output frozen --json")
            .replace("--learning-rate 3e-3 ", ""))
        .json();
    assert_eq!(frozen["parameters"]["trained"], json!(17));
    let weights = |name: &str| folder.tensors(&format!("{name}/model.safetensors"));
    let (before, after) = (weights("run/checkpoints/step-00000006"), weights("frozen/model"));
    assert!(after.iter().all(|(name, tensor)| !name.starts_with("bert.") || before[name] == *tensor));

    let test = folder.run(&format!("{line} --test-file swag/val.csv --output other"));
    assert_eq!(test.code, Some(2), "{}", test.stderr);
    folder.write("swag/val.csv", endings(0, 2).replace(",1\n", ",7\n"));
    folder.refused(&format!("{line} --output other"), 3, "val.csv:3: \"label\" is not a number from 0 to 3");
}

#[test]
fn feature_heads_train_on_a_frozen_encoder() {
    let folder = with_entailment();
    let line = "finetune --task rte --data glue --checkpoint run --max-seq-length 48 --num-train-epochs 3 \
                --train-batch-size 8 --freeze-encoder --learning-rate 1e-2";
    let dense = |input: usize, output: usize| input * output + output;
    // A gate has one dense layer for the input and one for the state.
    let gates = |count: usize| count * 2 * dense(16, 16);
    let before = folder.tensors("run/checkpoints/step-00000006/model.safetensors");
    for (head, parameters) in [
        ("linear", dense(16, 2)),
        ("mean", dense(16, 2)),
        ("mlp", dense(16, 16) + dense(16, 2)),
        ("gru", gates(3) + dense(16, 2)),
        ("bilstm", 2 * gates(4) + dense(32, 2)),
    ] {
        let report = folder.ok(&format!("{line} --head {head} --output {head} --json")).json();
        assert_eq!(report["parameters"]["trained"], json!(parameters), "{head}");
        let losses: Vec<f64> =
            (0..3).map(|at| number(&report, &format!("/runs/0/history/{at}/train_loss"))).collect();
        assert!(losses[2] < losses[0], "{head}: {losses:?}");
        let after = folder.tensors(&format!("{head}/model/model.safetensors"));
        assert!(
            after.iter().all(|(name, tensor)| !name.starts_with("bert.") || before[name] == *tensor),
            "{head}"
        );
        let config = &folder.json(&format!("{head}/model/config.json"))[0];
        let expected = if head == "linear" { Value::Null } else { json!(head) };
        assert_eq!(config["classifier_head"], expected);
        // The output folder is a regular model: on new texts it gives the same results as on dev.
        let dev = folder.text("glue/RTE/dev.tsv");
        let pairs =
            dev.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>()[1..3].join("\t") + "\n");
        folder.write("dev_pairs.tsv", pairs.collect::<String>());
        let answers = folder.ok(&format!("bert predict --model {head} --input dev_pairs.tsv")).stdout;
        let scored = folder.text(&format!("{head}/seed-1/dev_probabilities.tsv"));
        for (answer, row) in answers.lines().zip(scored.lines()) {
            let answer: Value = serde_json::from_str(answer).expect("JSON");
            let p: f64 = row.split('\t').next().expect("a column").parse().expect("a number");
            assert!((number(&answer, "/probabilities/entailment") - p).abs() < 1e-5, "{head}");
        }
    }
    // The next fine-tuning initializes its own head of the same kind; at this rate it does not move.
    let still = line.replace("--learning-rate 1e-2", "--learning-rate 1e-12").replace("epochs 3", "epochs 1");
    let again = still.replace("--checkpoint run", "--checkpoint mlp");
    let ended = folder.ok(&format!("{again} --head mlp --output mlp-again"));
    assert!(
        ended.stderr.contains("the head of the checkpoint is from an earlier fine-tuning"),
        "{}",
        ended.stderr
    );
    let weights = |name: &str| folder.tensors(&format!("{name}/model/model.safetensors"));
    for name in ["head.dense.weight", "classifier.weight"] {
        assert_ne!(weights("mlp")[name], weights("mlp-again")[name], "{name}");
    }
    folder.ok("finetune --task rte --data glue --checkpoint gru --max-seq-length 48 --num-train-epochs 1 --output on");
    assert_eq!(
        folder.json("on/model/config.json")[0]["architectures"],
        json!(["BertForSequenceClassification"])
    );
    let thawed = folder.run(&format!("{} --head gru --output other", line.replace("--freeze-encoder ", "")));
    assert_eq!(thawed.code, Some(2), "{}", thawed.stderr);
    let tags = folder.run(&format!("{} --head mlp --output other", line.replace("rte", "conll")));
    assert_eq!(tags.code, Some(2), "{}", tags.stderr);
    assert!(tags.stderr.contains("--head: works with tasks that classify or score a text or a pair"));
}
