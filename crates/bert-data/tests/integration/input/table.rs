//! JSON Lines and Parquet as inputs: one row is one document of running text.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use bert_data::{BuildConfig, BuildOutcome, Error, VocabConfig, train_vocabulary};
use bert_text::{Format, InputReader};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::support::{canonical, config, reference, run, shards, small_vocabulary};

/// Returns documents of running text, some of several paragraphs, and the same text as lines of sentences.
fn texts(count: usize) -> (Vec<String>, String) {
    let sentences = ["The cat sat on the mat.", "The dog ran far away!", "Is the sun \"hot\"?", "Far, hot."];
    let (mut rows, mut lines) = (Vec::new(), String::new());
    for document in 0..count {
        let sentence = |n: usize| sentences[(document * 7 + n * 3) % sentences.len()];
        rows.push(format!(
            "{} {}\n\n{} {}\r\n{}",
            sentence(0),
            sentence(1),
            sentence(2),
            sentence(3),
            sentence(document)
        ));
        for n in [0, 1, 2, 3, document] {
            lines += &format!("{}\n", sentence(n));
        }
        lines.push('\n');
    }
    (rows, lines)
}

fn json_lines(rows: &[String], column: &str) -> String {
    rows.iter()
        .enumerate()
        .map(|(id, text)| {
            let text = serde_json::to_string(text).unwrap();
            format!("{{\"id\": {id}, \"meta\": {{\"{column}\": [1, null]}}, \"{column}\": {text}}}\n")
        })
        .collect()
}

fn write_parquet(path: &Path, column: &str, texts: Vec<Option<&str>>, compression: Compression) {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..texts.len() as i32));
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("id", ids, false), (column, texts, true)]).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(150))
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn some(rows: &[String]) -> Vec<Option<&str>> {
    rows.iter().map(|row| Some(row.as_str())).collect()
}

struct World {
    folder: tempfile::TempDir,
    vocab: std::path::PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vocab = small_vocabulary(folder.path());
        Self { folder, vocab }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> std::path::PathBuf {
        std::fs::write(self.at(name), content).unwrap();
        self.at(name)
    }

    fn config(&self, name: &str) -> BuildConfig {
        let output = self.at(&format!("data-{name}"));
        BuildConfig { dupe_factor: 2, max_seq_length: 32, ..config(&[&self.at(name)], &self.vocab, &output) }
    }

    fn build(&self, name: &str) -> (BuildOutcome, String) {
        let outcome = run(&self.config(name)).unwrap();
        let rows = shards(&outcome).iter().flat_map(|rows| rows.iter().map(canonical)).collect();
        (outcome, rows)
    }

    fn fails(&self, config: &BuildConfig, says: &[&str]) -> Error {
        let error = run(config).unwrap_err();
        let text = error.to_string();
        assert!(says.iter().all(|part| text.contains(part)), "{text}: {says:?}");
        error
    }
}

#[test]
fn rows_give_the_same_instances_as_their_sentences_in_lines() {
    let world = World::new();
    let (rows, lines) = texts(400);
    let json = json_lines(&rows, "text");
    world.file("lines.txt", lines.as_bytes());
    world.file("a.jsonl", json.as_bytes());
    world.file("b.NDJSON.zst", &zstd::encode_all(json.as_bytes(), 1).unwrap());
    world.file("c.json.gz", &gzip(json.as_bytes()));
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(json.as_bytes()).unwrap();
    world.file("g.jsonl.bz2", &bzip2.finish().unwrap());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(json.as_bytes()).unwrap();
    world.file("h.jsonl.xz", &xz.finish().unwrap());
    write_parquet(&world.at("d.parquet"), "text", some(&rows), Compression::SNAPPY);
    // A Parquet file is recognized by its first bytes, regardless of its name and compression.
    let zstd = Compression::ZSTD(ZstdLevel::default());
    write_parquet(&world.at("e.data"), "text", some(&rows), zstd);
    write_parquet(&world.at("f.parquet"), "text", some(&rows), Compression::GZIP(GzipLevel::default()));
    let (plain, expected) = world.build("lines.txt");
    assert_eq!(plain.manifest.config.text_column, None);
    assert_eq!(plain.manifest.inputs[0].format, Format::Text);
    let json = ["a.jsonl", "b.NDJSON.zst", "c.json.gz", "g.jsonl.bz2", "h.jsonl.xz"];
    let parquet = ["d.parquet", "e.data", "f.parquet"];
    let formats = json.map(|name| (name, Format::Jsonl)).into_iter();
    for (name, format) in formats.chain(parquet.map(|name| (name, Format::Parquet))) {
        let (outcome, found) = world.build(name);
        assert!(found == expected, "{name}");
        let (manifest, input) = (&outcome.manifest, &outcome.manifest.inputs[0]);
        assert_eq!((manifest.report.documents, manifest.report.sentences), (400, 2000), "{name}");
        assert_eq!((input.format, input.lines), (format, 400), "{name}");
        let bytes = std::fs::read(world.at(name)).unwrap();
        assert_eq!(input.blake3, bert_storage::digest_bytes(&bytes), "{name}");
        assert_eq!(input.bytes, bytes.len() as u64, "{name}");
        assert_eq!(manifest.config.text_column.as_deref(), Some("text"));
        assert_eq!(manifest.config.language.as_deref(), Some("en"));
    }
}

#[test]
fn another_column_can_be_named() {
    let world = World::new();
    let (rows, _) = texts(30);
    world.file("a.jsonl", json_lines(&rows, "body").as_bytes());
    write_parquet(&world.at("b.parquet"), "body", some(&rows), Compression::UNCOMPRESSED);
    let other = |name: &str| BuildConfig { text_column: "body".to_owned(), ..world.config(name) };
    assert_eq!(run(&other("a.jsonl")).unwrap().manifest.report.documents, 30);
    assert_eq!(run(&other("b.parquet")).unwrap().manifest.report.documents, 30);
    let usual = |name: &str| BuildConfig { overwrite: true, ..world.config(name) };
    world.fails(&usual("a.jsonl"), &["a.jsonl:1", "\"text\" is missing", "`.text_column`"]);
    let error = world.fails(&usual("b.parquet"), &["b.parquet", "\"text\" is missing", "id, body"]);
    assert_eq!(error.exit_code(), 3);
    // A column name without any table is a mistake.
    world.file("c.txt", b"the cat\nsat\n");
    assert_eq!(world.fails(&other("c.txt"), &["`.text_column`", "none of them"]).exit_code(), 2);
    // Vocabularies are trained on the same inputs.
    let vocab = VocabConfig { vocab_size: 40, text_column: "body".to_owned(), ..VocabConfig::default() };
    let from = |name: &str| train_vocabulary(&[world.at(name)], &vocab, &mut |_, _| {}).unwrap().tokens;
    assert_eq!(from("a.jsonl"), from("b.parquet"));
}

#[test]
fn rows_without_text_are_named() {
    let world = World::new();
    let good = "{\"text\": \"The cat sat. The dog ran.\"}\n";
    let problem = |name: &str, bad: &str, says: &[&str]| {
        world.file(name, format!("{good}\n{bad}\n{good}").as_bytes());
        let error = world.fails(&world.config(name), says);
        assert_eq!(error.line(), Some(3), "{error}");
    };
    problem("a.jsonl", "{\"body\": \"x\"}", &["a.jsonl:3", "\"text\" is missing (keys: body)"]);
    for value in ["3", "-3", "0.5", "true", "[1]", "{\"a\": 1}"] {
        problem("c.jsonl", &format!("{{\"text\": {value}}}"), &["c.jsonl:3", "expected text"]);
    }
    for (name, broken) in [("d.jsonl", "{\"text\": \"the"), ("e.jsonl", "[1]"), ("f.jsonl", "{} {}")] {
        world.file(name, format!("{good}{broken}\n").as_bytes());
        let error = world.fails(&world.config(name), &[&format!("{name}:2"), "not a JSON object"]);
        assert!(error.to_string().contains("not a JSON object (expected one object per"), "{name}");
        assert_eq!(error.exit_code(), 3);
    }
    // The last value of a repeated key counts; escapes are decoded.
    world.file(
        "g.jsonl",
        format!("{{\"text\": 1, \"text\": \"The c\\u0061t. The dog.\"}}\n{good}").as_bytes(),
    );
    let report = world.build("g.jsonl").0.manifest.report;
    assert_eq!((report.documents, report.sentences, report.unknown_tokens), (2, 4, 0));
    // Blank rows are empty documents.
    world.file("h.jsonl", format!("{good}{{\"text\": \" \\n \"}}\n{{\"text\": \"\"}}\n{good}").as_bytes());
    let report = world.build("h.jsonl").0.manifest.report;
    assert_eq!((report.documents, report.empty_documents), (2, 2));
}

/// Null or empty rows change only the counts.
#[test]
fn rows_without_text_are_skipped_and_counted() {
    let world = World::new();
    let (rows, _) = texts(300);
    write_parquet(&world.at("full.parquet"), "text", some(&rows), Compression::SNAPPY);
    let mut with_holes: Vec<Option<&str>> = some(&rows);
    for at in [0, 207, 208, 300] {
        with_holes.insert(at, None);
    }
    with_holes.insert(100, Some(" \n"));
    write_parquet(&world.at("holes.parquet"), "text", with_holes.clone(), Compression::SNAPPY);
    let json: String =
        with_holes.iter().map(|text| format!("{}\n", serde_json::json!({ "text": text }))).collect();
    world.file("holes.jsonl", json.as_bytes());
    let (full, expected) = world.build("full.parquet");
    assert_eq!((full.manifest.report.null_rows, full.manifest.report.empty_documents), (0, 0));
    for name in ["holes.parquet", "holes.jsonl"] {
        let (outcome, found) = world.build(name);
        let report = &outcome.manifest.report;
        assert!(found == expected, "{name}");
        assert_eq!((report.null_rows, report.empty_documents), (4, 1), "{name}");
        assert!(report.warnings.iter().any(|warning| warning.contains("4 row(s) were null")), "{report}");
        assert!(report.to_string().contains("rows that are null"), "{report}");
        let vocab = VocabConfig { vocab_size: 60, ..VocabConfig::default() };
        let vocabulary = train_vocabulary(&[world.at(name)], &vocab, &mut |_, _| {}).unwrap();
        assert_eq!(vocabulary.report.null_rows, 4);
    }
}

#[test]
fn strict_rows_rejects_null_and_empty_rows() {
    let world = World::new();
    write_parquet(&world.at("null.parquet"), "text", vec![None, Some("the cat.")], Compression::SNAPPY);
    world.file("null.jsonl", b"{\"text\": null}\n{\"text\": \"the cat.\"}\n");
    for name in ["null.parquet", "null.jsonl"] {
        let strict = BuildConfig { strict_rows: true, ..world.config(name) };
        let error = world.fails(&strict, &[&format!("{name}:1:"), "is null, which `.strict_rows` rejects"]);
        assert!(error.to_string().contains("is null, which"));
        assert_eq!(error.exit_code(), 3);
        let vocab = VocabConfig { vocab_size: 60, strict_rows: true, ..VocabConfig::default() };
        train_vocabulary(&[world.at(name)], &vocab, &mut |_, _| {}).unwrap_err();
    }
    world.file("empty.jsonl", b"{\"text\": \"the cat. the dog.\"}\n\n{\"text\": \" \"}\n");
    let strict = BuildConfig { strict_rows: true, ..world.config("empty.jsonl") };
    world.fails(&strict, &["empty.jsonl:3", "is empty, which `.strict_rows` rejects"]);
}

#[test]
fn blocks_of_null_rows_are_bounded() {
    let world = World::new();
    let nulls = vec![None; 200_000];
    write_parquet(&world.at("nulls.parquet"), "text", nulls, Compression::SNAPPY);
    let mut reader = InputReader::open(&world.at("nulls.parquet"), 0, "text").unwrap();
    while let Some(block) = reader.next_block().unwrap() {
        assert!(block.null_rows.len() < 70_000);
    }
    world.fails(&world.config("nulls.parquet"), &["the input has no text: 1 file(s), 200000 line(s)"]);
}

/// CSV and TSV tables give the same rows as Parquet, by the named column.
#[test]
fn separated_values_are_read_by_their_column() {
    let world = World::new();
    let (rows, _) = texts(300);
    write_parquet(&world.at("a.parquet"), "text", some(&rows), Compression::SNAPPY);
    let expected = world.build("a.parquet").1;
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let table = |column: &str, by: char| {
        let row = |(id, text): (usize, &String)| format!("{id}{by}{}{by}x\r\n", quoted(text));
        format!("id{by}{column}{by}\"the end\"\r\n") + &rows.iter().enumerate().map(row).collect::<String>()
    };
    world.file("a.csv", table("text", ',').as_bytes());
    world.file("b.csv.gz", &gzip(format!("\u{feff}{}", table("text", ';')).as_bytes()));
    world.file("c", table("text", ',').as_bytes());
    for (name, format) in [("a.csv", Format::Csv), ("b.csv.gz", Format::Csv), ("c", Format::Csv)] {
        let (outcome, found) = world.build(name);
        assert!(found == expected, "{name}");
        assert_eq!((outcome.manifest.inputs[0].format, outcome.manifest.inputs[0].lines), (format, 300));
        let message = outcome.manifest.report.warnings.join("\n");
        assert!(message.contains("300 row(s) of") && message.contains("CSV or TSV table"), "{message}");
    }
    world.file("d.csv", table("body", ',').as_bytes());
    let error = world.fails(
        &world.config("d.csv"),
        &["d.csv", "\"text\" is missing", "id, body, the end", "`.text_column`"],
    );
    assert_eq!(error.exit_code(), 3);
    let body = BuildConfig { text_column: "body".to_owned(), overwrite: true, ..world.config("d.csv") };
    let report = run(&body).unwrap().manifest.report;
    assert_eq!((report.documents, report.warnings.join("").contains("table")), (300, false));
    // TSV files have no quoting.
    world.file("e.tsv", b"id\ttext\n1\t\"The cat\n2\tsat. The \"dog\" ran.\n\n3\t\"\"\"Far,\"\" away.\"\n");
    let report = world.build("e.tsv").0.manifest.report;
    assert_eq!((report.documents, report.tokens), (3, 17));
    let vocab = VocabConfig { vocab_size: 60, ..VocabConfig::default() };
    let from = |name: &str| train_vocabulary(&[world.at(name)], &vocab, &mut |_, _| {}).unwrap().tokens;
    assert_eq!(from("a.csv"), from("a.parquet"));
}

#[test]
fn duplicate_keys_agree_in_json_of_any_layout() {
    let world = World::new();
    let (texts, _) = texts(300);
    world.file("plain.jsonl", json_lines(&texts, "text").as_bytes());
    let (_, expected) = world.build("plain.jsonl");
    let rows: Vec<String> = texts
        .iter()
        .map(|text| {
            format!("{{\"text\": \"far\", \"id\": NaN, \"text\": {}}}", serde_json::to_string(text).unwrap())
        })
        .collect();
    world.file("a.jsonl", rows.join("\n").as_bytes());
    world.file("b.json", format!("[{}]", rows.join(", ")).as_bytes());
    world.file("c.json", rows.join("\n").replace("{\"", "{\n  \"").as_bytes());
    for name in ["a.jsonl", "b.json", "c.json"] {
        let (outcome, found) = world.build(name);
        assert!(found == expected, "{name}");
        assert_eq!(outcome.manifest.inputs[0].format, Format::Jsonl);
    }
    let bad = "{\"text\": \"the cat\"}\n{\"text\": \"the dog\", \"text\": 1}";
    world.file("d.jsonl", bad.as_bytes());
    world.file("e.json", format!("[{}]", bad.replace('\n', ",")).as_bytes());
    for name in ["d.jsonl", "e.json"] {
        world.fails(&world.config(name), &[&format!("{name}:2"), "\"text\" is a number, expected text"]);
    }
}

#[test]
fn bad_tables_of_separated_values_are_named() {
    let world = World::new();
    let fails = |name: &str, text: &str, says: &[&str]| {
        world.file(name, text.as_bytes());
        assert_eq!(world.fails(&world.config(name), says).exit_code(), 3, "{name}");
    };
    fails(
        "a.csv",
        "id,text\n1,the cat\n2,the dog, the mat\n",
        &["a.csv:3", "3 field(s), but the first row of this table has 2"],
    );
    fails("b.csv", "id,text\n1,the cat\n2,\"the dog\n3,the mat\n", &["b.csv:3", "never closed"]);
    fails(
        "c.tsv",
        "id\ttext\n1\tthe\tcat\n",
        &["c.tsv:2", "3 field(s), but the first row of this table has 2"],
    );
    fails("d.txt", "1\tthe cat\n2\tthe dog\n3\tthe mat\n", &["d.txt", "1, the cat", "`.text_column`"]);
    fails("e.csv", "the cat sat on the mat\nthe dog ran\n", &["e.csv", "\"text\" is missing"]);
    let long = format!("id,text\n1,\"{}\n", "the cat\n".repeat(9 << 20));
    fails("f.csv", &long, &["f.csv", "row 1 is longer than 67108864 bytes"]);
    world.file("g.csv", b"text\nthe \xff cat\nthe \xfe dog\n");
    world.fails(&world.config("g.csv"), &["g.csv:1: 2 of 2 lines are not UTF-8"]);
}

#[test]
fn bad_parquet_is_named() {
    let world = World::new();
    let (rows, _) = texts(300);
    write_parquet(&world.at("ids.parquet"), "text", some(&rows), Compression::SNAPPY);
    let ids = BuildConfig { text_column: "id".to_owned(), ..world.config("ids.parquet") };
    assert!(world.fails(&ids, &["\"id\" is int32", "expected text"]).to_string().contains(", expected"));
    world.file("false.parquet", b"{\"text\": \"the\"}");
    assert!(
        world
            .fails(&world.config("false.parquet"), &["PAR1"])
            .to_string()
            .contains("not a Parquet file: it does not begin with")
    );
    write_parquet(&world.at("good.parquet"), "text", some(&rows), Compression::SNAPPY);
    let bytes = std::fs::read(world.at("good.parquet")).unwrap();
    world.file("cut.parquet", &bytes[..bytes.len() - 20]);
    assert!(
        world
            .fails(&world.config("cut.parquet"), &["cut.parquet"])
            .to_string()
            .contains("cannot be read as Parquet")
    );
    // No damage to the file's bytes makes the reader panic.
    for at in (4..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let path = world.file("damaged.parquet", &damaged);
        let Ok(mut reader) = InputReader::open(&path, 0, "text") else { continue };
        while let Ok(Some(block)) = reader.next_block() {
            assert!(block.row_ends.is_sorted());
        }
    }
}

#[test]
fn blocks_of_rows_are_bounded_and_numbered() {
    let world = World::new();
    let rows: Vec<String> = (0..3000).map(|row| format!("row {row} ").repeat(100)).collect();
    write_parquet(&world.at("a.parquet"), "text", some(&rows), Compression::SNAPPY);
    let mut reader = InputReader::open(&world.at("a.parquet"), 4, "text").unwrap();
    let (mut seen, mut blocks) = (0, 0);
    while let Some(block) = reader.next_block().unwrap() {
        assert_eq!((block.first_line, block.file), (seen as u64 + 1, 4));
        assert!(block.bytes.len() < 1 << 20);
        for (number, text) in block.rows() {
            assert_eq!((number, text), (seen as u64 + 1, Some(rows[seen].as_bytes())));
            seen += 1;
        }
        blocks += 1;
    }
    assert!(seen == 3000 && blocks > 5, "{seen} rows in {blocks} blocks");
    assert_eq!(reader.bytes_read(), reader.entry().unwrap().bytes);
}

#[test]
fn tables_are_rejected_where_they_cannot_be_used() {
    let world = World::new();
    world.file("a.jsonl", b"{\"text\": \"The cat sat. The dog ran.\"}\n");
    let error = world.fails(&reference(world.config("a.jsonl")), &["`.input`", "`.random reference`"]);
    assert_eq!(error.exit_code(), 2);
    let klingon = BuildConfig { language: Some("klingon".to_owned()), ..world.config("a.jsonl") };
    world.fails(&klingon, &["`.language`", "klingon"]);
}
