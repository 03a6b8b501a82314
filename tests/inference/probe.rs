//! `bert probe`: changes a word and compares the predictions before and after.

use serde_json::{Value, json};

use crate::common::{Folder, number};
use crate::finetuning::tasks::with_entailment;

fn probes(result: &Value) -> &Vec<Value> {
    result["probes"].as_array().expect("probes")
}

/// Checks the output without --json.
fn check_text_output(folder: &Folder) {
    let text = folder.ok("bert probe --checkpoint run 'the river [MASK] of' --replace 1=a").stdout;
    assert!(text.starts_with("text: the river [MASK] of\n  word 1: the -> a\n  [MASK] 3: "), "{text}");
    assert!(text.contains("\n\nchanges 1, predictions 1, flips "), "{text}");
}

/// Checks the positions of the words: "the" is at positions 1 and 5.
fn check_positions(result: &Value) {
    // "the" is at positions 1 and 5.
    let changed: Vec<(u64, &str)> = probes(result)
        .iter()
        .map(|probe| {
            (probe["position"].as_u64().expect("a number"), probe["replaced_by"].as_str().expect("a word"))
        })
        .collect();
    assert_eq!(changed, [(1, "a"), (5, "a"), (2, "stream"), (2, "water")]);
    assert_eq!((&result["changes"], &result["predictions"]), (&json!(4), &json!(8)));
}

#[test]
fn probe_changes_predictions_at_masks() {
    let folder = Folder::with_run();
    let result = folder.ok("bert probe --checkpoint run 'the river [MASK] to the [MASK] .' --replace the=a --replace 2=stream,water --json").json();
    check_positions(&result);
    let mut flips = 0;
    for (probe, [first, second]) in probes(&result).iter().zip([
        ["a river [MASK] to the [MASK] .", "the"],
        ["the river [MASK] to a [MASK] .", "the"],
        ["the stream [MASK] to the [MASK] .", "river"],
        ["the water [MASK] to the [MASK] .", "river"],
    ]) {
        assert_eq!(probe["word"], json!(second));
        // The predictions before and after equal the output of fill-mask for the two texts.
        let filled = |text: &str| {
            folder.ok(&format!("bert fill-mask --checkpoint run '{text}' --top-k 400 --json")).json()
        };
        let was = filled("the river [MASK] to the [MASK] .");
        let now = filled(first);
        let predictions = probe["predictions"].as_array().expect("predictions");
        assert_eq!(predictions.len(), 2);
        for (mask, prediction) in predictions.iter().enumerate() {
            let top = |of: &Value| of["masks"][mask]["words"][0].clone();
            let was = top(&was);
            let top_now = top(&now);
            assert_eq!(prediction["before"]["answer"], was["word"]);
            assert!((number(prediction, "/before/probability") - number(&was, "/probability")).abs() < 1e-6);
            assert_eq!(prediction["after"]["answer"], top_now["word"]);
            assert_eq!(prediction["flips"], json!(was["word"] != top_now["word"]));
            let words = now["masks"][mask]["words"].as_array().expect("words");
            let same = words.iter().find(|word| word["word"] == was["word"]).expect("all words are listed");
            assert!((number(prediction, "/before_now") - number(same, "/probability")).abs() < 1e-6);
            flips += u64::from(was["word"] != top_now["word"]);
        }
        assert_eq!((&predictions[0]["of"], &predictions[1]["of"]), (&json!("[MASK] 3"), &json!("[MASK] 6")));
    }
    assert_eq!(result["flips"], json!(flips));
    check_text_output(&folder);
}

#[test]
fn probe_reads_masked_instances_of_a_data_folder() {
    let folder = Folder::with_run();
    let result =
        folder.ok("bert probe --checkpoint run --data held --instances 4 --replace the=a --json").json();
    assert!(!probes(&result).is_empty());
    for probe in probes(&result) {
        assert_eq!(probe["word"], json!("the"));
        assert!(probe["source"].as_str().expect("a place").starts_with("instance "));
        assert!(probe["predictions"].as_array().expect("some").iter().all(|of| of["truth"].is_string()));
    }
}

#[test]
fn probe_rejects_invalid_replacements() {
    let folder = Folder::with_run();
    for (flags, code, message) in [
        (
            "'a river' --replace 1=the",
            2,
            "--replace: the model has no classifier and the text no [MASK], so nothing is predicted",
        ),
        ("'a [MASK]' --replace he=she", 2, "--replace: the text has none of these words"),
        ("'a [MASK]' --replace 9=she", 2, "--replace: text has 2 words, so no word 9"),
        ("'a [MASK]' --replace 0=she", 2, "words are counted from 1"),
        ("'a [MASK]' --replace she", 2, "expected POSITION=WORD[,WORD...]"),
        ("'a [MASK]'", 2, "--replace <WORD=WORD,...>"),
        ("--replace he=she", 2, "required arguments were not provided"),
        ("'a [MASK]' --data held --replace he=she", 2, "cannot be used with"),
        ("--data run --replace he=she", 3, "run"),
    ] {
        folder.refused(&format!("bert probe --checkpoint run {flags}"), code, message);
    }
}

#[test]
fn probe_changes_predicted_classes() {
    let folder = with_entailment();
    let flags = "--checkpoint run --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";
    folder.ok(&format!("finetune --task rte --data glue --learning-rate 1e-2 {flags} --output tuned"));
    folder.write("texts.tsv", "the river is long\tit is long\nno such word\tno\n");
    let result = folder.ok("bert probe --checkpoint tuned --input texts.tsv --replace the=a --json").json();
    folder.write("two.tsv", "the river is long\tit is long\na river is long\tit is long\n");
    let answers = folder.ok("bert predict --checkpoint tuned --input two.tsv").stdout;
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [probe] = &probes(&result)[..] else { panic!("one change: {result}") };
    assert_eq!((&probe["source"], &probe["position"]), (&json!("line 1"), &json!(1)));
    let prediction = &probe["predictions"][0];
    for (at, when) in ["before", "after"].into_iter().enumerate() {
        let label = answers[at]["label"].as_str().expect("a label");
        assert_eq!(prediction[when]["answer"], json!(label));
        let probability = number(&answers[at], &format!("/probabilities/{label}"));
        assert!((number(prediction, &format!("/{when}/probability")) - probability).abs() < 1e-6);
    }
    assert_eq!(prediction["flips"], json!(answers[0]["label"] != answers[1]["label"]));
    folder.refused(
        "bert probe --checkpoint tuned --data held --replace the=a",
        2,
        "--data: the instances of a data folder have masks, but this model is a classifier",
    );
}

#[test]
fn saliency_measures_every_word() {
    let folder = Folder::with_run();
    let text = "'the river [MASK] water'";
    let map = folder.ok(&format!("bert probe --checkpoint run {text} --saliency --json")).json();
    let map = &map["saliency"][0];
    assert_eq!(map["of"], "[MASK] 3");
    let words = map["words"].as_array().expect("a list");
    assert_eq!(words.len(), 4);
    assert!(words[2]["leave_one_out"].is_null(), "the mask itself: {map}");
    assert!(words.iter().all(|word| word["gradient_times_input"].as_f64().is_some_and(f64::is_finite)));
    // Leaving a word out is the same as predicting the shorter text.
    let filled = folder.ok("bert fill-mask --checkpoint run 'the river [MASK]' --top-k 2000 --json").json();
    let all = filled["masks"][0]["words"].as_array().expect("a list").clone();
    let without = all.iter().find(|word| word["word"] == map["answer"]).expect("the word");
    let fall =
        map["probability"].as_f64().expect("a number") - without["probability"].as_f64().expect("a number");
    assert!((words[3]["leave_one_out"].as_f64().expect("a number") - fall).abs() < 1e-5, "{map}");
    let shown = folder.ok(&format!("bert probe --checkpoint run {text} --saliency")).stdout;
    assert!(shown.starts_with("[MASK] 3: ") && shown.contains("gradient x input  leave one out"), "{shown}");
    folder.refused("bert probe --checkpoint run 'the river' --saliency", 2, "nothing is predicted");
    folder.refused(&format!("bert probe {text} --saliency --replace river=sea"), 2, "cannot be used with");
}
