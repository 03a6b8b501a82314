//! Text in other forms than one sentence per line: the documents and the warnings.

use std::path::Path;

use bert_data::{BuildConfig, BuildOutcome, Layout, LineBreaks, Nsp, RandomMode};
use bert_text::Format;
use tempfile::TempDir;

use crate::support::{config, run, small_vocabulary};

/// Sentences of different lengths, as many as are asked for.
fn sentences(count: usize) -> Vec<String> {
    let some = [
        "the old cat sat on the mat of the house near the river and looked at the water for a long time.",
        "a dog ran far away.",
        "nobody in the village knew why the sun was so hot on that day, although many had asked.",
        "it rained for two days and the road to the mill was closed until the end of the week.",
    ];
    (0..count).map(|at| some[at * at % 7 % 4].to_owned()).collect()
}

/// Returns words in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 && length + 1 + word.len() > width {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word.len();
    }
    out
}

fn build(folder: &Path, name: &str, text: &str, set: impl Fn(BuildConfig) -> BuildConfig) -> BuildOutcome {
    std::fs::write(folder.join(name), text).unwrap();
    let base = config(&[&folder.join(name)], &small_vocabulary(folder), &folder.join("out"));
    run(&set(BuildConfig { layout: Layout::Documents, max_seq_length: 512, overwrite: true, ..base }))
        .unwrap()
}

/// Returns the numbers of documents and sentences, and all warnings.
fn counts(outcome: &BuildOutcome) -> (u64, u64, String) {
    let report = &outcome.manifest.report;
    (report.documents, report.sentences, report.warnings.join("\n"))
}

#[test]
fn wrapped_articles_and_books_are_joined() {
    let folder = TempDir::new().unwrap();
    let article = wrapped(&sentences(20).join(" "), 60);
    let articles = format!("{article}\n\n").repeat(10);
    let joined = build(folder.path(), "articles.txt", &articles, |config| config);
    let (documents, sentences_found, said) = counts(&joined);
    assert_eq!((documents, sentences_found, joined.manifest.inputs[0].format), (10, 200, Format::Wrapped));
    assert!(said.contains("break inside sentences") && said.contains("as between \"the old cat"), "{said}");
    let book = format!("{}\n\n", wrapped(&sentences(4).join(" "), 60)).repeat(20);
    std::fs::create_dir(folder.path().join("books")).unwrap();
    std::fs::write(folder.path().join("books/one.txt"), &book).unwrap();
    std::fs::write(folder.path().join("books/two.txt"), book.replace("cat", "dog")).unwrap();
    let base = config(
        &[&folder.path().join("books")],
        &small_vocabulary(folder.path()),
        &folder.path().join("books.out"),
    );
    let books = run(&BuildConfig { layout: Layout::Documents, max_seq_length: 512, ..base }).unwrap();
    let (documents, sentences_found, said) = counts(&books);
    assert_eq!((documents, sentences_found), (2, 160));
    assert!(said.contains("2 files, one.txt the first") || said.contains("of 2 files"), "{said}");
}

#[test]
fn line_breaks_mean_what_the_option_says() {
    let folder = TempDir::new().unwrap();
    let text = format!("{}\n\n", wrapped(&sentences(20).join(" "), 60)).repeat(10);
    let with =
        |line_breaks| build(folder.path(), "a.txt", &text, |config| BuildConfig { line_breaks, ..config });
    let (_, lines, said) = counts(&with(LineBreaks::Sentence));
    assert_eq!(lines, text.lines().filter(|line| !line.is_empty()).count() as u64);
    assert!(said.contains("--line-breaks wrapped"), "{said}");
    let (_, paragraphs, said) = counts(&with(LineBreaks::Paragraph));
    assert!(paragraphs > 200 && said.contains("--line-breaks wrapped"), "{said}");
    assert_eq!(counts(&with(LineBreaks::Wrapped)).1, 200);
    let short = build(folder.path(), "b.txt", "the cat sat\non the mat.\n", |config| BuildConfig {
        line_breaks: LineBreaks::Wrapped,
        nsp: Nsp::Off,
        ..config
    });
    assert_eq!(counts(&short).1, 1);
}

#[test]
fn reference_mode_reads_lines_and_warns() {
    let folder = TempDir::new().unwrap();
    let text = format!("{}\n\n", wrapped(&sentences(20).join(" "), 60)).repeat(10);
    let outcome = build(folder.path(), "a.txt", &text, |config| BuildConfig {
        random: RandomMode::Reference,
        layout: Layout::Instances,
        ..config
    });
    assert_eq!(outcome.manifest.inputs[0].format, Format::Text);
    assert!(counts(&outcome).2.contains("lie inside sentences"), "{}", counts(&outcome).2);
}

#[test]
fn rows_with_broken_lines_are_joined() {
    let folder = TempDir::new().unwrap();
    let row = format!("THE FLOOD\n\n{}\n- one item\n- another item", wrapped(&sentences(10).join(" "), 60));
    let json = format!("{}\n", serde_json::json!({ "text": row })).repeat(10);
    let csv = format!("id,text\n{}", format!("1,\"{row}\"\n").repeat(10));
    for (name, table) in [("a.jsonl", &json), ("a.csv", &csv)] {
        let (documents, sentences_found, said) = counts(&build(folder.path(), name, table, |config| config));
        assert_eq!((documents, sentences_found), (10, 130), "{name}");
        assert!(said.contains("100 % of the rows") && said.contains("their lines were joined"), "{said}");
    }
}

#[test]
fn lists_of_sentences_are_documents() {
    let folder = TempDir::new().unwrap();
    let row = serde_json::json!({ "doc": { "text": ["the cat sat. the dog ran.", "is it hot?"] } });
    let outcome = build(folder.path(), "a.jsonl", &format!("{row}\n").repeat(3), |config| {
        config.with_text_column("doc.text")
    });
    assert_eq!((counts(&outcome).0, counts(&outcome).1), (3, 6));
}

#[test]
fn tables_without_a_header_have_numbered_columns() {
    let folder = TempDir::new().unwrap();
    let rows: String = sentences(30).iter().enumerate().map(|(at, text)| format!("{at}\t{text}\n")).collect();
    let read =
        |name: &str, text: &str| build(folder.path(), name, text, |config| config.with_text_column("2"));
    assert_eq!(counts(&read("leipzig.txt", &rows)).0, 30);
    assert_eq!(counts(&read("tatoeba.tsv", &rows)).0, 30);
    assert_eq!(counts(&read("named.tsv", &format!("id\ttext\n{rows}"))).0, 30, "a header is no row");
    assert_eq!(counts(&read("blank.txt", &rows.replacen("\n9\t", "\n\n9\t", 1))).0, 30);
    std::fs::write(folder.path().join("a.txt"), &rows).unwrap();
    let base =
        config(&[&folder.path().join("a.txt")], &small_vocabulary(folder.path()), &folder.path().join("no"));
    let error = run(&base).unwrap_err().to_string();
    assert!(
        error.contains("the first line is not a header") && error.contains("`.text_column 2`"),
        "{error}"
    );
    let stray = rows.replacen("dog ran", "dog\tran", 1);
    std::fs::write(folder.path().join("a.txt"), stray).unwrap();
    let error = run(&base.with_text_column("2")).unwrap_err().to_string();
    assert!(error.contains("a.txt:2: 3 field(s), but the first row of this table has 2"), "{error}");
}

#[test]
fn unclosed_quotes_are_found_where_they_begin() {
    let folder = TempDir::new().unwrap();
    let row = |at: usize| format!("{at},The dog ran.\n");
    let rows = |from: usize, to: usize| (from..to).map(row).collect::<String>();
    let open =
        format!("id,text\n1,The disk has 5\" of width.\n{}50,\"Never closed.\n{}", rows(2, 50), rows(51, 90));
    std::fs::write(folder.path().join("a.csv"), open).unwrap();
    let base =
        config(&[&folder.path().join("a.csv")], &small_vocabulary(folder.path()), &folder.path().join("no"));
    let error = run(&base).unwrap_err().to_string();
    assert!(error.contains("a.csv:51: the quote that begins a field"), "{error}");
    let valid = format!("id,text\n1,5\" wide.\n{}3,\"It ran.\nIt sat.\"\n", row(2));
    assert_eq!(counts(&build(folder.path(), "valid.csv", &valid, |config| config)).0, 3);
    let escaped = "id,text\n1,\"He said \\\"The dog ran.\\\" It ran, far.\"\n2,It is hot.\n";
    let spark = build(folder.path(), "spark.csv", escaped, |config| config);
    let doubled = escaped.replace("\\\"", "\"\"");
    let expected = build(folder.path(), "doubled.csv", &doubled, |config| config);
    assert_eq!(spark.manifest.shards_digest(), expected.manifest.shards_digest());
    let pandas = "text\n\"The dog is here.\nIt ran in winter.\"\nThe cat sat.\n\"It is hot.\nIs it?\"\n";
    assert_eq!(counts(&build(folder.path(), "pandas.tsv", pandas, |config| config)).0, 3);
}

#[test]
fn signs_of_other_text_are_named_with_examples() {
    let folder = TempDir::new().unwrap();
    let lines = |line: &str| format!("{line}\nIt rained on the hill.\n\n").repeat(30);
    for (line, said) in [
        ("Cats &amp; dogs ran far.", "have entities of markup"),
        ("The <b>cat</b> sat.", "have tags of markup"),
        ("One line.\\nAnother line.", "a backslash and n"),
        ("The <unk> sat on the mat.", "<unk> for rare words"),
        ("The caf\u{c3}\u{a9} is hot.", "encoded again"),
        ("12\tThe cat sat.", "have tabs"),
        ("L10 +++$+++ u2 +++$+++ The cat sat.", "fields between marks"),
        ("L10|u2|The cat sat.", "fields between marks"),
        ("<s> The cat sat on the mat. </s>", "have tags of markup"),
        ("1089-134686-0000 the cat sat", "begin with an identifier"),
        ("Genesis 1:1 The cat sat.", "begin with an identifier"),
        ("1 Samuel 2:3 The cat sat.", "begin with an identifier"),
        ("[00:01:02.500] ANN: The cat sat.", "begin with an identifier"),
    ] {
        let warnings = counts(&build(folder.path(), "a.txt", &lines(line), |config| config)).2;
        assert!(warnings.contains(said) && warnings.contains("50 %"), "{line}: {warnings}");
        let estimate = bert_data::dry_run(&config(
            &[&folder.path().join("a.txt")],
            &small_vocabulary(folder.path()),
            &folder.path().join("dry"),
        ));
        assert!(estimate.unwrap().warnings.iter().any(|warning| warning.contains(said)), "{line}");
    }
    let numbered: String = (1..90).map(|number| format!("{number} The cat sat.\n")).collect();
    let rules = "The cat sat.\nIt ran far.\n=====\n".repeat(30);
    for (text, said) in [(numbered, "100 % of the lines"), (rules, "30 line(s) of a.txt are marks only")] {
        let warnings = counts(&build(folder.path(), "a.txt", &text, |config| config)).2;
        assert!(warnings.contains(said), "{warnings}");
    }
    let paragraph = "The dog ran far. ".repeat(30);
    let row = serde_json::json!({ "text": format!("<p>{paragraph}</p><p>{paragraph}</p>") });
    let pages = build(folder.path(), "pages.jsonl", &format!("{row}\n").repeat(9), |config| config);
    assert!(counts(&pages).2.contains("have tags of markup"));
    // Stripped accents do not matter, however they are encoded.
    let accents = |strip| {
        let text = lines("The cafe\u{301} is hot.");
        counts(&build(folder.path(), "a.txt", &text, |config| config.with_strip_accents(strip))).2
    };
    let warnings = accents(false);
    assert!(warnings.contains("separate characters (NFD)") && warnings.contains("50 %"), "{warnings}");
    assert!(!accents(true).contains("NFD"));
}

#[test]
fn lines_that_are_not_utf8_keep_their_place() {
    let folder = TempDir::new().unwrap();
    let article = wrapped(&sentences(20).join(" "), 60);
    let articles = format!("{article}\n\n").repeat(10);
    let intact = counts(&build(folder.path(), "articles.txt", &articles, |config| config));
    let mut lines: Vec<Vec<u8>> = articles.lines().map(|line| line.as_bytes().to_vec()).collect();
    let filled: Vec<usize> = (0..lines.len()).filter(|&at| !lines[at].is_empty()).collect();
    // Replaces the last letter of a line by a byte that is not UTF-8.
    let damaged = |at: usize, lines: &mut Vec<Vec<u8>>| {
        let line = &mut lines[filled[at]];
        let letter = line.iter().rposition(u8::is_ascii_lowercase).unwrap();
        line[letter] = 0xe9;
    };
    (0..4).for_each(|at| damaged(4 + 12 * at, &mut lines));
    std::fs::write(folder.path().join("latin.txt"), lines.join(&b'\n')).unwrap();
    let base = config(
        &[&folder.path().join("latin.txt")],
        &small_vocabulary(folder.path()),
        &folder.path().join("out"),
    );
    let base = BuildConfig { layout: Layout::Documents, max_seq_length: 512, overwrite: true, ..base };
    let repaired = counts(&run(&base.clone()).unwrap());
    assert_eq!((repaired.0, repaired.1), (intact.0, intact.1), "{}", repaired.2);
    assert!(repaired.2.contains("4 line(s) were not UTF-8"), "{}", repaired.2);
    let strict = run(&BuildConfig { strict_utf8: true, ..base.clone() }).unwrap_err().to_string();
    assert!(strict.contains("latin.txt:5: invalid UTF-8"), "{strict}");
    (0..filled.len() / 15).for_each(|at| damaged(5 + 14 * at, &mut lines));
    std::fs::write(folder.path().join("latin.txt"), lines.join(&b'\n')).unwrap();
    let many = run(&base).unwrap_err().to_string();
    assert!(
        many.contains("latin.txt:5: ") && many.contains(&format!("of {} lines are not UTF-8", filled.len())),
        "{many}"
    );
}
