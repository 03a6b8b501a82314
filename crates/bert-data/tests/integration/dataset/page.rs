//! The data card and the HTML page, whose content must be escaped.

use std::collections::HashSet;
use std::path::PathBuf;

use bert_data::page::page;
use bert_data::{BuildConfig, BuildOutcome, Masking, Nsp, Tokenizer, Vocabulary, verify};
use bert_pages::grouped;

use crate::support::{canonical, config, run, shards, small_text, small_vocabulary};

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

/// Names, words and text that would be markup if they were not escaped; some words are unknown.
fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("da<ta> & |co|");
    std::fs::create_dir(&path).unwrap();
    let text = path.join("te<b>xt`.txt");
    std::fs::write(&text, small_text(60) + "the 日 cat <script> sat\nthe dog & \"ran\"\n").unwrap();
    let vocab = small_vocabulary(folder.path());
    let evil = (0..40).map(|n| format!("<script>alert({n})</script>\n")).collect::<String>();
    std::fs::write(&vocab, std::fs::read_to_string(&vocab).unwrap() + &evil).unwrap();
    let config = BuildConfig {
        max_seq_length: 32,
        max_predictions_per_seq: Some(5),
        dupe_factor: 5,
        num_shards: Some(2),
        ..config(&[&text], &vocab, &path.join("out"))
    };
    World { folder, config }
}

/// Counts rows whose original tokens, border and label occurred before, in the simple way; and rows whose every column
/// did.
fn duplicates(outcome: &BuildOutcome) -> [usize; 2] {
    let (mut texts, mut rows) = (HashSet::new(), HashSet::new());
    let mut count = [0; 2];
    for row in shards(outcome).iter().flat_map(|rows| rows.iter()) {
        count[1] += usize::from(!rows.insert(canonical(row)));
        let mut ids = row.input_ids.to_vec();
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            ids[position as usize] = id;
        }
        count[0] += usize::from(!texts.insert((ids, row.segment_ids.to_vec(), row.next_sentence_label)));
    }
    count
}

/// The page has only the expected tags, all closed, and loads nothing.
fn assert_is_safe(page: &str) {
    let allowed = [
        "!doctype", "html", "meta", "title", "style", "h1", "h2", "p", "table", "tr", "td", "span", "br",
        "b", "div", "ul", "li", "th", "wbr",
    ];
    let mut open: Vec<&str> = Vec::new();
    for part in page.split('<').skip(1) {
        let tag = part.split('>').next().unwrap();
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        assert!(allowed.contains(&name), "<{tag}>");
        assert!(name == "meta" || !tag.contains("src"), "<{tag}>");
        assert!(!tag.contains("href") && !tag.contains(" on"), "<{tag}>");
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None if ["!doctype", "meta", "br", "wbr"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(
        !page.contains("http:")
            && !page.contains("https:")
            && !page.contains("url(")
            && !page.contains("@import")
    );
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_page_shows_masks_counts_and_duplicates_as_text() {
    let world = world();
    let outcome = run(&world.config).unwrap();
    let html = page(&outcome.output, 1000).unwrap();
    assert_is_safe(&html);
    assert!(html.contains("da&lt;ta&gt; &amp; |co|"));
    assert!(html.contains("&lt;script&gt;alert("), "random words are shown");
    for class in ["<span class=\"m\">", "<span class=\"k\">", "<span class=\"r\">"] {
        assert!(html.matches(class).count() > 1, "{class}");
    }
    assert!(html.contains("random next") && html.contains("actual next"));
    let report = &outcome.manifest.report;
    let share = 100.0 * report.random_next_fraction();
    let next = format!(
        "<td>random next</td><td class=\"n\">{}</td><td class=\"n\">{share:.1} %</td>",
        grouped(report.random_next)
    );
    assert!(html.contains(&next), "{next}");
    let grey = html.matches("<span class=\"s\">").count() as u64;
    assert_eq!(grey, report.instances * (1 + 3), "the label, [CLS] and two [SEP]");
    let counted = duplicates(&outcome).map(|count| grouped(count as u64));
    for (name, count) in
        ["instances with the text of an earlier one", "instances equal to an earlier one"].iter().zip(counted)
    {
        let value = format!("{count} of {}", grouped(report.instances));
        assert!(html.contains(&format!(">{name}</td><td class=\"n\">{value}")), "{name}: {value}");
    }
    assert!(duplicates(&outcome)[0] > 0, "five passes over little text repeat themselves");
    assert!(html.contains(&format!(" of {} tokens. The original words", grouped(report.instance_tokens))));
    let surroundings = html.split("<li>").skip(1).map(|item| item.split("</li>").next().unwrap());
    let words = surroundings.map(|words| words.split(' ').filter(|part| !part.starts_with("class=")).count());
    assert_eq!(words.max(), Some(8 + 1 + 8), "eight words on each side");
    assert!(html.contains("style=\"--share: 1.000\"") && !html.contains("--share: 1.001"), "the longest bar");
    assert!(html.contains("the <b class=\"r\">[UNK]</b> cat"));
    assert!(html.contains("<td>the</td>") && html.contains("25 to 26"));
    let few = page(&outcome.output, 2).unwrap();
    assert!(few.contains("<b>#1</b>") && !few.contains("<b>#2</b>"));
}

#[test]
fn unknown_tokens_are_counted() {
    let world = world();
    let vocabulary = Vocabulary::read(world.config.vocab.as_ref().unwrap()).unwrap();
    let mut ids = Vec::new();
    Tokenizer::new(&vocabulary, true)
        .encode(&std::fs::read_to_string(&world.config.input[0]).unwrap(), &mut ids);
    let unknown = ids.iter().filter(|&&id| id == vocabulary.unk_id()).count();
    let report = run(&world.config).unwrap().manifest.report;
    assert_eq!(report.unknown_fraction(), unknown as f64 / ids.len() as f64);
}

#[test]
fn duplicate_instances_print_a_warning() {
    let world = world();
    let text = world.folder.path().join("again.txt");
    std::fs::write(&text, "the cat sat\nthe dog ran\n\n".repeat(100)).unwrap();
    let build = |masking, name: &str| {
        let output = Some(world.folder.path().join(name));
        let outcome =
            run(&BuildConfig { input: vec![text.clone()], masking, output, ..world.config.clone() });
        page(&outcome.unwrap().output, 1).unwrap()
    };
    assert!(build(Masking::Static, "static").contains("equal an earlier one in every column. A smaller"));
    assert!(build(Masking::Dynamic, "dynamic").contains("have the text of an earlier one. More passes"));
    let varied =
        page(&run(&BuildConfig { dupe_factor: 1, ..world.config.clone() }).unwrap().output, 1).unwrap();
    assert!(!varied.contains("earlier one. "), "few rows repeat themselves");
}

#[test]
fn the_page_of_other_objectives() {
    let world = world();
    let build = |nsp, masking, name: &str| {
        let output = Some(world.folder.path().join(name));
        run(&BuildConfig { nsp, masking, output, ..world.config.clone() }).unwrap().output
    };
    let off = page(&build(Nsp::Off, Masking::Dynamic, "off"), 30).unwrap();
    assert_is_safe(&off);
    assert!(off.contains("one segment") && off.contains("epoch 0") && off.contains("<span class=\"m\">"));
    let sop = page(&build(Nsp::Sop, Masking::Static, "sop"), 30).unwrap();
    assert!(sop.contains("swapped") && sop.contains("in order") && !sop.contains("random next"));
}

#[test]
fn the_card_has_the_header_that_datasets_reads() {
    let world = world();
    let outcome = run(&world.config).unwrap();
    let path: PathBuf = outcome.output.join("README.md");
    let card = std::fs::read_to_string(&path).unwrap();
    let header = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: \"train-*.parquet\"\n";
    assert!(card.starts_with(header) && card[4..].contains("\n---\n"), "{card}");
    for part in
        ["`input_ids`", "list of int32", "1 when the second segment", &outcome.manifest.inputs[0].blake3]
    {
        assert!(card.contains(part), "{part}\n{card}");
    }
    assert!(card.contains(&format!("{} instances", outcome.manifest.instances)));
    assert!(card.contains("| masked tokens |"), "{card}");
    assert!(card.contains("te&lt;b&gt;xt\\`.txt") && !card.contains("<b>"), "{card}");
    // The user may edit it, and it is replaced only with the data set.
    std::fs::write(&path, "mine").unwrap();
    assert!(verify(&outcome.output, true).unwrap().is_good());
    let again = BuildConfig { masking: Masking::Dynamic, nsp: Nsp::Off, overwrite: true, ..world.config };
    run(&again).unwrap();
    let card = std::fs::read_to_string(&path).unwrap();
    assert!(card.contains("the loader draws new masks") && card.contains("there is one segment"), "{card}");
    assert!(!card.contains("| masked tokens |"), "counted only where masks are made: {card}");
}
