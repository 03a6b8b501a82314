//! Files from people who mean harm, or who had bad luck: each has its exit code and its message, and nothing else
//! happens: no panic, nothing written, no more memory than is stated.

use std::fs;
use std::io::Write;

use serde_json::json;

use crate::common::{Folder, entailment};

/// A file or option, the exit code, and the message without `error: `. `...` stands for what varies.
type Row<'a> = (&'a str, i32, &'a str);

/// Runs each row's command line; every message is compared whole, up to `...`.
fn check(folder: &Folder, common: &str, rows: &[Row<'_>]) -> usize {
    for (argument, code, expected) in rows {
        let before = folder.names(".");
        let line = format!("{common} {argument}");
        let ended = limited(folder, &line);
        assert_eq!(ended.0, Some(*code), "{line}\n{}", ended.1);
        let said =
            ended.1.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("nothing").trim_end();
        let mut rest = said;
        for (at, part) in expected.split("...").enumerate() {
            let found = if at == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
            let found = found.unwrap_or_else(|| panic!("{line}\n     said: {said}\n expected: {expected}"));
            rest = &rest[found + part.len()..];
        }
        assert!(
            rest.is_empty() || expected.ends_with("..."),
            "{line}\n     said: {said}\n expected: {expected}"
        );
        assert_eq!(before, folder.names("."), "{line} left something");
    }
    rows.len()
}

/// Runs a program that may have 1.5 GB of address space, where a shell can set that.
fn limited(folder: &Folder, line: &str) -> (Option<i32>, String) {
    let command = folder.command(line);
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "ulimit -v 3000000; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    let output =
        shell.current_dir(folder.at(".")).stdin(std::process::Stdio::null()).output().expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{line}\n{stderr}");
    (output.status.code(), stderr)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

/// Something much larger when decompressed: `megabytes` of a line again and again.
fn bomb(mut out: impl Write, megabytes: usize) {
    let block = b"so it goes on \n".repeat(1 << 16);
    let count = (megabytes << 20) / block.len();
    (0..count).for_each(|_| out.write_all(&block).expect("in memory"));
}

const BUILD: &str = "make-pretrain-data --max-seq-length 32 --max-predictions-per-seq 5";

#[test]
fn text() {
    let folder = Folder::with_data();
    let good = folder.read("train.txt");
    folder.write("latin1.txt", b"A line.\nCaf\xe9.\n\nOne more.\n");
    folder.write("utf16.txt", b"\xff\xfeA\0 \0l\0\n\0");
    folder.write("spaces.txt", "\u{feff} \r\n\t\r\n\u{2028}\n\0\0\n");
    folder.write("empty.txt", "");
    folder.write("cut.gz", &gzip(&good)[..200]);
    folder.write("flipped.gz", {
        let mut bytes = gzip(&good);
        let end = bytes.len() - 6;
        bytes[end] ^= 4;
        bytes
    });
    folder.write("trailing.gz", [gzip(&good), b"more".to_vec()].concat());
    folder.write("cut.zst", &zstd::encode_all(&good[..], 3).expect("zstd")[..100]);
    folder.write("fake.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff");
    // A frame that asks for a window of a gigabyte.
    folder.write("window.zst", b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb(&mut encoder, 80);
    folder.write("bomb.gz", encoder.finish().expect("in memory"));
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("zstd");
    bomb(&mut encoder, 80);
    folder.write("bomb.zst", encoder.finish().expect("in memory"));
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
    // A line of a gigabyte, compressed: that the limit is on the line and not on the file.
    (0..66).for_each(|_| encoder.write_all(&[b'x'; 1 << 20]).expect("in memory"));
    folder.write("line.zst", encoder.finish().expect("in memory"));
    fs::File::create(folder.at("gigabyte.txt")).expect("a file").set_len(1 << 30).expect("a sparse file");
    folder.write("deep.jsonl", format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000)));
    folder.write(
        "deep-value.jsonl",
        format!("{{\"text\": \"a\", \"x\": {}1{}}}\n", "[".repeat(500), "]".repeat(500)),
    );
    folder.write("array.jsonl", "[{\"text\": \"a\"}]\n");
    folder.write("null.jsonl", "{\"text\": \"a b\"}\n{\"text\": null}\n");
    folder.write("number.jsonl", "{\"text\": 7}\n");
    folder.write("missing.jsonl", "{\"body\": \"a\"}\n");
    folder.write("surrogate.jsonl", "{\"text\": \"\\ud800\"}\n");
    folder.write("half.jsonl", "{\"text\": \"a\n");
    folder.write("text.parquet", "not at all");
    folder.write("short.parquet", "PAR1");
    folder.write("footer.parquet", b"PAR1\0\0\0\0\xff\xff\xff\x7fPAR1");
    let checked = check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        &[
            ("none.txt", 2, "input none.txt does not exist"),
            ("'a[b'", 2, "input pattern \"a[b\" is not valid..."),
            ("empty.txt", 3, "the input holds no text: 1 file(s), 0 line(s), not one token"),
            ("spaces.txt", 3, "the input holds no text: 1 file(s), 4 line(s), not one token"),
            (
                "latin1.txt --strict-utf8",
                3,
                "latin1.txt:2: invalid UTF-8 (without --strict-utf8 it would be replaced and counted)",
            ),
            ("utf16.txt --strict-utf8", 3, "utf16.txt:1: invalid UTF-8 (without..."),
            ("cut.gz", 3, "cut.gz is damaged gzip data: ..."),
            (
                "flipped.gz",
                3,
                "flipped.gz is damaged gzip data: corrupt gzip stream does not have a matching checksum",
            ),
            ("trailing.gz", 3, "trailing.gz is damaged gzip data: ..."),
            ("cut.zst", 3, "cut.zst is damaged zstd data: ..."),
            ("fake.zst", 3, "fake.zst is damaged zstd data: ..."),
            ("window.zst", 3, "window.zst is damaged zstd data: ..."),
            (
                "bomb.gz",
                3,
                "bomb.gz: ... bytes of gzip have become ... bytes of text and more: no text is so repetitive. If it is meant, decompress it first",
            ),
            (
                "bomb.zst",
                3,
                "bomb.zst: ... bytes of zstd have become ... bytes of text and more: no text is so repetitive. If it is meant, decompress it first",
            ),
            ("line.zst", 3, "line.zst:1: the line is longer than 67108864 bytes"),
            ("gigabyte.txt", 3, "gigabyte.txt:1: the line is longer than 67108864 bytes"),
            ("deep.jsonl", 3, "deep.jsonl:1: not a JSON object (one object on each line is expected): ..."),
            ("deep-value.jsonl", 3, "no instance can be made: the only document has 1 sentence(s)..."),
            ("array.jsonl", 3, "array.jsonl:1: not a JSON object (one object on each line is expected): ..."),
            ("null.jsonl", 3, "null.jsonl:2: \"text\" is null (see --text-column)"),
            ("number.jsonl", 3, "number.jsonl:1: \"text\" is a number, expected text (see --text-column)"),
            ("missing.jsonl", 3, "missing.jsonl:1: \"text\" is missing (see --text-column)"),
            (
                "surrogate.jsonl",
                3,
                "surrogate.jsonl:1: not a JSON object (one object on each line is expected): ...",
            ),
            ("half.jsonl", 3, "half.jsonl:1: not a JSON object (one object on each line is expected): ..."),
            ("text.parquet", 3, "text.parquet is no Parquet file: it does not begin with PAR1"),
            ("short.parquet", 3, "short.parquet is not readable as Parquet: ..."),
            ("footer.parquet", 3, "footer.parquet is not readable as Parquet: ..."),
        ],
    );
    assert_eq!(checked, 27);
}

/// A million empty documents are no documents, in bounded memory; text among them is found.
#[test]
fn a_million_empty_documents() {
    let folder = Folder::with_data();
    folder.write(
        "million.txt",
        [b"\n".repeat(1_000_000), folder.read("train.txt"), b"\n \n".repeat(500_000)].concat(),
    );
    folder.ok(&format!("{BUILD} --vocab vocab.txt --input million.txt --num-shards 3 --output out"));
    for shard in 0..3 {
        let name = format!("train-{shard:05}-of-00003.parquet");
        assert!(folder.read(&format!("out/{name}")) == folder.read(&format!("data/{name}")), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file() {
    use std::os::unix::fs::symlink;
    let folder = Folder::with_run();
    let fifo = std::process::Command::new("mkfifo").arg(folder.at("pipe")).status();
    assert!(fifo.expect("mkfifo").success());
    symlink("loop", folder.at("loop")).expect("a link");
    symlink("nowhere", folder.at("dangling")).expect("a link");
    folder.write("circle/a.txt", folder.read("train.txt"));
    symlink("..", folder.at("circle/up")).expect("a link");
    symlink("circle", folder.at("circle/b")).expect("a link");
    fs::create_dir(folder.at("pipes")).expect("a folder");
    symlink("../pipe", folder.at("pipes/manifest.json")).expect("a link");
    symlink("../pipe", folder.at("pipes/config.json")).expect("a link");
    fs::create_dir(folder.at("zeros")).expect("a folder");
    symlink("/dev/zero", folder.at("zeros/manifest.json")).expect("a link");
    symlink("/dev/zero", folder.at("zeros/config.json")).expect("a link");
    symlink("/dev/zero", folder.at("zeros/train.tsv")).expect("a link");
    let mut checked = check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        &[
            ("pipe", 2, "input pipe is neither a regular file nor a folder"),
            ("/dev/zero", 2, "input /dev/zero is neither a regular file nor a folder"),
            ("loop", 2, "input loop does not exist"),
            ("dangling", 2, "input dangling does not exist"),
            ("pipes", 2, "input folder pipes holds no files"),
        ],
    );
    checked += check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        &[
            ("pipe", 1, "cannot read vocabulary pipe: it is not a regular file"),
            ("/dev/zero", 1, "cannot read vocabulary /dev/zero: it is not a regular file"),
            ("circle", 1, "cannot read vocabulary circle: Is a directory..."),
        ],
    );
    checked += check(
        &folder,
        "pretrain --model config.json --steps 1 --output out --data",
        &[
            ("pipes", 1, "cannot read pipes/manifest.json: it is not a regular file"),
            ("zeros", 1, "cannot read zeros/manifest.json: it is not a regular file"),
        ],
    );
    checked += check(
        &folder,
        "bert fill-mask 'a [MASK]' --checkpoint",
        &[
            ("pipes", 4, "pipes: no config.json in this folder, so it is not a checkpoint"),
            ("zeros", 4, "zeros: no config.json in this folder, so it is not a checkpoint"),
        ],
    );
    folder.write("zeros/dev.tsv", entailment(0, 4));
    checked += check(
        &folder,
        "finetune --task rte --max-seq-length 48 --checkpoint run --output out --data",
        &[("zeros", 3, "zeros/train.tsv: not a regular file")],
    );
    assert_eq!(checked, 13);
    // Links in a circle are not followed.
    folder.ok(&format!("{BUILD} --vocab vocab.txt --input circle --num-shards 3 --output out"));
    assert!(
        folder.read("out/train-00000-of-00003.parquet") == folder.read("data/train-00000-of-00003.parquet")
    );
}

#[test]
fn vocabularies() {
    let folder = Folder::with_data();
    let good = folder.text("vocab.txt");
    folder.write("twice.txt", good.clone() + "[CLS]\n");
    folder.write("blank.txt", good.clone() + "\n\n");
    folder.write("blanks.txt", "\n");
    folder.write("latin1.txt", [good.as_bytes(), b"caf\xe9\n"].concat());
    folder.write("nul.txt", "\0\0\0\0");
    folder.write("lower.txt", good.to_lowercase());
    fs::File::create(folder.at("large.txt")).expect("a file").set_len(1 << 30).expect("a sparse file");
    let checked = check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        &[
            ("twice.txt", 3, "twice.txt:...: token \"[CLS]\" is already on line 3"),
            ("blank.txt", 3, "blank.txt:...: token \"\" is already on line ..."),
            ("blanks.txt", 3, "vocabulary blanks.txt is empty"),
            ("latin1.txt", 3, "latin1.txt:...: invalid UTF-8 in a vocabulary"),
            ("nul.txt", 3, "vocabulary nul.txt (1 tokens) has no [UNK]"),
            ("lower.txt", 3, "vocabulary lower.txt (... tokens) has no [UNK]"),
            ("large.txt", 1, "cannot read vocabulary large.txt: it is larger than 67108864 bytes"),
        ],
    );
    assert_eq!(checked, 7);
}

/// A safetensors file of a header and data.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn weights() {
    let folder = Folder::with_run();
    folder.ok("bert export run good");
    let case = |name: &str, bytes: Vec<u8>| {
        folder.copy("good", name);
        folder.write(&format!("{name}/model.safetensors"), bytes);
    };
    let tensor = |shape: &str, from: u64, to: u64| {
        format!("{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    };
    let (a, b) = (tensor("[1]", 0, 4), tensor("[1]", 4, 8));
    case("header", (1u64 << 60).to_le_bytes().to_vec());
    case("length", 100_000_000u64.to_le_bytes().to_vec());
    case("short", b"abc".to_vec());
    case("json", safetensors("{\"a\":", &[]));
    case("deep", safetensors(&"[".repeat(100_000), &[]));
    case("overlap", safetensors(&format!("{{\"a\":{a},\"b\":{a}}}"), &[0; 8]));
    case("hole", safetensors(&format!("{{\"a\":{a},\"b\":{}}}", tensor("[1]", 8, 12)), &[0; 12]));
    case("beyond", safetensors(&format!("{{\"a\":{a},\"b\":{b}}}"), &[0; 4]));
    case("after", safetensors(&format!("{{\"a\":{a}}}"), &[0; 8]));
    case("backwards", safetensors(&format!("{{\"a\":{}}}", tensor("[1]", 4, 0)), &[0; 4]));
    case(
        "shape",
        safetensors(
            &format!("{{\"a\":{}}}", tensor("[4611686018427387904,4611686018427387904]", 0, 4)),
            &[0; 4],
        ),
    );
    case("negative", safetensors(&format!("{{\"a\":{}}}", tensor("[-1]", 0, 4)), &[0; 4]));
    case("twice", safetensors(&format!("{{\"a\":{a},\"a\":{b}}}"), &[0; 8]));
    case("dtype", safetensors("{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", &[0; 8]));
    case("nan", safetensors(&format!("{{\"cls.a\":{a}}}"), &f32::NAN.to_le_bytes()));
    case("infinite", safetensors(&format!("{{\"cls.a\":{a}}}"), &f32::NEG_INFINITY.to_le_bytes()));
    let many: Vec<String> =
        (0..1_000_000u64).map(|at| format!("\"t{at}\":{}", tensor("[0]", 0, 0))).collect();
    case("million", safetensors(&format!("{{{}}}", many.join(",")), &[]));
    case("zip", b"PK\x03\x04 as PyTorch writes it".to_vec());
    case("pickle", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M".to_vec());
    folder.copy("good", "bin");
    fs::rename(folder.at("bin/model.safetensors"), folder.at("bin/pytorch_model.bin")).expect("renamed");
    folder.write("weights.bin", b"whatever it holds");
    folder.write("checkpoint.tar", b"\x80\x04\x95\x01\x02\x03\x04\x05\x06");
    folder.write("notes.txt", "not a model");
    let damaged = |name: &str| format!("{name}/model.safetensors: damaged safetensors file: ...");
    let pickled = |file: &str| {
        format!(
            "{file}: only pickled weights here, and pickles are not read because they can run code. Convert them \
             once in Python: `from transformers import ...save_pretrained(\"NEW_DIR\")` writes model.safetensors"
        )
    };
    let names = [
        "header",
        "length",
        "short",
        "json",
        "deep",
        "overlap",
        "hole",
        "beyond",
        "after",
        "backwards",
        "shape",
        "negative",
    ];
    let mut rows: Vec<(&str, i32, String)> = names.into_iter().map(|name| (name, 3, damaged(name))).collect();
    rows.extend([
        ("twice", 3, damaged("twice")),
        ("dtype", 4, "tensor `a` has element type I64; f32, f16 and bf16 are read".to_string()),
        ("nan", 4, "tensor `cls.a` holds NaN, which is not a finite number".to_string()),
        ("infinite", 4, "tensor `cls.a` holds -inf, which is not a finite number".to_string()),
        ("million", 4, "the checkpoint does not fit the model: missing: ... and 999980 more".to_string()),
        ("zip", 4, pickled("zip/model.safetensors")),
        ("pickle", 4, pickled("pickle/model.safetensors")),
        ("bin", 4, pickled("bin/pytorch_model.bin")),
        ("weights.bin", 4, pickled("weights.bin")),
        ("checkpoint.tar", 4, pickled("checkpoint.tar")),
        (
            "notes.txt",
            4,
            "notes.txt: a file; name the folder that holds config.json and model.safetensors".to_string(),
        ),
    ]);
    let rows: Vec<Row<'_>> = rows.iter().map(|(name, code, said)| (*name, *code, said.as_str())).collect();
    assert_eq!(check(&folder, "bert fill-mask 'a [MASK]' --checkpoint", &rows), 23);
}

#[test]
fn model_configurations() {
    let folder = Folder::with_data();
    let case = |name: &str, key: &str, value: serde_json::Value| {
        let mut config = folder.config();
        config[key] = value;
        folder.write(name, config.to_string());
    };
    case("words.json", "vocab_size", json!(1u64 << 40));
    case("wide.json", "hidden_size", json!(1 << 20));
    case("layers.json", "num_hidden_layers", json!(1 << 24));
    case("negative.json", "hidden_size", json!(-16));
    case("float.json", "hidden_size", json!(16.5));
    case("text.json", "hidden_size", json!("16"));
    case("huge.json", "hidden_size", json!(1e300));
    case("zero.json", "num_hidden_layers", json!(0));
    folder.write("deep.json", "[".repeat(100_000));
    folder.write("latin1.json", b"{\"a\": \"\xe9\"}");
    fs::File::create(folder.at("large.json")).expect("a file").set_len(1 << 30).expect("a sparse file");
    let checked = check(
        &folder,
        "pretrain --data data --steps 1 --output out --model",
        &[
            (
                "words.json",
                4,
                "model configuration: `vocab_size` is 1099511627776, but may be 16777216 at most",
            ),
            (
                "wide.json",
                4,
                "model configuration: `num_hidden_layers` is 2: the model would have about ... parameters",
            ),
            (
                "layers.json",
                4,
                "model configuration: `num_hidden_layers` is 16777216: the model would have about ...",
            ),
            ("negative.json", 4, "model configuration: `hidden_size` ..."),
            ("float.json", 4, "model configuration: `hidden_size` ..."),
            ("text.json", 4, "model configuration: `hidden_size` ..."),
            ("huge.json", 4, "model configuration: `hidden_size` ..."),
            ("zero.json", 4, "model configuration: `num_hidden_layers` is 0, but must be at least 1"),
            ("deep.json", 3, "deep.json: not valid JSON: ..."),
            ("latin1.json", 3, "latin1.json: not valid JSON: ..."),
            ("large.json", 1, "large.json: larger than 1 MiB"),
        ],
    );
    assert_eq!(checked, 11);
}

#[test]
fn task_files() {
    let folder = Folder::with_run();
    let good = entailment(0, 8);
    let case = |name: &str, train: &[u8]| {
        folder.write(&format!("{name}/train.tsv"), train);
        folder.write(&format!("{name}/dev.tsv"), entailment(8, 4));
    };
    case("missing", good.replacen("\tsentence2", "", 1).as_bytes());
    case("label", good.replacen("\tentailment", "\tperhaps", 1).as_bytes());
    case("columns", (good.clone() + "8\tone\ttwo\n").as_bytes());
    case("extra", (good.clone() + "8\ta\tb\tentailment\tmore\n").as_bytes());
    case("empty", b"");
    case("nul", b"\0\0\0\n\0");
    case("latin1", &[good.as_bytes(), b"8\tcaf\xe9\tx\tentailment\n"].concat());
    case("line", &[good.as_bytes(), &[b'x'; 2 << 20]].concat());
    case("carriage", good.replace('\n', "\r").as_bytes());
    fs::create_dir_all(folder.at("sparse")).expect("a folder");
    fs::File::create(folder.at("sparse/train.tsv")).expect("a file").set_len(4 << 30).expect("a sparse file");
    folder.write("sparse/dev.tsv", entailment(8, 4));
    let checked = check(
        &folder,
        "finetune --task rte --max-seq-length 48 --checkpoint run --output out --data",
        &[
            (
                "missing",
                3,
                "missing/train.tsv:1: no column \"sentence2\" in the header (columns here: index, sentence1, label)",
            ),
            (
                "label",
                3,
                "label/train.tsv:...: unknown label \"perhaps\"; the labels of task rte are entailment, not_entailment",
            ),
            ("columns", 3, "columns/train.tsv:10: 3 tab-separated columns, expected 4 as in line 1"),
            ("extra", 3, "extra/train.tsv:10: 5 tab-separated columns, expected 4 as in line 1"),
            ("empty", 3, "empty/train.tsv: no examples in this file"),
            ("nul", 3, "nul/train.tsv:1: 1 tab-separated columns, expected a header, or 4 columns"),
            ("latin1", 3, "latin1/train.tsv:10: invalid UTF-8 at byte 5 of the line"),
            ("line", 3, "line/train.tsv:10: line longer than 1048576 bytes; is this the right file?"),
            ("carriage", 3, "carriage/train.tsv:..."),
            ("sparse", 3, "sparse/train.tsv: larger than 1073741824 bytes; is this the right file?"),
        ],
    );
    assert_eq!(checked, 10);
    // A quote is a character like any other: the reference reads no CSV.
    folder.write(
        "quotes/train.tsv",
        good.clone() + "8\t\"a \"b\t\"\tentailment\n9\t\"\t'x\"\tnot_entailment\n",
    );
    folder.write("quotes/dev.tsv", entailment(8, 4));
    folder.ok(
        "finetune --task rte --max-seq-length 48 --checkpoint run --num-train-epochs 1 --output out --data quotes",
    );
}

#[test]
fn manifests() {
    let folder = Folder::with_data();
    let good = folder.sealed("data/manifest.json");
    let case = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        folder.copy("data", name);
        folder.write(&format!("{name}/manifest.json"), bert_data::sealed::sealed(&manifest));
    };
    case("parent", &|manifest| manifest["shards"][0]["file"] = json!("../data/train-00000-of-00003.parquet"));
    case("absolute", &|manifest| manifest["shards"][1]["file"] = json!("/etc/passwd"));
    case("words", &|manifest| manifest["vocabulary"]["file"] = json!("../vocab.txt"));
    case("hidden", &|manifest| manifest["vocabulary"]["file"] = json!(".lock"));
    case("nul", &|manifest| manifest["vocabulary"]["file"] = json!("a\0b"));
    case("itself", &|manifest| manifest["vocabulary"]["file"] = json!("manifest.json"));
    case("gone", &|manifest| manifest["shards"][2]["file"] = json!("train-00003-of-00003.parquet"));
    case("overflow", &|manifest| manifest["shards"][0]["rows"] = json!(u64::MAX));
    case("rows", &|manifest| manifest["instances"] = json!(1));
    case("version", &|manifest| manifest["format_version"] = json!(99));
    case("more", &|manifest| manifest["run"] = json!("rm -r"));
    folder.copy("data", "edited");
    folder.write("edited/manifest.json", folder.text("data/manifest.json").replacen("text", "tent", 1));
    folder.copy("data", "unsealed");
    folder.write("unsealed/manifest.json", good.to_string());
    folder.copy("data", "binary");
    folder.write("binary/manifest.json", b"\x80\x02}q\0.");
    let unsafe_name = |name: &str, file: &str| {
        format!("{name}/manifest.json names {file:?}, which is not a plain file name")
    };
    let rows = [
        ("parent", unsafe_name("parent", "../data/train-00000-of-00003.parquet")),
        ("absolute", unsafe_name("absolute", "/etc/passwd")),
        ("words", unsafe_name("words", "../vocab.txt")),
        ("hidden", unsafe_name("hidden", ".lock")),
        ("nul", unsafe_name("nul", "a\0b")),
        ("itself", unsafe_name("itself", "manifest.json")),
        ("gone", "gone/train-00003-of-00003.parquet is missing, though the manifest names it".to_string()),
        (
            "overflow",
            "overflow/manifest.json: the sum of the shards' rows is 18446744073709551615, expected ..."
                .to_string(),
        ),
        ("rows", "rows/manifest.json: the sum of the shards' rows is ..., expected 1".to_string()),
        ("version", "version/manifest.json has format version 99, this program reads ...".to_string()),
        ("more", "more/manifest.json is not a valid manifest: unknown field `run`, ...".to_string()),
        ("edited", "edited/manifest.json is ...".to_string()),
        ("unsealed", "unsealed/manifest.json is damaged: it does not begin with a seal...".to_string()),
        (
            "binary",
            "binary/manifest.json is not a valid manifest: expected value at line 1 column 1".to_string(),
        ),
    ];
    let rows: Vec<Row<'_>> = rows.iter().map(|(name, said)| (*name, 3, said.as_str())).collect();
    assert_eq!(check(&folder, "pretrain --model config.json --steps 1 --output out --data", &rows), 14);
}

/// Pages show text and names from anywhere, and nothing of it becomes markup.
#[test]
fn pages() {
    let folder = Folder::with_data();
    let evil = "<script>alert(1)</script><img src=http://x onerror='alert(2)'>\"&";
    let name = "a<script>alert(3)<b>";
    // Each character is a word of its own, so that the text comes back piece by piece.
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n<script>\n<img\n<\n>\n/\n(\n)\n'\n\"\n&\n=\n:\nscript\nalert\nimg\nsrc\nhttp\n1\n2\nx\nonerror\n";
    folder.write(&format!("{name}/vocab.txt"), words);
    folder.write(&format!("{name}/text.txt"), format!("{evil}\n{evil}\n\n").repeat(12));
    folder.ok(&format!(
        "{BUILD} --input '{name}/text.txt' --vocab '{name}/vocab.txt' --num-shards 1 --output '{name}/data'"
    ));
    let mut config = folder.config();
    config["vocab_size"] = json!(words.lines().count());
    folder.write(&format!("{name}/config.json"), config.to_string());
    folder.ok(&format!(
        "pretrain --data '{name}/data' --model '{name}/config.json' --steps 2 --batch-size 4 --output '{name}/run'"
    ));
    folder.ok(&format!("bert inspect '{name}/data' --html=inspect.html"));
    folder.ok(&format!("bert report '{name}/run' --output report.html"));
    folder.ok(&format!(
        "bert attention --checkpoint '{name}/run' \"<script>alert(1)</script>\" --output attention.html"
    ));
    for page in ["inspect.html", "report.html", "attention.html"] {
        let html = folder.text(page);
        let lower = html.to_lowercase();
        for markup in
            ["<script", "<img", "<iframe", "<link", "@import", "src=\"", "href=\"", "url(", "alert(3)<b>"]
        {
            assert!(!lower.contains(markup), "{page} has {markup:?}");
        }
        assert!(html.contains("&lt;"), "{page} shows none of it");
    }
}
