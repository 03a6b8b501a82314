use std::path::Path;

use bert_data::{BuildConfig, BuildOutcome, Error, build_part, merge};
use bert_text::Format;
use tempfile::TempDir;

use crate::support::{config, run, shards, small_vocabulary};

/// A dump of two articles, a redirect, a talk page and a page of Lua.
const PAGES: &str = "\
  <page><title>Cat</title><ns>0</ns><revision><model>wikitext</model>
    <text xml:space=\"preserve\">'''The''' [[cat]] sat&amp;nbsp;on the mat. The dog ran.
[[Soubor:Cat.jpg|thumb|A cat]]{{Box|x}}
== Far ==
It is &lt;ref&gt;x&lt;/ref&gt;far away.</text></revision></page>
  <page><title>Cats</title><ns>0</ns><redirect title=\"Cat\" /><revision><text>#REDIRECT [[Cat]]</text></revision></page>
  <page><title>Talk:Cat</title><ns>1</ns><revision><text>the sun the sun the sun</text></revision></page>
  <page><title>Sun</title><ns>0</ns><revision><text>Old text.</text></revision>
    <revision><text>The sun is hot. Is it hot?</text></revision></page>
  <page><title>Code</title><ns>0</ns><revision><model>Scribunto</model><text>return</text></revision></page>
";

fn dump(pages: &str, language: &str) -> String {
    format!(
        "<mediawiki xmlns=\"http://www.mediawiki.org/xml/export-0.11/\" version=\"0.11\" xml:lang=\"{language}\">\n  <siteinfo>\
         <namespaces><namespace key=\"0\" /><namespace key=\"6\">Soubor</namespace></namespaces></siteinfo>\n{pages}</mediawiki>\n"
    )
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// Builds one pass of files with these names and contents.
fn build_of(files: &[(&str, &[u8])], change: fn(BuildConfig) -> BuildConfig) -> Result<BuildOutcome, Error> {
    let folder = TempDir::new().unwrap();
    let inputs: Vec<_> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
    files.iter().zip(&inputs).for_each(|((_, bytes), path)| std::fs::write(path, bytes).unwrap());
    let paths: Vec<&Path> = inputs.iter().map(AsRef::as_ref).collect();
    let base = config(&paths, &small_vocabulary(folder.path()), &folder.path().join("out"));
    let mut outcome = run(&change(BuildConfig { dupe_factor: 1, preview: 100, ..base }))?;
    outcome.output = folder.keep();
    Ok(outcome)
}

/// Returns the report's figures and the instances that two builds must share.
fn content(outcome: &BuildOutcome) -> (u64, u64, u64, Vec<String>) {
    let report = &outcome.manifest.report;
    (report.documents, report.sentences, report.tokens, outcome.preview.clone())
}

#[test]
fn articles_of_a_dump_are_documents() {
    let dump = dump(PAGES, "cs");
    let outcome =
        build_of(&[("cswiki-pages-articles.xml.bz2", &bzip2(dump.as_bytes()))], |config| config).unwrap();
    let text = "The cat sat on the mat. The dog ran.\nIt is far away.\n\nThe sun is hot. Is it hot?\n";
    let split = |config| BuildConfig { split_sentences: true, ..config };
    let plain = build_of(&[("a.txt", text.as_bytes())], split).unwrap();
    assert_eq!(content(&outcome), content(&plain));
    let (manifest, input) = (&outcome.manifest, &outcome.manifest.inputs[0]);
    assert_eq!((manifest.report.redirects, manifest.report.other_pages), (1, 2));
    assert_eq!((input.format, input.lines), (Format::WikiDump, 2));
    assert_eq!(input.dump.as_ref().map(|dump| dump.language.as_str()), Some("cs"));
    assert_eq!((&manifest.config.language, &manifest.config.text_column), (&None, &None));
    assert!(manifest.report.to_string().contains("redirects left out"));
}

/// Returns a text in UTF-16 with a byte-order mark.
fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(order).collect()
}

#[test]
fn encodings_and_streams_give_the_same_articles() {
    let dump = dump(PAGES, "en");
    let bytes = dump.as_bytes();
    let plain = content(&build_of(&[("a.xml", bytes)], |config| config).unwrap());
    let [little, big] = [u16::to_le_bytes, u16::to_be_bytes].map(|order| utf16(&dump, order));
    let (head, tail) = bytes.split_at(dump.find("  <page>").unwrap());
    let multistream = [bzip2(head), bzip2(tail)].concat();
    let declared = ["\u{feff}<?xml version=\"1.0\"?>\n<!-- a dump -->\n".as_bytes(), bytes].concat();
    for dump in [&little, &big, &multistream, &bzip2(&little), &declared] {
        assert_eq!(content(&build_of(&[("a", dump)], |config| config).unwrap()), plain);
    }
}

#[test]
fn language_of_the_header_is_used_unless_given() {
    // "bzw." ends no sentence in German only.
    let page = "<page><ns>0</ns><revision><text>the cat bzw. The dog ran. the sun.</text></revision></page>"
        .repeat(3);
    let sentences = |language: &str, change| {
        let files = dump(&page, language);
        build_of(&[("a.xml", files.as_bytes())], change).unwrap().manifest.report
    };
    let german = |config| BuildConfig { language: Some("de".to_owned()), ..config };
    let english = sentences("en", |config| config).sentences;
    let by_header = sentences("de", |config| config).sentences;
    assert!(by_header < english, "{by_header} and {english}");
    assert_eq!(sentences("en", german).sentences, by_header);
    let unknown = sentences("xx", |config| config);
    assert_eq!(unknown.sentences, english);
    assert!(
        unknown.warnings.iter().any(|warning| warning.contains("3 article(s) of a.xml")),
        "{:?}",
        unknown.warnings
    );
}

#[test]
fn parts_and_threads_give_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    for number in 0..5 {
        std::fs::write(at(&format!("p{number}.xml")), dump(&PAGES.repeat(20 + number), "en")).unwrap();
    }
    let vocab = small_vocabulary(folder.path());
    let input = at("p*.xml");
    let build = |output: &str, threads| {
        let base = config(&[&input], &vocab, &at(output));
        BuildConfig { num_shards: Some(3), dupe_factor: 2, threads, ..base }
    };
    let whole = run(&build("one", 1)).unwrap();
    for part in 1..=2 {
        let part = BuildConfig { part: Some(part), parts: Some(2), ..build("parts", 3) };
        bert_data::tokenize_part(&part, &mut |_| {}).unwrap();
    }
    for part in 1..=2 {
        build_part(&BuildConfig { part: Some(part), parts: Some(2), ..build("parts", 3) }, &mut |_| {})
            .unwrap();
    }
    merge(&at("parts"), &mut |_| {}).unwrap();
    assert_eq!(shards(&whole).len(), 3);
    for shard in 0..3 {
        let name = format!("train-{shard:05}-of-00003.parquet");
        let read = |output: &str| std::fs::read(at(output).join(&name)).unwrap();
        assert!(read("one") == read("parts"), "{name}");
    }
}

#[test]
fn damaged_dumps_are_rejected() {
    let whole = dump(PAGES, "en");
    let cut = whole.replace("</mediawiki>", "");
    let crossed = whole.replace("</revision></page>", "</page></revision>");
    for (bytes, expected) in [
        (cut.as_bytes(), "a.xml: the dump ends after page 5 without </mediawiki>"),
        (&whole.as_bytes()[..whole.len() / 2], "a.xml: the dump ends after page"),
        (crossed.as_bytes(), "a.xml: after page 0 of the dump: not well-formed XML"),
        (&bzip2(whole.as_bytes())[..300], "a.xml: damaged bzip2 data"),
    ] {
        let error = build_of(&[("a.xml", bytes)], |config| config).unwrap_err();
        assert!(error.to_string().starts_with(expected) || error.to_string().contains(expected), "{error}");
        assert_eq!(error.exit_code(), 3);
    }
    let column = |config| BuildConfig { text_column: "body".to_owned(), ..config };
    let error = build_of(&[("a.xml", whole.as_bytes())], column).unwrap_err();
    assert!(error.to_string().starts_with("`.text_column` cannot be used with these inputs"), "{error}");
}

#[test]
fn joined_dumps_are_read_with_their_own_headers() {
    let page = "<page><ns>0</ns><revision><text>the cat bzw. The dog ran. the sun.</text></revision></page>";
    let english = dump(&page.repeat(3), "en");
    let german = dump(&page.repeat(2), "de");
    let report = |text: &str| {
        build_of(&[("a.xml", text.as_bytes())], |config| config).map(|outcome| outcome.manifest.report)
    };
    let sentences = |text: &str| report(text).unwrap().sentences;
    for both in [format!("{english}{german}"), format!("{german}{english}")] {
        assert_eq!(report(&both).unwrap().documents, 5);
        assert_eq!(sentences(&both), sentences(&english) + sentences(&german));
    }
    let cut = german.replace("</mediawiki>", "");
    let error = report(&format!("{english}{cut}")).unwrap_err();
    assert!(error.to_string().contains("a.xml: the dump ends after page 5 without </mediawiki>"), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn output_of_wikiextractor_is_documents() {
    let documents = "<doc id=\"1\" url=\"u\" title=\"Cat &amp; dog\">\nCat &amp; dog\n\nThe cat sat. The dog ran.\nIt is &lt; far.\n\n</doc>\n\
                     <doc id=\"2\" url=\"u\" title=\"Sun\">\nThe sun is hot. Is it hot?\n</doc>\n";
    let outcome = build_of(&[("wiki_00.bz2", &bzip2(documents.as_bytes()))], |config| config).unwrap();
    let text = "The cat sat. The dog ran.\nIt is < far.\n\nThe sun is hot. Is it hot?\n";
    let split = |config| BuildConfig { split_sentences: true, ..config };
    assert_eq!(content(&outcome), content(&build_of(&[("a.txt", text.as_bytes())], split).unwrap()));
    assert_eq!(outcome.manifest.inputs[0].format, Format::DocTags);
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        let encoded = build_of(&[("wiki_00", &utf16(documents, order))], |config| config).unwrap();
        assert_eq!(content(&encoded), content(&outcome));
    }
    for (bytes, expected) in [
        (
            documents.replace("</doc>\n<doc", "</doc>\nstray\n<doc"),
            "a:8: this text is outside of the <doc> tags",
        ),
        (
            documents.trim_end().trim_end_matches("</doc>").to_owned(),
            "a:8: the document that begins here has no </doc>",
        ),
        (documents.replacen("</doc>", "", 1), "a:1: the document that begins here has no </doc>"),
    ] {
        let error = build_of(&[("a", bytes.as_bytes())], |config| config).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
