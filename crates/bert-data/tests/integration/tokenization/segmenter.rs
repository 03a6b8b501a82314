//! Whole Chinese words: their boundaries, unchanged ids, and masks over whole words.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, ListArray, RecordBatch};
use bert_data::{
    BuildConfig, DataSet, IdSpace, Layout, Manifest, Masking, RandomMode, Row, RowMasker, Segmenter,
    ShardRows, Tokenizer, Vocabulary, number_to_predict, read_shard, verify,
};
use bert_tokenization::ChineseSegmenter;

use crate::support::{config, documents_of, golden, loader_rows, run, shards, shared, sorted_rows};

const SENTENCES: [&str; 8] = [
    "我们在南京市长江大桥看见一只小鸟。",
    "中国科学院的研究人员昨天发表了新的报告！",
    "他用iPhone手机给北京大学打电话，花了20元钱。",
    "经济发展需要时间，也需要大家共同努力。",
    "学生们喜欢在图书馆里读历史书。",
    "今天天气很好，我们去公园散步吧？",
    "这个问题的答案其实非常简单。",
    "科学家认为地球的气候正在发生变化。",
];

struct World {
    folder: tempfile::TempDir,
    config: BuildConfig,
}

/// Returns a text over [`SENTENCES`], whose vocabulary lacks 鸟 and has the pieces of `iphone`.
fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for document in 0..40 {
        for line in 0..3 + document % 6 {
            text += SENTENCES[(document * 5 + line * 3) % 8];
            text += "\n";
        }
        text += "\n";
    }
    std::fs::write(folder.path().join("text.txt"), text).unwrap();
    let mut characters: Vec<char> =
        SENTENCES.concat().chars().filter(|c| !c.is_ascii() && *c != '鸟').chain("森林".chars()).collect();
    characters.sort_unstable();
    characters.dedup();
    let mut tokens: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from).to_vec();
    tokens.extend(["i", "##phone", "20", "2", "##0"].map(String::from));
    tokens.extend(characters.into_iter().map(String::from));
    let vocab = folder.path().join("vocab.txt");
    std::fs::write(&vocab, tokens.join("\n") + "\n").unwrap();
    let config = BuildConfig {
        max_seq_length: 48,
        max_predictions_per_seq: Some(7),
        dupe_factor: 2,
        do_whole_word_mask: true,
        segmenter: Segmenter::Chinese,
        ..config(&[&folder.path().join("text.txt")], &vocab, &folder.path().join("data"))
    };
    World { folder, config }
}

impl World {
    fn vocabulary(&self) -> Vocabulary {
        Vocabulary::read(self.config.vocab.as_ref().unwrap()).unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with(&self, name: &str, change: impl FnOnce(&mut BuildConfig)) -> BuildConfig {
        let mut config = BuildConfig { output: Some(self.at(name)), ..self.config.clone() };
        change(&mut config);
        config
    }
}

/// Returns the words of a line: tokens joined with `|` between them.
fn words(line: &str, vocabulary: &Vocabulary, tokenizer: &Tokenizer) -> String {
    let (mut ids, mut out) = (Vec::new(), String::new());
    tokenizer.encoder().encode(line, &mut ids);
    for id in ids {
        let (id, continues) = marks(vocabulary).unmarked(id);
        let token = vocabulary.token(id);
        if !out.is_empty() && !continues && !token.starts_with("##") {
            out.push('|');
        }
        out += token.trim_start_matches("##");
    }
    out
}

#[test]
fn segmenter_word_boundaries() {
    let world = world();
    let vocabulary = world.vocabulary();
    let tokenizer = Tokenizer::new(&vocabulary, true).with_segmenter(ChineseSegmenter::default());
    for (line, expected) in [
        // The rare character is [UNK], but still part of its word.
        ("我们在南京市长江大桥看见一只小鸟。", "我们|在|南京市|长江大桥|看见|一只|小[UNK]|。"),
        // Letters and digits form separate words, and pieces stay with their word.
        ("他用iPhone手机，花了20元钱。", "他|用|iphone|手机|，|花|了|20|元|钱|。"),
        // Space and punctuation end a word.
        ("中国 科学院", "中国|科学院"),
        ("中国科学院", "中国科学院"),
        ("科 学 院", "科|学|院"),
        ("大。家", "大|。|家"),
        // Dropped characters do not: a zero-width space, a control character, U+FFFD.
        ("我\u{200b}们在\u{1}南\u{fffd}京\u{ad}市", "我们|在|南京市"),
        // A compatibility ideograph is normalized as by the tokenizer.
        ("森\u{f9f4}", "森林"),
        ("", ""),
        ("们", "们"),
    ] {
        assert_eq!(words(line, &vocabulary, &tokenizer), expected, "{line}");
    }
    // An encoder caches words, not their positions.
    let mut encoder = tokenizer.encoder();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    encoder.encode("我们 们", &mut first);
    encoder.encode("我们 们", &mut again);
    assert_eq!(first, again);
    assert_eq!(marks(&vocabulary).unmarked(first[1]), (first[2], true));
}

#[test]
fn segmenter_does_not_change_token_ids() {
    let read = |name| std::fs::read_to_string(golden(name)).unwrap();
    assert_only_marked(&golden("vocab-chinese.txt"), &[read("chinese.txt"), read("odd.txt")], 0.1..0.6);
}

#[test]
#[ignore = "needs ../shared"]
fn segmenter_does_not_change_corpus_ids() {
    let data = shared().join("data");
    let news = std::fs::read_to_string(data.join("corpora/zh_news_sample.txt")).unwrap();
    let wiki = std::fs::File::open(data.join("corpora/zhwiki-sentences.txt.zst")).unwrap();
    let wiki = String::from_utf8(zstd::decode_all(wiki).unwrap()).unwrap();
    assert_only_marked(&data.join("vocab/bert-base-chinese-vocab.txt"), &[news, wiki], 0.3..0.6);
}

/// Checks for the same ids in the same positions, with marks on ideographs only.
fn assert_only_marked(vocab: &Path, texts: &[String], expected_share: std::ops::Range<f64>) {
    let vocabulary = Vocabulary::read(vocab).unwrap();
    let plain = Tokenizer::new(&vocabulary, true);
    let marked = plain.clone().with_segmenter(ChineseSegmenter::default());
    let (mut encoder, mut marking) = (plain.encoder(), marked.encoder());
    let (mut tokens, mut continuing) = (0u64, 0u64);
    for line in texts.iter().flat_map(|text| text.lines()) {
        let (mut expected, mut ids) = (Vec::new(), Vec::new());
        encoder.encode(line, &mut expected);
        marking.encode(line, &mut ids);
        let found: Vec<u32> = ids.iter().map(|&id| marks(&vocabulary).unmarked(id).0).collect();
        assert_eq!(found, expected, "{line}");
        for (&id, &plain) in ids.iter().zip(&expected).filter(|(id, plain)| id != plain) {
            continuing += 1;
            let token = vocabulary.token(plain);
            let one = token == "[UNK]" || token.chars().count() == 1 && !token.is_ascii();
            assert!(one, "{token:?}, {id}");
        }
        assert_ne!(ids.first().map(|&id| marks(&vocabulary).unmarked(id).1), Some(true));
        tokens += ids.len() as u64;
    }
    let share = continuing as f64 / tokens as f64;
    assert!(expected_share.contains(&share), "{continuing} of {tokens} tokens go on with a word");
}

/// Returns the id space of a vocabulary, with word marks.
fn marks(vocabulary: &Vocabulary) -> IdSpace {
    IdSpace { vocabulary: vocabulary.len(), word_marks: true }
}

/// Returns the words of a row by `continues_word` and `##`: each a range of positions, none across a segment border.
fn words_of(row: Row<'_>, vocabulary: &Vocabulary) -> Vec<std::ops::Range<usize>> {
    let mut words: Vec<std::ops::Range<usize>> = Vec::new();
    let special = |id: u32| [vocabulary.cls_id(), vocabulary.sep_id()].contains(&id);
    for (at, &id) in row.input_ids.iter().enumerate() {
        if special(id) {
            continue;
        }
        let continues = row.continues_word[at] || vocabulary.token(id).starts_with("##");
        match words.last_mut() {
            Some(word) if continues && word.end == at => word.end += 1,
            _ => words.push(at..at + 1),
        }
    }
    words
}

#[test]
fn words_are_masked_whole_and_within_the_budget() {
    let world = world();
    let config = world.with("dynamic", |config| config.masking = Masking::Dynamic);
    let outcome = run(&config).unwrap();
    let vocabulary = world.vocabulary();
    let mut masker = RowMasker::new(&outcome.manifest, &vocabulary, 9).unwrap();
    let (mut longer, mut instance) = (0, 0);
    for rows in shards(&outcome) {
        for row in rows.iter() {
            assert_eq!(row.continues_word.len(), row.input_ids.len());
            let words = words_of(row, &vocabulary);
            let masked = masker.mask(row, 0, instance);
            let positions: Vec<usize> = masked.masked_lm_positions.iter().map(|&p| p as usize).collect();
            for word in words {
                let hidden = positions.iter().filter(|position| word.contains(position)).count();
                assert!(hidden == 0 || hidden == word.len(), "{hidden} of {word:?}");
                longer += usize::from(hidden > 1);
            }
            let most = number_to_predict(row.input_ids.len(), 0.15, 7);
            assert!((1..=most).contains(&positions.len()), "{} of {most}", positions.len());
            for (&position, &id) in positions.iter().zip(masked.masked_lm_ids) {
                assert_eq!(row.input_ids[position], id, "plain ids");
            }
            assert!(masked.input_ids.iter().all(|&id| (id as usize) < vocabulary.len()));
            instance += 1;
        }
    }
    assert!(longer > 100, "{longer}");
}

/// Rows with masks have plain ids, and the same text as a data set without a segmenter; every layout has the words.
#[test]
fn layouts_give_the_same_masks() {
    let world = world();
    let fixed = run(&world.with("static", |_| {})).unwrap();
    let dynamic = run(&world.with("dynamic", |config| config.masking = Masking::Dynamic)).unwrap();
    let without = run(&world.with("without", |config| {
        config.segmenter = Segmenter::None;
        config.masking = Masking::Dynamic;
    }))
    .unwrap();
    let unmasked = |row: Row<'_>| {
        let mut ids = row.input_ids.to_vec();
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            ids[position as usize] = id;
        }
        ids
    };
    let texts = |outcome| -> Vec<Vec<u32>> {
        shards(outcome).iter().flat_map(ShardRows::iter).map(unmasked).collect()
    };
    assert_eq!(texts(&fixed), texts(&dynamic));
    assert_eq!(texts(&without), texts(&dynamic));
    assert!(!shards(&fixed)[0].has_marks() && shards(&dynamic)[0].has_marks());
    assert!(!shards(&without)[0].has_marks());

    let documents = run(&world.with("documents", |config| {
        config.layout = Layout::Documents;
        config.dupe_factor = 10;
    }))
    .unwrap();
    for outcome in [&fixed, &dynamic, &without, &documents] {
        assert!(verify(&outcome.output, true).unwrap().is_good());
    }
    assert!(loader_rows(&documents, world.config.random_seed, 2) == sorted_rows(&fixed));
    let card = |outcome: &bert_data::BuildOutcome| {
        std::fs::read_to_string(outcome.output.join("README.md")).unwrap().contains("`continues_word`")
    };
    assert_eq!([&fixed, &dynamic, &without, &documents].map(card), [false, true, false, true]);
}

#[test]
fn segmenter_requires_whole_word_masking() {
    let world = world();
    let rejected = |change: &dyn Fn(&mut BuildConfig)| {
        let error = run(&world.with("rejected", change)).unwrap_err();
        assert!(error.to_string().contains("cannot be used with"), "{error}");
    };
    rejected(&|config| config.do_whole_word_mask = false);
    rejected(&|config| config.random = RandomMode::Reference);
    // Spans consist of whole words.
    run(&world.with("spans", |config| {
        config.do_whole_word_mask = false;
        config.max_ngram = 2;
    }))
    .unwrap();
}

fn write_rows(path: &Path, ids: &[&[i32]], marks: Vec<Option<Vec<Option<bool>>>>) {
    let lists = |rows: &[&[i32]]| -> ArrayRef {
        let rows = rows.iter().map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
    };
    let lengths: Vec<usize> = marks.iter().map(|row| row.as_ref().map_or(0, Vec::len)).collect();
    let values: BooleanArray = marks.into_iter().flatten().flatten().collect();
    let item = arrow_schema::Field::new("element", arrow_schema::DataType::Boolean, true);
    let offsets = arrow_buffer::OffsetBuffer::from_lengths(lengths);
    let marks: ArrayRef = Arc::new(ListArray::new(Arc::new(item), offsets, Arc::new(values), None));
    let sentences: Vec<Vec<i32>> = ids.iter().map(|row| vec![row.len() as i32]).collect();
    let sentences: Vec<&[i32]> = sentences.iter().map(Vec::as_slice).collect();
    let columns =
        [("input_ids", lists(ids)), ("sentence_lengths", lists(&sentences)), ("continues_word", marks)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn invalid_word_boundaries_are_found() {
    let world = world();
    let path = world.at("foreign.parquet");
    let manifest = |name, segmenter| {
        let documents = world.with(name, |config| {
            (config.segmenter, config.layout, config.dupe_factor) = (segmenter, Layout::Documents, 10);
        });
        run(&documents).unwrap().manifest
    };
    let (with, without) = (manifest("with", Segmenter::Chinese), manifest("without", Segmenter::None));
    let read = |marks| documents_of(if marks { &with } else { &without }, &path, 100);
    let some = |row: &[bool]| Some(row.iter().copied().map(Some).collect::<Vec<_>>());
    write_rows(&path, &[&[7, 8], &[9]], vec![some(&[false, true]), some(&[false])]);
    assert_eq!(read(true).unwrap().len(), 2);
    assert!(read(false).unwrap_err().text().starts_with("column "));
    write_rows(&path, &[&[7, 8], &[9]], vec![some(&[false, true]), some(&[false, true])]);
    assert_eq!(read(true).unwrap_err().text(), "row 1: 2 continues_word for 1 input_ids");
    write_rows(&path, &[&[7, 8], &[9]], vec![some(&[false, true]), Some(vec![None])]);
    assert_eq!(read(true).unwrap_err().text(), "row 1: column continues_word has a null");
}

/// Shards of a data set without a segmenter in place of shards with one, and vice versa.
#[test]
fn shards_of_another_segmenter_are_rejected() {
    let world = world();
    let marked = run(&world.with("dynamic", |config| config.masking = Masking::Dynamic)).unwrap();
    let plain = run(&world.with("plain", |config| {
        config.masking = Masking::Dynamic;
        config.segmenter = Segmenter::None;
    }))
    .unwrap();
    for (ours, theirs) in [(&marked, &plain), (&plain, &marked)] {
        let mut manifest: Manifest = ours.manifest.clone();
        manifest.shards.clone_from(&theirs.manifest.shards);
        let error = DataSet::from_manifest(&theirs.output, manifest.clone())
            .and_then(|data| data.read_rows(0))
            .unwrap_err();
        assert!(error.text().starts_with("column \"continues_word\" is "), "{error}");
        assert!(read_shard(&manifest.shard_path(&theirs.output, 0)).is_ok());
    }
}
