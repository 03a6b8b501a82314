//! Wrong input, one line each: the exit code, a part of the message, and nothing changed.

use serde_json::{Value, json};

use crate::common::{Folder, QUICK, articles, entailment};

/// Command line, exit code, what the message says.
type Case<'a> = (&'a str, i32, &'a str);

fn check(folder: &Folder, cases: &[Case<'_>]) {
    for (line, code, said) in cases {
        let before = folder.snapshot(".");
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(*code), "{line}\n{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{line}\n{said:?} is not in {}", ended.stderr);
        assert!(ended.stderr.contains("error: "), "{line}\n{}", ended.stderr);
        assert_eq!(ended.stdout, "", "{line}");
        let after = folder.snapshot(".");
        let changed = after.iter().filter(|(name, bytes)| before.get(*name) != Some(bytes));
        assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&String>::new(), "{line}");
        assert_eq!(before.len(), after.len(), "{line}");
    }
}

/// The cases with what they have in common put before them.
fn check_with(folder: &Folder, common: &str, cases: &[Case<'_>]) {
    let lines: Vec<String> = cases.iter().map(|(line, ..)| format!("{common} {line}")).collect();
    let cases: Vec<Case<'_>> =
        lines.iter().zip(cases).map(|(line, case)| (line.as_str(), case.1, case.2)).collect();
    check(folder, &cases);
}

#[test]
fn flags_of_make_pretrain_data() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "make-pretrain-data",
        &[
            ("--nonsense", 2, "unexpected argument '--nonsense'"),
            ("", 2, "is required"),
            ("--vocab vocab.txt --output out", 2, "no input: name at least one file, folder or pattern"),
            ("--input train.txt --output out", 2, "--vocab is required"),
            ("--input train.txt --vocab vocab.txt", 2, "--output is required"),
        ],
    );
    check_with(
        &folder,
        "make-pretrain-data --input train.txt --vocab vocab.txt --output out",
        &[
            ("--max-seq-length long", 2, "invalid value 'long' for '--max-seq-length"),
            ("--max-seq-length 7", 2, "--max-seq-length is 7, but must be between 8 and 65535"),
            ("--max-seq-length 65536", 2, "--max-seq-length is 65536"),
            ("--max-predictions-per-seq 0", 2, "--max-predictions-per-seq is 0"),
            ("--max-seq-length 32 --max-predictions-per-seq 32", 2, "--max-predictions-per-seq is 32"),
            ("--masked-lm-prob 0", 2, "--masked-lm-prob is 0"),
            ("--masked-lm-prob 1.01", 2, "--masked-lm-prob is 1.01"),
            ("--masked-lm-prob NaN", 2, "--masked-lm-prob is NaN"),
            ("--short-seq-prob=-0.1", 2, "--short-seq-prob is -0.1"),
            ("--dupe-factor 0", 2, "--dupe-factor is 0"),
            ("--num-shards 0", 2, "--num-shards is 0"),
            ("--threads 5000", 2, "--threads is 5000"),
            ("--random dice", 2, "invalid value 'dice' for '--random"),
            ("--random reference --num-shards 2", 2, "--num-shards cannot be used with --random reference"),
            ("--random reference --split-sentences", 2, "--split-sentences cannot be used"),
            ("--split-sentences --language xx", 2, "--language is xx"),
            ("--do-lower-case maybe", 2, "invalid value 'maybe'"),
        ],
    );
}

#[test]
fn text_and_vocabulary() {
    let folder = Folder::with_data();
    folder.write("empty.txt", "");
    folder.write("blank.txt", "\n \n\t\n");
    folder.write("lonely.txt", "One sentence alone.\n");
    folder.write("latin1.txt", b"A fine line.\nCaf\xe9.\n\nAnother one.\n");
    folder.write("cut.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03half");
    folder.write("cut.zst", b"\x28\xb5\x2f\xfdhalf");
    std::fs::create_dir(folder.at("hollow")).expect("a folder");
    let vocabulary = folder.text("vocab.txt");
    for token in ["[CLS]", "[SEP]", "[MASK]", "[UNK]"] {
        let name = format!("without-{}.txt", token.trim_matches(['[', ']']));
        folder.write(&name, vocabulary.replace(&format!("{token}\n"), ""));
    }
    folder.write("twice.txt", vocabulary.clone() + "[CLS]\n");
    folder.write("notes/notes.txt", "mine");
    let flags = "--max-seq-length 32 --max-predictions-per-seq 5";
    check_with(
        &folder,
        &format!("make-pretrain-data {flags} --vocab vocab.txt --output out --input"),
        &[
            ("none.txt", 2, "input none.txt does not exist"),
            ("*.none", 2, "input pattern \"*.none\" matches no file"),
            ("hollow", 2, "input folder hollow holds no files"),
            ("train.txt train.txt", 2, "input train.txt is named twice"),
            ("empty.txt", 3, "the input holds no text"),
            ("blank.txt empty.txt", 3, "the input holds no text: 2 file(s)"),
            ("lonely.txt", 3, "no instance can be made"),
            ("latin1.txt --strict-utf8", 3, "latin1.txt:2: invalid UTF-8"),
            ("cut.gz", 3, "cut.gz is damaged gzip data"),
            ("cut.zst", 3, "cut.zst is damaged zstd data"),
        ],
    );
    check_with(
        &folder,
        &format!("make-pretrain-data {flags} --input train.txt --output out --vocab"),
        &[
            ("none.txt", 1, "none.txt"),
            ("empty.txt", 3, "vocabulary empty.txt is empty"),
            ("without-CLS.txt", 3, "has no [CLS]"),
            ("without-SEP.txt", 3, "has no [SEP]"),
            ("without-MASK.txt", 3, "has no [MASK]"),
            ("without-UNK.txt", 3, "has no [UNK]"),
            ("twice.txt", 3, "\"[CLS]\" is already on line 3"),
            ("latin1.txt", 3, "latin1.txt:2: invalid UTF-8 in a vocabulary"),
        ],
    );
    check_with(
        &folder,
        &format!("make-pretrain-data {flags} --input train.txt --vocab vocab.txt --output"),
        &[
            ("notes", 2, "output folder notes holds other data (notes.txt)"),
            ("notes --overwrite", 2, "output folder notes holds other data (notes.txt)"),
            ("data", 2, "already holds a finished data set: use --overwrite"),
            ("train.txt", 2, "output train.txt is not a folder"),
        ],
    );
    check_with(
        &folder,
        "bert make-vocab",
        &[
            ("--input train.txt", 2, "--output"),
            ("--output out.txt", 2, "--input"),
            ("--input none.txt --output out.txt", 2, "input none.txt does not exist"),
            ("--input empty.txt --output out.txt", 3, "the input holds no text"),
            ("--input latin1.txt --strict-utf8 --output out.txt", 3, "latin1.txt:2: invalid UTF-8"),
            ("--input train.txt --vocab-size 8 --output out.txt", 2, "--vocab-size is 8"),
            ("--input train.txt --output vocab.txt", 1, "vocab.txt: exists; --overwrite replaces it"),
        ],
    );
}

#[test]
fn flags_of_pretrain() {
    let folder = Folder::with_data();
    check_with(
        &folder,
        "pretrain",
        &[
            ("--nonsense", 2, "unexpected argument '--nonsense'"),
            ("", 2, "--data <DIR>"),
            ("--data data --steps 2 --output out", 2, "--model <SIZE|FILE>"),
            ("--data data --model tiny --output out", 2, "--steps <N>"),
            ("--data data --model tiny --init-checkpoint x --steps 2 --output out", 2, "cannot be used with"),
        ],
    );
    check_with(
        &folder,
        "pretrain --data data --output out --model config.json",
        &[
            ("--steps 0", 2, "--steps: must be at least 1"),
            ("--steps many", 2, "invalid value 'many'"),
            ("--steps 2 --batch-size 0", 2, "--batch-size: must be at least 1"),
            (
                "--steps 2 --gradient-accumulation-steps 0",
                2,
                "--gradient-accumulation-steps: must be between",
            ),
            ("--steps 2 --batch-size 4 --gradient-accumulation-steps 5", 2, "--gradient-accumulation-steps:"),
            ("--steps 2 --learning-rate=-1", 2, "--learning-rate: must be positive"),
            ("--steps 2 --learning-rate NaN", 2, "--learning-rate: must be positive"),
            ("--steps 2 --warmup-steps 3", 2, "--warmup-steps: must not be more than --steps"),
            ("--steps 2 --adam-beta1 1", 2, "--adam-beta1:"),
            ("--steps 2 --adam-beta2=-0.1", 2, "--adam-beta2:"),
            ("--steps 2 --adam-epsilon 0", 2, "--adam-epsilon: must be positive"),
            ("--steps 2 --max-gradient-norm=-1", 2, "--max-gradient-norm:"),
            ("--steps 2 --weight-decay inf", 2, "--weight-decay:"),
            ("--steps 2 --schedule cosine", 2, "invalid value 'cosine'"),
            ("--steps 2 --save-every 0", 2, "--save-every: must be at least 1"),
            ("--steps 2 --keep-checkpoints 0", 2, "--keep-checkpoints: must be at least 1"),
            ("--steps 2 --eval-every 2", 2, "--eval-data"),
            ("--steps 2 --eval-data held --eval-every 0", 2, "--eval-every: must be at least 1"),
            ("--steps 2 --eval-data held --eval-instances 0", 2, "--eval-instances: must be at least 1"),
            ("--steps 2 --device gpu", 2, "unknown device \"gpu\": use flex, ndarray, cuda or cuda:N"),
            ("--steps 2 --device cuda:x", 2, "unknown device \"cuda:x\""),
        ],
    );
    check_with(
        &folder,
        "pretrain --data data --output out --steps 2 --model",
        &[
            ("gigantic", 2, "\"gigantic\" is neither tiny, mini, small, medium, base or large nor a file"),
            ("none.json", 2, "\"none.json\" is neither"),
        ],
    );
}

#[test]
fn devices_that_are_not_built_in() {
    let folder = Folder::with_run();
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    let lines = |device: &str| {
        [
            format!("pretrain {QUICK} --steps 2 --output out --device {device}"),
            format!("finetune --task rte --data glue --checkpoint run --output out --device {device}"),
            format!("bert evaluate --checkpoint run --data held --device {device}"),
            format!("bert fill-mask --checkpoint run 'a [MASK]' --device {device}"),
        ]
    };
    for line in lines("gpu") {
        check(&folder, &[(&line, 2, "unknown device \"gpu\"")]);
    }
    if !cfg!(feature = "cuda") {
        for line in lines("cuda") {
            check(
                &folder,
                &[(
                    &line,
                    1,
                    "this build has no cuda:0 backend: build it with `cargo build --release --features cuda`",
                )],
            );
        }
    }
    if !cfg!(feature = "ndarray") {
        for line in lines("ndarray") {
            check(&folder, &[(&line, 1, "--features ndarray`")]);
        }
    }
}

#[test]
fn data_folders() {
    let folder = Folder::with_run();
    std::fs::create_dir(folder.at("hollow")).expect("a folder");
    let manifest = folder.text("data/manifest.json");
    let changed = |name: &str, manifest: String| {
        folder.copy("data", name);
        folder.write(&format!("{name}/manifest.json"), manifest);
    };
    changed("cut", manifest[..manifest.len() / 2].to_string());
    changed("outside", manifest.replace("train-00000-of-00003.parquet", "../train-00000-of-00003.parquet"));
    changed("future", manifest.replace("\"format_version\": 2", "\"format_version\": 99"));
    // As many rows in each of three shards as the first has, and one.
    let rows = folder.json("data/manifest.json")[0]["shards"][0]["rows"].to_string();
    changed("counts", manifest.replacen(&format!("\"rows\": {rows}"), "\"rows\": 1", 1));
    folder.write("other.txt", articles(12, 4));
    folder.ok("bert make-vocab --input other.txt --vocab-size 300 --output other-vocab.txt");
    folder.ok(
        "make-pretrain-data --input other.txt --vocab other-vocab.txt --max-seq-length 32 --output other",
    );
    let broken = [
        ("none", 3, "none holds no manifest.json: it is no finished data set"),
        ("hollow", 3, "hollow holds no manifest.json"),
        ("cut", 3, "cut/manifest.json is not a valid manifest"),
        ("outside", 3, "\"../train-00000-of-00003.parquet\", which is not a plain file name"),
        ("future", 3, "format version 99, this program reads 2"),
        ("counts", 3, "the sum of the shards' rows is"),
    ];
    for common in [
        "bert verify",
        "bert inspect",
        "bert evaluate --checkpoint run --data",
        "pretrain --model config.json --steps 2 --output out --data",
        "pretrain --model config.json --steps 2 --output out --data data --eval-data",
    ] {
        check_with(&folder, common, &broken);
    }
    check(
        &folder,
        &[
            (&format!("pretrain {QUICK} --steps 2 --eval-data other --output out"), 4, "another vocabulary"),
            ("bert evaluate --checkpoint run --data other", 4, "another vocabulary"),
            ("pretrain --data other --init-checkpoint run --steps 2 --output out", 4, "another vocabulary"),
            ("bert inspect data --index 1000000", 2, "1000000"),
        ],
    );
}

#[test]
fn damaged_shards_are_found() {
    let folder = Folder::with_run();
    folder.copy("data", "bad");
    for shard in 0..3 {
        folder.flip(&format!("bad/train-{shard:05}-of-00003.parquet"));
    }
    let verified = folder.run("bert verify bad");
    assert_eq!(verified.code, Some(3));
    assert_eq!(verified.stdout.matches("BAD   ").count(), 3, "every file is looked at: {}", verified.stdout);
    assert_eq!(verified.stdout.matches("good  vocab.txt").count(), 1);
    let lines = [
        "pretrain --data bad --model config.json --steps 2 --output out",
        "pretrain --data data --eval-data bad --model config.json --steps 2 --output out2",
        "bert evaluate --checkpoint run --data bad",
    ];
    for line in lines {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(3), "{line}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("BLAKE3") && ended.stderr.contains("bad/train-0000"),
            "{}",
            ended.stderr
        );
    }
    // Mended, the run goes on where it stood.
    for shard in 0..3 {
        folder.flip(&format!("bad/train-{shard:05}-of-00003.parquet"));
    }
    folder.ok("bert verify bad");
    folder.ok(&format!("{} --resume", lines[0]));
}

#[test]
fn models_and_checkpoints() {
    let folder = Folder::with_run();
    let config = |name: &str, key: &str, value: Value| {
        let mut config = folder.config();
        config[key] = value;
        folder.write(name, config.to_string());
    };
    let size = folder.config()["vocab_size"].as_u64().expect("a number");
    config("relu.json", "hidden_act", json!("relu"));
    config("small.json", "vocab_size", json!(size - 1));
    config("short.json", "max_position_embeddings", json!(31));
    config("heads.json", "num_attention_heads", json!(3));
    config("missing.json", "hidden_size", Value::Null);
    config("decoder.json", "is_decoder", json!(true));
    config("dropout.json", "hidden_dropout_prob", json!(1.0));
    folder.write("cut.json", "{\"vocab_size\": 4");
    check_with(
        &folder,
        "pretrain --data data --steps 2 --output out --model",
        &[
            (
                "relu.json",
                4,
                "`hidden_act` is `relu`; `gelu`, `gelu_new` and `gelu_pytorch_tanh` are supported",
            ),
            ("small.json", 4, &format!("the model knows {} tokens, the vocabulary has {size}", size - 1)),
            ("short.json", 4, "the model takes 31 positions, the data has 32"),
            ("heads.json", 4, "`hidden_size` is 16, not a multiple of the 3 attention heads"),
            ("missing.json", 4, "`hidden_size` is missing"),
            ("decoder.json", 4, "`is_decoder` is true"),
            ("dropout.json", 4, "`hidden_dropout_prob` is 1"),
            ("cut.json", 3, "cut.json: not valid JSON"),
        ],
    );

    folder.ok("bert export run good");
    folder.ok("bert export run encoder --encoder-only");
    std::fs::create_dir(folder.at("hollow")).expect("a folder");
    for name in ["weightless", "pickled", "cut", "other-shape", "split"] {
        folder.copy("good", name);
    }
    for name in ["weightless", "pickled", "split"] {
        std::fs::remove_file(folder.at(&format!("{name}/model.safetensors"))).expect("removed");
    }
    folder.write("pickled/pytorch_model.bin", "not read");
    folder.write("split/model.safetensors.index.json", "{}");
    let weights = folder.read("good/model.safetensors");
    folder.write("cut/model.safetensors", &weights[..weights.len() - 8]);
    let mut shape = folder.json("good/config.json").swap_remove(0);
    shape["intermediate_size"] = json!(48);
    folder.write("other-shape/config.json", shape.to_string());
    let broken = [
        ("none", 4, "none: no checkpoint here"),
        ("hollow", 4, "hollow: no checkpoint here"),
        ("data", 4, "data: no checkpoint here"),
        ("weightless", 4, "weightless: no model.safetensors in this folder"),
        ("pickled", 4, "save_pretrained(\"NEW_DIR\")` writes model.safetensors"),
        ("split", 4, "the weights are split over several files"),
        ("cut", 3, "cut/model.safetensors: damaged safetensors file"),
        ("other-shape", 4, "intermediate.dense.weight has shape [32, 16], but the model has [48, 16]"),
    ];
    let heads = ("encoder", 4, "missing: cls.");
    for common in [
        "bert evaluate --data held --checkpoint",
        "bert fill-mask 'a [MASK]' --checkpoint",
        "pretrain --data data --steps 2 --output out --init-checkpoint",
    ] {
        check_with(&folder, common, &broken);
        check_with(&folder, common, &[heads]);
    }
    check_with(&folder, "bert attention 'a river' --output a.html --checkpoint", &broken);
    folder.write("glue/train.tsv", entailment(0, 16));
    folder.write("glue/dev.tsv", entailment(16, 8));
    check_with(
        &folder,
        "finetune --task rte --data glue --max-seq-length 48 --output out --checkpoint",
        &broken,
    );
    check(
        &folder,
        &[
            ("bert export none out", 4, "none: no checkpoint here"),
            ("bert export cut out", 3, "damaged safetensors file"),
            ("bert export run good", 1, "good: the folder already holds other files"),
            ("bert export run glue --encoder-only", 1, "glue: the folder already holds other files"),
            ("bert report hollow", 1, "hollow"),
            ("bert report none", 1, "none"),
            ("bert fill-mask --checkpoint run 'no mask at all'", 1, "no [MASK]"),
            ("bert fill-mask --checkpoint run", 2, "<TEXT>"),
            ("bert fill-mask --checkpoint run 'a [MASK]' --top-k 0", 2, "--top-k"),
            ("bert evaluate --checkpoint run --data held --batch-size 0", 2, "--batch-size"),
            ("bert evaluate --checkpoint run --data held --instances 0", 2, "--instances"),
            ("bert attention --checkpoint run 'a' --max-seq-length 2", 2, "--max-seq-length"),
            ("bert paint", 2, "unrecognized subcommand 'paint'"),
            ("bert quickstart --output glue", 1, "glue: the folder already holds other files"),
            ("bert quickstart --output out --steps 0", 2, "--steps"),
        ],
    );
    // Without a command the tool says which there are.
    let ended = folder.run("bert");
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("Usage: bert") && ended.stderr.contains("make-vocab"), "{}", ended.stderr);
}

#[test]
fn an_update_that_is_not_finite_is_not_made() {
    let folder = Folder::with_data();
    let line = "pretrain --data data --model config.json --batch-size 8 --steps 20 --warmup-steps 0 --save-every 1 \
                --output run --learning-rate 1e38";
    let ended = folder.run(line);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the update was skipped (1 in a row, at most 10; 1 in all)"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("error: step 12: ") && ended.stderr.contains("--max-skipped-steps 10"),
        "{}",
        ended.stderr
    );
    let checkpoints = folder.names("run/checkpoints");
    let last = checkpoints.last().expect("a checkpoint before the failure");
    folder.ok(&format!("bert verify run/checkpoints/{last}"));
    for (shape, bytes) in folder.tensors(&format!("run/checkpoints/{last}/model.safetensors")).values() {
        let numbers = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        assert!(
            numbers.into_iter().all(f32::is_finite),
            "a weight of shape {shape:?} in the last checkpoint"
        );
    }
}

#[test]
fn tasks_and_their_files() {
    let folder = Folder::with_run();
    let good = entailment(0, 8);
    let case = |name: &str, train: &[u8]| {
        folder.write(&format!("{name}/train.tsv"), train);
        folder.write(&format!("{name}/dev.tsv"), entailment(8, 4));
    };
    case("good", good.as_bytes());
    case("header", good.replacen("sentence2", "hypothesis", 1).as_bytes());
    case("unlabelled", good.replacen("\tlabel", "\tgold", 1).as_bytes());
    case("label", good.replacen("\tentailment", "\tperhaps", 1).as_bytes());
    case("columns", (good.clone() + "8\tone\ttwo\n").as_bytes());
    case("empty", b"");
    case("bare", b"index\tsentence1\tsentence2\tlabel\n");
    case("latin1", &[good.as_bytes(), b"8\tcaf\xe9\tx\tentailment\n"].concat());
    folder.write("trainless/dev.tsv", entailment(8, 4));
    folder.write("devless/train.tsv", entailment(8, 4));
    folder.write("notes/notes.txt", "mine");
    let place = good.lines().position(|line| line.ends_with("\tentailment")).expect("one") + 1;
    let label = format!(
        "label/train.tsv:{place}: unknown label \"perhaps\"; the labels of task rte are entailment, not_entailment"
    );
    check_with(
        &folder,
        "finetune --checkpoint run --max-seq-length 48 --output out --task rte --data",
        &[
            ("none", 1, "none: no train file of task rte here"),
            ("trainless", 1, "trainless: no train file of task rte here (looked for "),
            ("devless", 1, "devless: no dev file of task rte here"),
            ("header", 3, "header/train.tsv:1: no column \"sentence2\" in the header"),
            ("unlabelled", 3, "unlabelled/train.tsv:1: no column \"label\" in the header"),
            ("label", 3, &label),
            ("columns", 3, "columns/train.tsv:10: 3 tab-separated columns, expected 4"),
            ("empty", 3, "empty/train.tsv: no examples in this file"),
            ("bare", 3, "bare/train.tsv: no examples in this file"),
            ("latin1", 3, "latin1/train.tsv:10: invalid UTF-8 at byte 5"),
            ("good --predict none.tsv", 1, "none.tsv"),
            ("good --predict header/train.tsv", 3, "header/train.tsv:1: no column"),
        ],
    );
    folder.write("STS-B/train.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t5.1\n");
    folder.write("STS-B/dev.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t2.0\n");
    folder.write("sst/sst-train.txt", "3 ||| fine\nfine\n");
    folder.write("sst/sst-dev.txt", "3 ||| fine\n");
    check_with(
        &folder,
        "finetune --checkpoint run --output out",
        &[
            ("--nonsense", 2, "unexpected argument '--nonsense'"),
            ("--task rte", 2, "--data <DIR>"),
            ("--task poetry --data good", 2, "unknown task \"poetry\"; known are rte"),
            ("--task rte --data good", 4, "the model takes 64 positions, --max-seq-length is 128"),
            (
                "--task sts-b --data . --max-seq-length 48",
                3,
                "train.tsv:2: \"5.1\" is not a score of task sts-b",
            ),
            (
                "--task sst-5 --data sst --max-seq-length 48",
                3,
                "sst-train.txt:2: expected \"LABEL ||| TEXT\"",
            ),
        ],
    );
    check_with(
        &folder,
        "finetune --checkpoint run --max-seq-length 48 --task rte --data good",
        &[
            ("--output notes", 1, "notes: the folder already holds other files; choose another --output"),
            ("--output out --num-train-epochs 0", 2, "--num-train-epochs: must be positive"),
            ("--output out --train-batch-size 0", 2, "--train-batch-size: must be at least 1"),
            ("--output out --learning-rate 0", 2, "--learning-rate: must be positive"),
            ("--output out --warmup-proportion 1", 2, "--warmup-proportion:"),
            ("--output out --seeds 1,1", 2, "--seeds: must differ from each other"),
            ("--output out --seeds one", 2, "invalid value 'one'"),
            ("--output out --select worst", 2, "invalid value 'worst'"),
            ("--output out --checkpoint other", 2, "cannot be used multiple times"),
        ],
    );
}
