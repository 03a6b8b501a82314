//! Runs the whole pipeline on real text, in a folder whose name has spaces and non-ASCII letters: each program's result
//! is the input of the next one, and figures reported by two programs must agree.

use serde_json::{Value, json};

use crate::common::{Folder, articles, assert_self_contained, number};

const STEPS: usize = 60;

/// Returns a folder with data and a pre-training run that has learnt something.
fn pretrained() -> (Folder, Value) {
    let folder = Folder::named("Ein Ordner für 文字 & mehr");
    folder.add_data_of(&(articles(0, 8) + &articles(12, 38)));
    let outcome = folder.ok(&format!(
        "pretrain --data data --eval-data held --model config.json --steps {STEPS} --batch-size 8 \
         --initialization reference --learning-rate 1e-2 --save-every 20 --output 'my run' --json"
    ));
    // With or without a terminal, progress goes to stderr and only the result to stdout.
    for message in
        ["M parameters", "step 20: saved", "step 60: held-out: masked LM loss", "too few for a diagnosis"]
    {
        assert!(outcome.stderr.contains(message), "{message:?} is not in {}", outcome.stderr);
    }
    let outcome = outcome.json();
    (folder, outcome)
}

/// Checks the instances that `bert inspect` shows.
fn check_inspection(folder: &Folder, manifest: &Value, instances: f64) {
    let inspected = folder.ok("bert inspect data --instances 2 --json").json();
    assert_eq!(inspected["manifest"], *manifest);
    let shown: Vec<&str> =
        inspected["instances"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(shown.len(), 2);
    let one = folder.ok("bert inspect data --index 1").stdout;
    assert_eq!(one.trim_end(), shown[1].trim_end());
    let alone = folder.ok("bert inspect data --index 1 --json").json();
    assert_eq!(alone["index"], json!(1));
    assert_eq!(alone["instance"].as_str().map(str::trim_end), Some(one.trim_end()));
    let beyond = folder.run("bert inspect data --index 1000000");
    beyond.stderr_has(&format!("numbered from 0 to {}", instances - 1.0));
    let small = folder.run("bert make-vocab --input train.txt --vocab-size 20 --output below/small.txt");
    small.stderr_has("the special tokens and the alphabet of the text need");
    assert_eq!(small.code, Some(2));
    let plain = folder.ok("bert inspect data").stdout;
    assert!(plain.contains("frequent tokens: ") && plain.contains("\n#2: "), "{plain}");
}

#[test]
fn text_to_shards() {
    let folder = Folder::with_data();
    let made = folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output again.txt");
    assert_eq!(folder.read("again.txt"), folder.read("vocab.txt"), "the same text, the same bytes");
    let vocabulary = folder.text("vocab.txt");
    let size = vocabulary.lines().count();
    let message: Vec<&str> = made.stdout.lines().collect();
    assert!(
        message.len() == 2 && message[0].starts_with("[UNK] is 0.0000 % of this text: 0 of "),
        "{message:?}"
    );
    assert_eq!(message[1], format!("{size} tokens: again.txt"));
    assert_eq!(
        vocabulary.lines().take(5).collect::<Vec<_>>(),
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    );

    let flags = "--input train.txt --vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
    let built = folder.ok(&format!("make-pretrain-data {flags} --num-shards 3 --output again --preview 2"));
    assert_eq!(folder.snapshot("again"), folder.snapshot("data"), "the same data, byte for byte");
    assert!(built.stdout.contains("[CLS]") && built.stdout.contains("3 shards"), "{}", built.stdout);

    let manifest = &folder.checksummed("data/manifest.json");
    let instances = number(manifest, "/instances");
    let shards = manifest["shards"].as_array().expect("shards");
    let rows: Vec<u64> = shards.iter().map(|shard| shard["rows"].as_u64().expect("rows")).collect();
    assert_eq!(rows.iter().sum::<u64>() as f64, instances);
    // The passes have equal shares; their numbers of rows differ a little.
    assert!(instances > 100.0 && rows.iter().all(|&rows| (rows as f64 * 3.0 / instances - 1.0).abs() < 0.05));

    let verified = folder.ok("bert verify data").stdout;
    assert_eq!(verified.lines().filter(|line| line.starts_with("good  ")).count(), 5, "{verified}");
    assert_eq!(verified.lines().count(), 5);
    assert!(verified.contains(&format!("invariants, recounted from the {instances} rows")), "{verified}");

    check_inspection(&folder, manifest, instances);
}

#[test]
fn odd_text_is_read_and_counted() {
    let folder = Folder::with_data();
    // A byte order mark, CRLF, invalid UTF-8 and a special token's name as text.
    let text = folder.text("train.txt").replace('\n', "\r\n");
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend_from_slice(b"A river \xff is [SEP] a stream.\r\nA source is a spring.\r\n\r\n");
    bytes.extend_from_slice(text.as_bytes());
    folder.write("odd.txt", bytes);
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
    let manifest =
        folder.ok(&format!("make-pretrain-data --input odd.txt {flags} --output odd --json")).json();
    assert_eq!(manifest, folder.checksummed("odd/manifest.json"));
    let plain =
        folder.ok(&format!("make-pretrain-data --input train.txt {flags} --output plain --json")).json();
    let count = |manifest: &Value, what: &str| number(manifest, &format!("/report/{what}"));
    assert_eq!(count(&manifest, "documents"), count(&plain, "documents") + 1.0);
    assert_eq!(count(&manifest, "sentences"), count(&plain, "sentences") + 2.0);
    assert_eq!(count(&manifest, "invalid_utf8_lines"), 1.0);
    assert_eq!(count(&plain, "invalid_utf8_lines"), 0.0);
    let shown = folder.ok("bert inspect odd --instances 1000").stdout;
    // Two separators per instance; the one in the text is plain text.
    let instances: Vec<&str> = shown.lines().filter(|line| line.starts_with('#')).collect();
    assert!(instances.len() > 100);
    assert!(instances.iter().all(|line| line.matches("[SEP]").count() <= 3), "{shown}");
}

/// Checks that the figures from the folder, the checkpoint and the exported copy are equal.
fn check_evaluations_of_copies(folder: &Folder, evaluations: &[Value], last: &Value) {
    let loss = |record: &Value| number(record, "/masked_lm_loss");
    let evaluate = |of: &str, size: usize| {
        folder.ok(&format!("bert evaluate --checkpoint {of} --data held --batch-size {size} --json")).json()
    };
    assert_eq!(evaluate("'my run'", 8), *last);
    assert_eq!(evaluate("'my run/checkpoints/step-00000060'", 8), *last);
    assert!((loss(&evaluate("'my run'", 5)) - loss(last)).abs() < 1e-5, "whatever the batch size");
    let early = evaluations.iter().find(|record| record["step"] == 20).expect("an evaluation");
    assert_eq!(loss(&evaluate("'my run/checkpoints/step-00000020'", 8)), loss(early));
    folder.ok("bert export 'my run' exported");
    assert_eq!(evaluate("exported", 8), *last);
    folder.ok("bert export 'my run' rounded --weights bf16");
    let size = |of: &str| folder.read(&format!("{of}/model.safetensors")).len();
    assert!(size("rounded") < size("exported") * 6 / 10);
    folder.ok("bert export rounded widened --weights f32");
    assert_eq!(size("widened"), size("exported"));
    assert_eq!(evaluate("widened", 8), evaluate("rounded", 8));
    let rounded = evaluate("rounded", 8);
    assert!(rounded != *last && (loss(&rounded) - loss(last)).abs() < 0.02, "{rounded}");
    let among = |k: usize| {
        let line =
            format!("bert evaluate --checkpoint exported --data held --batch-size 8 --top-k {k} --json");
        number(&folder.ok(&line).json(), "/masked_lm_top_k_accuracy")
    };
    assert_eq!(among(1), number(last, "/masked_lm_accuracy"));
    assert!(among(1) < among(5) && among(100_000) == 1.0);
    let first = folder.ok("bert evaluate --checkpoint exported --data held --instances 8 --json").json();
    assert_eq!(first["instances"], json!(8));
}

#[test]
fn pretraining_learns_and_its_reports_agree() {
    let (folder, outcome) = pretrained();
    let metrics = folder.json("my run/metrics.jsonl");
    let evaluations = folder.json("my run/evaluations.jsonl");
    let steps: Vec<u64> = metrics.iter().filter_map(|record| record["step"].as_u64()).collect();
    assert_eq!(steps, (1..=STEPS as u64).collect::<Vec<_>>());
    let steps: Vec<u64> = evaluations.iter().filter_map(|record| record["step"].as_u64()).collect();
    assert_eq!(steps, [0, 10, 20, 30, 40, 50, 60]);

    // The loss of an untrained model is the logarithm of the number of choices.
    let vocabulary = folder.text("vocab.txt").lines().count() as f64;
    assert!((number(&evaluations[0], "/masked_lm_loss") - vocabulary.ln()).abs() < 0.15);
    assert!((number(&evaluations[0], "/next_sentence_loss") - 2f64.ln()).abs() < 0.15);
    let loss = |record: &Value| number(record, "/masked_lm_loss");
    let final_evaluation = evaluations.last().expect("an evaluation");
    assert!(loss(final_evaluation) < loss(&evaluations[0]) - 0.5, "{evaluations:?}");

    assert_eq!(outcome["steps"], json!(STEPS));
    assert_eq!(outcome["metrics"], metrics[STEPS - 1]);
    let mut last = final_evaluation.clone();
    last.as_object_mut().expect("an object").remove("step");
    assert_eq!(outcome["evaluation"], last);
    let checkpoints = ["step-00000020", "step-00000040", "step-00000060"];
    assert_eq!(folder.names("my run/checkpoints"), checkpoints);
    assert_eq!(folder.ok("bert verify 'my run'").stdout.matches("good  ").count(), 3);

    check_evaluations_of_copies(&folder, &evaluations, &last);
    // Continued pre-training starts from the other run's weights with a fresh optimizer.
    folder.ok("pretrain --data data --eval-data held --init-checkpoint exported --steps 2 --batch-size 8 \
         --output continued");
    let mut start = folder.json("continued/evaluations.jsonl").swap_remove(0);
    start.as_object_mut().expect("an object").remove("step");
    assert_eq!(start, last);
}

#[test]
fn fill_mask_and_attention_read_a_run() {
    let (folder, _) = pretrained();
    let text = "'a river is a [MASK] of [MASK] water ||| the source is a spring'";
    let filled = folder.ok(&format!("bert fill-mask --checkpoint 'my run' --top-k 4 {text} --json")).json();
    let masks = filled["masks"].as_array().expect("a list");
    assert_eq!(masks.len(), 2);
    for mask in masks {
        let words = mask["words"].as_array().expect("a list");
        let probabilities: Vec<f64> = words.iter().map(|word| number(word, "/probability")).collect();
        assert_eq!(probabilities.len(), 4);
        assert!(probabilities.is_sorted_by(|a, b| a >= b) && probabilities.iter().sum::<f64>() <= 1.0);
    }
    let shown = folder.ok(&format!("bert fill-mask --checkpoint 'my run' {text}")).stdout;
    assert_eq!(shown.matches("[MASK] at position ").count(), 2);
    assert_eq!(shown.lines().count(), 2 + 2 * 3, "three words each unless asked: {shown}");

    let hostile = "<script>alert(\"1\")</script> & <img src=x> river";
    let message = folder.ok(&format!("bert attention --checkpoint 'my run' '{hostile}' --output a.html"));
    assert_eq!(message.stdout, "a.html\n");
    let page = folder.text("a.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("script-src 'sha256-"), "{page}");
    for outside in
        ["http:", "https:", "<script src", " href=", "@import", "url(", "<link", "<iframe", "<img src=x"]
    {
        assert!(!page.contains(outside), "the page has {outside:?}");
    }
    assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; "), "{page}");
    attention_numbers_are_complete(&folder);
}

/// Checks the weights of `--json`, with a choice of layers and heads and a second model.
fn attention_numbers_are_complete(folder: &Folder) {
    let line =
        "bert attention --checkpoint 'my run' 'a river ||| the source' --output b.html --overwrite --json";
    let both =
        folder.ok(&format!("{line} --compare 'my run' --layers -1 --heads 1 --parquet w.parquet")).json();
    assert_eq!(both["models"].as_array().map(Vec::len), Some(2));
    let model = &both["models"][1];
    assert_eq!((&model["layers"], &model["heads"]), (&json!([1]), &json!([1])));
    let tokens = model["tokens"].as_array().expect("a list").len();
    let rows = model["weights"][0][0].as_array().expect("a list");
    assert_eq!((rows.len(), &model["segments"][tokens - 1]), (tokens, &json!(1)));
    for row in rows {
        let row: Vec<f64> = row.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
        assert!(row.len() == tokens && (row.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{row:?}");
    }
    assert!(folder.read("w.parquet").starts_with(b"PAR1"));
    assert_eq!(folder.ok(line).json()["models"][0]["weights"][1][1], model["weights"][0][0]);
    folder.refused(&format!("{line} --layers 7"), 2, "--layers: the model has no layer 7");
    folder.refused(&format!("{line} --heads 2"), 2, "--heads: the model has no head 2");
    folder.refused(&format!("{line} --layers 0 --neurons 1"), 2, "--neurons: layer 1 is not on the page");
    let unknown = folder.ok("bert attention --checkpoint 'my run' '🙂 🙃 🙂' --output c.html");
    unknown.stderr_has("are [UNK]");
}

#[test]
fn report_page_shows_losses_and_baselines() {
    let (folder, _) = pretrained();
    let reported = folder.ok("bert report 'my run'");
    assert_eq!(reported.stdout, "my run/report.html\n");
    reported.stderr_has("note: 60 steps are too few for a diagnosis.");
    let page = folder.text("my run/report.html");
    assert_self_contained(&page);
    let last = folder.json("my run/evaluations.jsonl").pop().expect("an evaluation");
    let loss = number(&last, "/masked_lm_loss");
    assert!(page.contains(&format!("<b>{loss:.3}</b>")) && page.contains(&format!("{loss:.4}</td>")));
    assert!(page.contains("unigram baseline") && page.contains("masked LM loss (nats)"));
    folder.ok("bert report 'my run' --compare 'my run' --compare 'my run' --output new/place/both.html");
    let curves = folder.text("new/place/both.html").matches("\"my run\"").count();
    assert!(curves >= 4, "two runs in two charts or more, found {curves} curves");
    // Without the data the page is still written, without the counts from the data.
    folder.copy("my run", "moved");
    let settings = folder.text("moved/run.json").replace("\"data\": \"data\"", "\"data\": \"gone\"");
    folder.write("moved/run.json", settings);
    folder.ok("bert report moved");
    assert!(!folder.text("moved/report.html").contains(">unigram baseline "));
}

#[test]
fn export_writes_the_model_and_a_card() {
    let (folder, _) = pretrained();
    let message = folder.ok("bert export 'my run' whole").stdout;
    assert!(message.ends_with("-> whole\n"), "{message}");
    let files = [
        "README.md",
        "config.json",
        "model.safetensors",
        "model_description.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ];
    assert_eq!(folder.names("whole"), files);
    folder.refused("bert verify whole", 1, "this model has no digests");
    assert_eq!(folder.json("whole/config.json")[0]["architectures"], json!(["BertForPreTraining"]));
    assert_eq!(folder.read("whole/vocab.txt"), folder.read("vocab.txt"));
    folder.ok("bert export --encoder-only 'my run' encoder");
    assert_eq!(folder.names("encoder"), files);
    for (card, task) in [("whole/README.md", "fill-mask"), ("encoder/README.md", "feature-extraction")] {
        let card = folder.text(card);
        assert!(card.contains(task) && card.contains("| initialization | reference |"), "{card}");
        assert!(card.contains("| steps | 60 of 60 of 8 sequences |"), "{card}");
    }
    assert_eq!(folder.json("encoder/config.json")[0]["architectures"], json!(["BertModel"]));
    let whole = folder.tensors("whole/model.safetensors");
    let encoder = folder.tensors("encoder/model.safetensors");
    assert!(!encoder.keys().any(|name| name.contains("cls.")) && encoder.len() > 30);
    let in_whole = |name: &str| whole.get(name).or_else(|| whole.get(&format!("bert.{name}")));
    assert!(encoder.iter().all(|(name, tensor)| in_whole(name) == Some(tensor)));
}

/// Checks that only the words of a vocabulary file matter, not its line endings.
#[test]
fn vocabulary_line_endings_do_not_matter() {
    let folder = Folder::with_data();
    let unix = folder.text("vocab.txt");
    folder.write("windows.txt", unix.replace('\n', "\r\n"));
    folder.write("open.txt", unix.trim_end());
    for vocab in ["windows", "open"] {
        folder.ok(&format!(
            "make-pretrain-data --input train.txt --vocab {vocab}.txt --max-seq-length 32 \
             --max-predictions-per-seq 5 --output {vocab}"
        ));
        folder.ok(&format!(
            "pretrain --data {vocab} --eval-data held --model config.json --steps 1 --batch-size 4 \
             --output {vocab}-run"
        ));
        folder.ok(&format!("bert evaluate --checkpoint {vocab}-run --data held"));
        folder.ok(&format!("bert evaluate --checkpoint {vocab}-run --data {vocab}"));
    }
}
