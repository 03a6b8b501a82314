//! A test folder, the programs, and small data and models.
//!
//! Programs run inside the folder, so command lines name files relative to it. Every run checks rules that hold for all
//! programs: no panic, and no control characters without a terminal.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use safetensors::SafeTensors;
use serde_json::{Value, json};
use tempfile::TempDir;

/// `pretrain` flags that make a run short and its progress visible.
pub(crate) const QUICK: &str =
    "--data data --model config.json --batch-size 8 --learning-rate 3e-3 --adam-beta2 0.999";

/// A temporary folder in which programs run.
pub(crate) struct Folder {
    temporary: TempDir,
    inside: PathBuf,
}

/// The result of a program.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Checks that stderr contains a text.
    pub(crate) fn stderr_has(&self, part: &str) {
        assert!(self.stderr.contains(part), "{part:?} is not in {}", self.stderr);
    }

    /// Checks that stdout contains a text.
    pub(crate) fn stdout_has(&self, part: &str) {
        assert!(self.stdout.contains(part), "{part:?} is not in {}", self.stdout);
    }

    /// Parses stdout as one JSON object.
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout).expect("stdout is one JSON value");
        assert!(value.is_object(), "not an object: {value}");
        value
    }
}

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new() -> Self {
        Self::named(".")
    }

    /// Creates an empty folder with this name.
    pub(crate) fn named(name: &str) -> Self {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let inside = temporary.path().join(name);
        fs::create_dir_all(&inside).expect("a folder");
        Self { temporary, inside }
    }

    /// Creates a folder with `vocab.txt`, the data folders `data/` and `held/`, and `config.json`.
    pub(crate) fn with_data() -> Self {
        let folder = Self::new();
        folder.add_data();
        folder
    }

    /// Creates a [`Folder::with_data`] with the run `run/`: six steps, checkpoints after 2, 4 and 6.
    pub(crate) fn with_run() -> Self {
        let folder = Self::with_data();
        folder.ok(&format!("pretrain {QUICK} --steps 6 --save-every 2 --output run"));
        folder
    }

    /// Adds the files of [`Folder::with_data`].
    pub(crate) fn add_data(&self) {
        self.add_data_of(&articles(0, 8));
    }

    /// Like [`Folder::add_data`], with another training text; articles 8 to 11 are held out.
    pub(crate) fn add_data_of(&self, train: &str) {
        self.write("train.txt", train);
        self.write("held.txt", articles(8, 4));
        self.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
        let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5";
        self.ok(&format!("make-pretrain-data --input train.txt {flags} --num-shards 3 --output data"));
        self.ok(&format!("make-pretrain-data --input held.txt {flags} --dupe-factor 2 --output held"));
        self.write("config.json", self.config().to_string());
    }

    /// Adds the data folder `of-tiny-en`, made with the vocabulary of the built-in model.
    pub(crate) fn add_built_in_data(&self) {
        self.write("text-of-tiny-en.txt", articles(0, 4));
        self.ok("bert export tiny-en tiny-en-exported");
        let flags = "--vocab tiny-en-exported --dupe-factor 1 --max-seq-length 64";
        self.ok(&format!("make-pretrain-data --input text-of-tiny-en.txt {flags} --output of-tiny-en"));
    }

    /// Returns the configuration of a very small model for the folder's vocabulary.
    pub(crate) fn config(&self) -> Value {
        json!({
            "vocab_size": self.text("vocab.txt").lines().count(),
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 64,
        })
    }

    /// Returns the path of a name in the folder.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.inside.join(name)
    }

    /// Writes a file and creates its parent folders.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file written");
    }

    /// Returns the bytes of a file.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("a file of text")
    }

    /// Returns the values of a JSON Lines file, or one JSON value.
    pub(crate) fn json(&self, name: &str) -> Vec<Value> {
        let bytes = self.read(name);
        let values = serde_json::Deserializer::from_slice(&bytes).into_iter();
        values.map(|value| value.expect("JSON")).collect()
    }

    /// Returns the value of a checksummed JSON file, without its checksum.
    pub(crate) fn checksummed(&self, name: &str) -> Value {
        let json =
            bert_storage::checksummed_json::read_checksummed(&self.at(name)).expect("a checksummed file");
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Returns the tensors of a safetensors file: shape and bytes by name.
    pub(crate) fn tensors(&self, name: &str) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
        let bytes = self.read(name);
        let tensors = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let entry = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            (name, (view.shape().to_vec(), view.data().to_vec()))
        };
        tensors.tensors().into_iter().map(entry).collect()
    }

    /// Copies a folder of files.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        for (name, bytes) in self.snapshot(from) {
            if let Some(bytes) = bytes {
                self.write(&format!("{to}/{name}"), bytes);
            }
        }
    }

    /// Changes one byte in the middle of a file.
    pub(crate) fn flip(&self, name: &str) {
        let mut bytes = self.read(name);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        self.write(name, bytes);
    }

    /// Returns everything below a folder: bytes of files, `None` for folders.
    pub(crate) fn snapshot(&self, name: &str) -> BTreeMap<String, Option<Vec<u8>>> {
        let root = self.at(name);
        let mut found = BTreeMap::new();
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(&root).expect("below").to_str().expect("Unicode").to_string();
                if path.is_dir() {
                    open.push(path);
                    found.insert(name, None);
                } else {
                    found.insert(name, Some(fs::read(path).expect("a file")));
                }
            }
        }
        found
    }

    /// Returns the names in a folder, sorted, without hidden ones.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    /// Returns a command with both outputs captured. The line is split at spaces; `'...'` is one word.
    pub(crate) fn command(&self, line: &str) -> Command {
        let quoted = line.split('\'').enumerate();
        let mut words = quoted.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let mut command = Command::new(program(words.next().expect("a program")));
        command.args(words).current_dir(&self.inside);
        // Initial weights of another test or run in the user's cache would change which command reads the text.
        command.env("XDG_CACHE_HOME", self.temporary.path().join("cache"));
        // Nor is a missing folder looked for on the Hugging Face Hub.
        command.env("HF_HUB_OFFLINE", "1").env_remove("HF_HOME").env_remove("HF_HUB_CACHE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command line to its end.
    pub(crate) fn run(&self, line: &str) -> Ended {
        let output = self.command(line).output().expect("the program starts");
        ended(line, output)
    }

    /// Runs a command line that must succeed.
    pub(crate) fn ok(&self, line: &str) -> Ended {
        let ended = self.run(line);
        assert_eq!(ended.code, Some(0), "{line}\n{}", ended.stderr);
        ended
    }

    /// Runs a command line that must fail with an exit code and with a message that contains `part`.
    pub(crate) fn refused(&self, line: &str, code: i32, part: &str) -> Ended {
        let ended = self.run(line);
        assert_eq!(ended.code, Some(code), "{line}\n{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{line}\n{part:?} is not in {}", ended.stderr);
        ended
    }

    /// Starts a command line.
    pub(crate) fn start(&self, line: &str) -> Child {
        self.command(line).spawn().expect("the program starts")
    }

    /// Returns the temporary folder itself.
    pub(crate) fn root(&self) -> &Path {
        self.temporary.path()
    }
}

/// A command line that must fail.
pub(crate) struct Refusal<'a> {
    pub(crate) code: i32,
    pub(crate) line: String,
    pub(crate) message: &'a str,
}

/// Reads a table of command lines that must fail. A row has the exit code, the end of the command line after `common`,
/// and the message.
pub(crate) fn refusals<'a>(common: &str, table: &'a str) -> Vec<Refusal<'a>> {
    let rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
    let refusals = rows.map(|row| {
        let cells: Vec<&str> = row.splitn(3, '|').map(str::trim).collect();
        let [code, flags, message] = cells[..] else { panic!("not a row: {row}") };
        let code = code.parse().unwrap_or_else(|error| panic!("{error}: {row}"));
        Refusal { code, line: format!("{common} {flags}").trim().to_string(), message }
    });
    let refusals: Vec<Refusal<'a>> = refusals.collect();
    assert!(!refusals.is_empty(), "no rows for {common}");
    refusals
}

/// Returns the result of an ended program; `line` is for messages.
pub(crate) fn ended(line: &str, output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let stdout = text(output.stdout);
    let stderr = text(output.stderr);
    assert!(!stderr.contains("panicked"), "{line}\n{stderr}");
    assert!(!stderr.contains(['\x1b', '\r']), "{line} draws without a terminal: {stderr:?}");
    Ended { code: output.status.code(), stdout, stderr }
}

/// Returns the path of a program of the workspace; other paths stay as they are.
pub(crate) fn program(name: &str) -> &str {
    match name {
        "make-pretrain-data" => env!("CARGO_BIN_EXE_make-pretrain-data"),
        "pretrain" => env!("CARGO_BIN_EXE_pretrain"),
        "finetune" => env!("CARGO_BIN_EXE_finetune"),
        "bert" => env!("CARGO_BIN_EXE_bert"),
        path if path.contains('/') => path,
        _ => panic!("no program {name:?}"),
    }
}

/// Returns articles of the almanac with every sentence cut to its first words.
pub(crate) fn articles(first: usize, count: usize) -> String {
    let text = include_str!("../corpora/almanac/train/nature.txt");
    let sentence = |line: &str| line.split(' ').take(7).collect::<Vec<_>>().join(" ");
    let article = |text: &str| text.lines().map(sentence).collect::<Vec<_>>().join("\n");
    let chosen = text.trim().split("\n\n").skip(first).take(count);
    chosen.map(|text| article(text) + "\n\n").collect()
}

/// Returns the header and some rows of the entailment set's training file.
pub(crate) fn entailment(first: usize, rows: usize) -> String {
    let text = include_str!("../corpora/entailment/train.tsv");
    let rows = text.lines().skip(1 + first).take(rows);
    text.lines().take(1).chain(rows).map(|line| format!("{line}\n")).collect()
}

/// Returns the number at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number {pointer} in {value}"))
}

/// Returns whether the processor has the instructions that `--precision bf16` requires.
pub(crate) fn has_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns a page without its links to report pages in other folders, which must be relative.
fn without_links(html: &str) -> String {
    let mut parts = html.split("<a href=\"");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (address, rest) = part.split_once('"').expect("the end of an address");
        assert!(address.ends_with("/report.html") && !address.contains(':'), "a link to {address}");
        text.push_str(rest);
    }
    text
}

/// Checks that a page loads nothing from outside and runs no scripts.
pub(crate) fn assert_self_contained(html: &str) {
    // The page's own script, which its policy admits by a digest, and the data of charts.
    let own = ["<script type=\"application/json\"", "<script>'use strict';", "http://www.w3.org/2000/svg"];
    let lower = own.iter().fold(without_links(html), |html, own| html.replace(own, "")).to_lowercase();
    for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "<script", "<link", "<iframe"] {
        assert!(!lower.contains(outside), "the page has {outside:?}");
    }
    assert!(html.starts_with("<!doctype html>"));
}
