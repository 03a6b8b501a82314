//! Reads the vocabulary and the settings of a tokenizer: `vocab.txt`, `tokenizer.json`, or a folder with one of them.
//!
//! Settings come from `tokenizer_config.json`, or if it lacks them, from the normalizer of `tokenizer.json`, as in
//! `transformers`. A tokenizer other than BERT's is rejected with the key that differs. `bert-model` writes these
//! files.

use std::path::{Path, PathBuf};

use bert_storage::{Error, Result, if_found, is_url, read_limited};
use serde_json::{Map, Value, json};

use crate::added_tokens::{added_by_config, added_by_older, added_tokens, check_search, declared_special};
use crate::basic::PartialSettings;
use crate::json_keys::{optional_bool, reject_others, reject_unless};
use crate::tokenizer_json;
use crate::vocabulary::{CLS, MASK, MAX_BYTES, PAD, SEP, UNK, Vocabulary};

/// The vocabulary file with one token per line.
const VOCAB: &str = "vocab.txt";
/// The format of the `tokenizers` library: the only one that current versions of `transformers` write.
const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
/// A second list of the special tokens, for older versions of `transformers`.
const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// The configuration of the model, which names the tokenizer's class in older folders.
const MODEL: &str = "config.json";
/// Tokens that older versions of `transformers` added to `vocab.txt`.
const ADDED: &str = "added_tokens.json";

/// Classes of `transformers` that split text as BERT's tokenizer does.
const CLASSES: [&str; 8] =
    ["Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "RetriBert", "Lxmert", "SqueezeBert"];
/// Generic classes whose behaviour is defined by `tokenizer.json`.
const GENERAL_CLASSES: [&str; 2] = ["PreTrainedTokenizerFast", "TokenizersBackend"];

/// A tokenizer's vocabulary, and the settings in its files.
#[derive(Clone, Debug)]
pub struct TokenizerFiles {
    /// The vocabulary.
    pub vocabulary: Vocabulary,
    /// The settings given in the files.
    pub stated: PartialSettings,
    /// The file that the vocabulary was read from.
    pub source: PathBuf,
    /// Whether that file is JSON rather than one token per line.
    pub is_json: bool,
}

impl TokenizerFiles {
    /// Reads a vocabulary file, a `tokenizer.json`, or a folder. In a folder `vocab.txt` takes precedence over
    /// `tokenizer.json`. A file with one of these names uses the settings of its folder.
    ///
    /// # Errors
    /// Fails when the vocabulary is missing, when a file cannot be read or used, when two files contradict each other,
    /// or when the tokenizer is not BERT's; the error names the file.
    pub fn read(path: &Path) -> Result<Self> {
        let (folder, source) = if path.is_dir() {
            let source = vocabulary_in(path).ok_or_else(|| {
                Error::model(
                    "this folder has no vocab.txt and no tokenizer.json, so it has no WordPiece vocabulary",
                )
                .at(path)
            })?;
            (Some(path), source)
        } else {
            (path.parent().filter(|_| has_name_of_a_folder(path)), path.to_owned())
        };
        let bytes = read_limited(&source, MAX_BYTES).map_err(Error::io("read vocabulary", &source))?;
        let file = |name| folder.map_or(Ok(None), |folder| object(&folder.join(name)));
        let in_file = |name| move |found: Error| found.at(folder.unwrap_or(Path::new("")).join(name));
        // Checked before the vocabulary: a tokenizer of a different kind may lack a required token.
        let config = file(CONFIG)?.unwrap_or_default();
        let special = file(SPECIAL_TOKENS)?.unwrap_or_default();
        let mut stated = settings_of_config(&config).map_err(in_file(CONFIG))?;
        check_names(&special).map_err(in_file(SPECIAL_TOKENS))?;
        if let Some(model) = file(MODEL).ok().flatten() {
            check_class(&model).map_err(in_file(MODEL))?;
        }
        let own = json_of(&source, &bytes)?;
        let is_json = own.is_some();
        let json_path = if is_json { source.clone() } else { source.with_file_name(TOKENIZER) };
        let tokenizer = own.map_or_else(|| file(TOKENIZER), |own| Ok(Some(own)))?;
        let described = tokenizer.as_ref().map(|json| Self::from_object(json, &json_path)).transpose()?;
        if let Some(described) = &described {
            stated = stated.agreed(described.stated).map_err(in_file(CONFIG))?;
        }
        let base = match &described {
            Some(described) if is_json => described.vocabulary.clone(),
            _ => Vocabulary::from_bytes(bytes, &source)?,
        };
        let mut added = added_tokens(&tokenizer.unwrap_or_default()).map_err(in_file(TOKENIZER))?;
        added.extend(added_by_config(&config).map_err(in_file(CONFIG))?);
        added.extend(added_by_older(&file(ADDED)?.unwrap_or_default(), &added).map_err(in_file(ADDED))?);
        for (json, name) in [(&config, CONFIG), (&special, SPECIAL_TOKENS)] {
            added.extend(declared_special(json, &base, &added).map_err(in_file(name))?);
        }
        let mut vocabulary = base.with_added(&added, &source)?;
        if let Some(Self { vocabulary: other, .. }) = described {
            vocabulary.max_word = other.max_word;
            same_tokens(&vocabulary, &other.with_added(&added, &source)?)
                .map_err(|found| found.at(&source))?;
        }
        Ok(Self { vocabulary, stated, is_json, source })
    }

    /// Parses the bytes of a `tokenizer.json`, or of a map of tokens to ids; `source` is named in errors. No other file
    /// is read.
    ///
    /// # Errors
    /// Fails when the bytes are not a JSON object, when they describe a tokenizer other than BERT's, or when the
    /// vocabulary cannot be used.
    pub fn from_json(bytes: &[u8], source: &Path) -> Result<Self> {
        Self::from_object(&parsed(without_mark(bytes), source)?, source)
    }

    fn from_object(json: &Map<String, Value>, source: &Path) -> Result<Self> {
        let stated = tokenizer_json::settings(json).map_err(|problem| problem.at(source))?;
        let mut vocabulary = tokenizer_json::vocabulary(json, source)?;
        vocabulary.max_word = tokenizer_json::max_word(json).map_err(|problem| problem.at(source))?;
        Ok(Self { vocabulary, stated, source: source.to_owned(), is_json: true })
    }

    /// Calls [`TokenizerFiles::read`] on a folder; returns `None` if it contains neither `vocab.txt` nor
    /// `tokenizer.json`.
    ///
    /// # Errors
    /// Fails as [`TokenizerFiles::read`] does.
    pub fn find(folder: &Path) -> Result<Option<Self>> {
        vocabulary_in(folder).map(|_| Self::read(folder)).transpose()
    }
}

/// Checks that `vocab.txt` and `tokenizer.json` give the same ids.
fn same_tokens(vocabulary: &Vocabulary, other: &Vocabulary) -> Result<(), Error> {
    let mut pairs = vocabulary.tokens().iter().zip(other.tokens()).enumerate();
    let difference = match pairs.find(|(_, (one, two))| one != two) {
        Some((id, (one, two))) => format!("`id {id}` is {one}, but {two}"),
        None if vocabulary.len() == other.len() => return Ok(()),
        None => format!("{} tokens, but {}", vocabulary.len(), other.len()),
    };
    Err(Error::model(format!("{difference} in {TOKENIZER}; correct or delete one of the two files")))
}

/// Returns the file of a folder that contains the vocabulary.
fn vocabulary_in(folder: &Path) -> Option<PathBuf> {
    [VOCAB, TOKENIZER].map(|name| folder.join(name)).into_iter().find(|path| path.exists())
}

/// Returns whether a file has a standard name in a tokenizer's folder, so that the files next to it belong to it.
fn has_name_of_a_folder(path: &Path) -> bool {
    !is_url(path) && path.file_name().is_some_and(|name| [VOCAB, TOKENIZER].iter().any(|ours| name == *ours))
}

/// Returns the bytes without a byte-order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

/// Parses the bytes of a file as a JSON object.
fn parsed(bytes: &[u8], path: &Path) -> Result<Map<String, Value>> {
    serde_json::from_slice(bytes).map_err(|error| Error::data("not a JSON object").because(error).at(path))
}

/// Returns the JSON object in a vocabulary file, or `None` if the file has one token per line.
fn json_of(path: &Path, bytes: &[u8]) -> Result<Option<Map<String, Value>>> {
    let text = without_mark(bytes);
    let named = path.extension().is_some_and(|end| end == "json");
    if !named && text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Ok(None);
    }
    match parsed(text, path) {
        // The file is a vocabulary whose first token begins with a brace.
        Err(_) if !named => Ok(None),
        object => object.map(Some),
    }
}

/// Returns the object of a JSON file, if the file exists.
fn object(path: &Path) -> Result<Option<Map<String, Value>>> {
    let bytes = if_found(read_limited(path, MAX_BYTES)).map_err(Error::io("read", path))?;
    bytes.map(|bytes| parsed(&bytes, path)).transpose()
}

/// Rejects a `tokenizer_class` whose tokenizer does not split text as BERT's does.
fn check_class(config: &Map<String, Value>) -> Result<(), Error> {
    let is_ours = |class: &str| {
        let name = class.strip_suffix("Fast").unwrap_or(class);
        GENERAL_CLASSES.contains(&class)
            || name.strip_suffix("Tokenizer").is_some_and(|name| CLASSES.contains(&name))
    };
    reject_unless(config, "tokenizer_class", |value| value.as_str().is_some_and(is_ours), "BertTokenizer")
}

/// Returns the settings in `tokenizer_config.json`; a tokenizer other than BERT's is rejected.
fn settings_of_config(config: &Map<String, Value>) -> Result<PartialSettings, Error> {
    check_class(config)?;
    check_names(config)?;
    // The tokenizer of Japanese models splits words with a dictionary such as MeCab's.
    let supported = [
        ("do_basic_tokenize", json!(true), "true"),
        ("word_tokenizer_type", json!("basic"), "basic"),
        ("subword_tokenizer_type", json!("wordpiece"), "wordpiece"),
        ("wordpieces_prefix", json!("##"), "##"),
    ];
    reject_others(config, &supported)?;
    let is_empty = |words: &Value| words.as_array().is_some_and(Vec::is_empty);
    reject_unless(config, "never_split", is_empty, "an empty list")?;
    Ok(PartialSettings {
        do_lower_case: optional_bool(config, "do_lower_case")?,
        strip_accents: optional_bool(config, "strip_accents")?,
        tokenize_chinese_chars: optional_bool(config, "tokenize_chinese_chars")?,
        split_special_tokens: optional_bool(config, "split_special_tokens")?,
    })
}

/// Rejects special tokens whose names differ from BERT's.
fn check_names(config: &Map<String, Value>) -> Result<(), Error> {
    let names = [
        ("unk_token", UNK),
        ("cls_token", CLS),
        ("sep_token", SEP),
        ("mask_token", MASK),
        ("pad_token", PAD),
    ];
    names.into_iter().try_for_each(|(key, token)| {
        // The value is a string, or an object that contains the string.
        let is_it = |value: &Value| value == token || value.get("content").is_some_and(|text| text == token);
        reject_unless(config, key, is_it, token)?;
        config.get(key).and_then(Value::as_object).map_or(Ok(()), check_search)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Tokenizer;
    use crate::basic::TokenizerSettings;

    const WORDS: [&str; 7] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "m\u{f6}chte", "a"];

    /// Creates a folder with these files. A string is written as text, any other value as JSON.
    fn folder(files: &[(&str, Value)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn tokenizer(normalizer: Value) -> Value {
        let vocab: Map<String, Value> =
            WORDS.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), Value::from(id))).collect();
        json!({
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 100, "vocab": vocab},
            "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "added_tokens": []
        })
    }

    fn rejection(files: &[(&str, Value)]) -> String {
        let error = TokenizerFiles::read(folder(files).path()).unwrap_err();
        assert_eq!(error.exit_code(), 4, "{error}");
        error.to_string()
    }

    #[test]
    fn settings_of_the_files_are_obeyed() {
        let normalizer = json!({
            "type": "BertNormalizer", "clean_text": true, "lowercase": true, "strip_accents": false,
            "handle_chinese_chars": false
        });
        let words = Value::from(WORDS.join("\n"));
        let config =
            json!({"do_lower_case": true, "strip_accents": false, "tokenizer_class": "BertTokenizerFast"});
        let json_only = folder(&[("tokenizer.json", tokenizer(normalizer.clone()))]);
        let both = folder(&[
            ("vocab.txt", words.clone()),
            ("tokenizer.json", tokenizer(normalizer)),
            ("tokenizer_config.json", config),
        ]);
        let do_lower_case = true;
        for path in [
            json_only.path().to_owned(),
            json_only.path().join("tokenizer.json"),
            both.path().to_owned(),
            both.path().join("vocab.txt"),
        ] {
            let read = TokenizerFiles::read(&path).unwrap();
            let strip_accents = Some(false);
            let expected = TokenizerSettings {
                do_lower_case,
                strip_accents,
                tokenize_chinese_chars: false,
                ..TokenizerSettings::default()
            };
            assert_eq!(read.stated.resolved(), expected, "{}", path.display());
            assert_eq!(read.vocabulary.tokens(), WORDS);
        }
        let plain = folder(&[("words", words)]);
        let read = TokenizerFiles::read(&plain.path().join("words")).unwrap();
        assert_eq!(read.stated, PartialSettings::default());
    }

    #[test]
    fn longer_words_than_the_file_states_are_unknown() {
        for (limit, expected) in [(6, "m\u{f6}chte"), (5, "[UNK]")] {
            let mut tokenizer = tokenizer(json!({"type": "BertNormalizer"}));
            tokenizer["model"]["max_input_chars_per_word"] = json!(limit);
            let json_only = folder(&[("tokenizer.json", tokenizer.clone())]);
            let both = folder(&[("vocab.txt", Value::from(WORDS.join("\n"))), ("tokenizer.json", tokenizer)]);
            for files in [json_only, both] {
                let vocabulary = TokenizerFiles::read(files.path()).unwrap().vocabulary;
                let mut ids = Vec::new();
                Tokenizer::new(&vocabulary, false).encode("m\u{f6}chte a", &mut ids);
                assert_eq!([0, 1].map(|at| vocabulary.token(ids[at])), [expected, "a"]);
            }
        }
    }

    /// Returns the tokens of a text with the tokenizer of these files.
    fn tokens(files: &[(&str, Value)], text: &str) -> Vec<String> {
        let read = TokenizerFiles::read(folder(files).path()).unwrap();
        let mut ids = Vec::new();
        Tokenizer::new(&read.vocabulary, read.stated.resolved()).encode(text, &mut ids);
        ids.into_iter().map(|id| read.vocabulary.token(id).to_owned()).collect()
    }

    #[test]
    fn special_tokens_are_found_if_the_files_say_so() {
        let mut marked = tokenizer(json!({"type": "BertNormalizer", "lowercase": true}));
        marked["added_tokens"] = json!([{"id": 7, "content": "[E1]", "special": true}]);
        let config = |split: bool| json!({"split_special_tokens": split});
        let files = |split| [("tokenizer.json", marked.clone()), ("tokenizer_config.json", config(split))];
        assert_eq!(tokens(&files(false), "a[SEP]a [E1]"), ["a", "[SEP]", "a", "[E1]"]);
        assert!(!tokens(&files(true), "a[SEP]a").contains(&"[SEP]".to_owned()));
        let read = TokenizerFiles::read(folder(&files(false)).path()).unwrap();
        assert_eq!(read.vocabulary.markers(), [7]);
        let map = json!({"additional_special_tokens": ["a"], "eos_token": "[SEP]"});
        let declared = [("vocab.txt", Value::from(WORDS.join("\n"))), ("special_tokens_map.json", map)];
        assert_eq!(TokenizerFiles::read(folder(&declared).path()).unwrap().vocabulary.markers(), [6]);
        let tokenizer = Tokenizer::new(&read.vocabulary, read.stated.resolved());
        let pieces = tokenizer.encode_with_offsets("a [SEP]a");
        let places: Vec<_> = pieces.iter().map(|piece| (piece.id, piece.start, piece.end)).collect();
        assert_eq!(places, [(6, 0, 1), (3, 2, 7), (6, 7, 8)]);
    }

    #[test]
    fn files_that_contradict_each_other_are_rejected() {
        let normalizer = json!({"type": "BertNormalizer", "lowercase": true});
        let words = |text: String| ("vocab.txt", Value::from(text));
        let json = ("tokenizer.json", tokenizer(normalizer));
        let cased = ("tokenizer_config.json", json!({"do_lower_case": false}));
        let message = rejection(&[json.clone(), cased]);
        assert!(message.contains("`do_lower_case` is false, but true in tokenizer.json"), "{message}");
        let message = rejection(&[json.clone(), words(WORDS.join("\n").replace("\na", "\nb"))]);
        assert!(message.contains("`id 6` is b, but a in tokenizer.json"), "{message}");
        // Without a value, accents are stripped if text is lower-cased.
        let cased = tokenizer(json!({"type": "BertNormalizer", "lowercase": false, "strip_accents": null}));
        let strips = json!({"strip_accents": true});
        let message = rejection(&[("tokenizer.json", cased), ("tokenizer_config.json", strips)]);
        assert!(message.contains("`strip_accents` is true, but false in tokenizer.json"), "{message}");
        let message = rejection(&[json, words(format!("{}\nnew", WORDS.join("\n")))]);
        let counts = format!("{} tokens, but {} in tokenizer.json", WORDS.len() + 1, WORDS.len());
        assert!(message.contains(&counts), "{message}");
    }

    #[test]
    fn other_tokenizers_are_rejected_by_key() {
        let bert_normalizer = || json!({"type": "BertNormalizer", "lowercase": true});
        let changed = |place: &str, value: Value| {
            let mut tokenizer = tokenizer(bert_normalizer());
            *tokenizer.pointer_mut(place).unwrap() = value;
            tokenizer
        };
        let special = |flag: &str| {
            changed("/added_tokens", json!([{"id": 3, "content": "[SEP]", "special": true, flag: true}]))
        };
        for (tokenizer, named) in [
            (changed("/model/type", json!("BPE")), "`type`"),
            (changed("/normalizer", json!({"type": "NFKC"})), "`normalizer`"),
            (changed("/normalizer", json!({"type": "BertNormalizer", "clean_text": false})), "`clean_text`"),
            // Neither of these normalizers cleans text.
            (changed("/normalizer", json!(null)), "`normalizer`"),
            (changed("/normalizer", json!({"type": "Lowercase"})), "`normalizer`"),
            (changed("/model/max_input_chars_per_word", json!(0)), "`max_input_chars_per_word`"),
            (changed("/pre_tokenizer/type", json!("Whitespace")), "`pre_tokenizer`"),
            (changed("/pre_tokenizer", json!(null)), "`pre_tokenizer`"),
            (changed("/added_tokens", json!({"id": 0})), "`added_tokens`"),
            (changed("/added_tokens", json!([{"id": "0", "content": "[PAD]"}])), "`added_tokens`"),
            (special("single_word"), "`single_word`"),
            (special("normalized"), "`normalized`"),
        ] {
            let message = rejection(&[("tokenizer.json", tokenizer)]);
            assert!(message.contains(named), "{message}");
        }
        for (config, named) in [
            (json!({"tokenizer_class": "BertJapaneseTokenizer"}), "BertJapaneseTokenizer"),
            (json!({"do_lower_case": "false"}), "`do_lower_case`"),
            (json!({"unk_token": {"content": "<unk>"}}), "`unk_token`"),
            (json!({"cls_token": {"content": "[CLS]", "single_word": true}}), "`single_word`"),
            (json!({"do_basic_tokenize": false}), "`do_basic_tokenize`"),
            (json!({"never_split": ["a"]}), "`never_split`"),
            (json!({"wordpieces_prefix": "@@"}), "`wordpieces_prefix`"),
            (json!({"additional_special_tokens": ["<new>"]}), "`additional_special_tokens`"),
            (json!({"bos_token": {"content": "a", "normalized": true}}), "`normalized`"),
            (json!({"added_tokens_decoder": {"6": {"content": 6}}}), "`added_tokens_decoder`"),
        ] {
            let files = [("vocab.txt", Value::from(WORDS.join("\n"))), ("tokenizer_config.json", config)];
            let message = rejection(&files);
            assert!(message.contains(named) && message.contains("tokenizer_config.json"), "{message}");
        }
    }

    #[test]
    fn added_words_are_rejected_and_special_ones_kept() {
        let added = |special: bool| {
            let mut tokenizer = tokenizer(json!({"type": "BertNormalizer"}));
            tokenizer["added_tokens"] = json!([{"id": 9, "content": "<new>", "special": special}]);
            tokenizer
        };
        let read = TokenizerFiles::read(folder(&[("tokenizer.json", added(true))]).path()).unwrap();
        assert_eq!((read.vocabulary.len(), read.vocabulary.id("<new>")), (10, Some(9)));
        assert!(rejection(&[("tokenizer.json", added(false))]).contains("<new>"));
        let words = Value::from(WORDS.join("\n"));
        let older = [("vocab.txt", words), ("added_tokens.json", json!({"neologism": 7}))];
        assert!(rejection(&older).contains("neologism"));
    }

    #[test]
    fn json_bytes_read_as_the_file() {
        let json = tokenizer(json!({"type": "BertNormalizer", "lowercase": false})).to_string();
        // The last of two ids of a token counts, as in Python.
        let twice = json.replace("\"a\":6", "\"a\":9,\"a\":6");
        assert_ne!(json, twice);
        for text in [json, twice] {
            let files = folder(&[("tokenizer.json", Value::from(format!("\u{feff}{text}")))]);
            let read = TokenizerFiles::read(files.path()).unwrap();
            let parsed = TokenizerFiles::from_json(text.as_bytes(), Path::new("tokenizer.json")).unwrap();
            assert_eq!((parsed.stated, parsed.is_json), (read.stated, read.is_json));
            assert_eq!(parsed.vocabulary.tokens(), read.vocabulary.tokens());
            assert_eq!(parsed.vocabulary.tokens(), WORDS);
        }
        let error = TokenizerFiles::from_json(b"[]", Path::new("x/tokenizer.json")).unwrap_err();
        assert!(error.to_string().starts_with("x/tokenizer.json"), "{error}");
    }

    #[test]
    fn a_map_of_tokens_is_a_vocabulary() {
        let map: Map<String, Value> =
            WORDS.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), Value::from(id))).collect();
        let files = folder(&[("vocab.json", Value::Object(map))]);
        let read = TokenizerFiles::read(&files.path().join("vocab.json")).unwrap();
        assert_eq!((read.vocabulary.tokens(), read.is_json), (&WORDS.map(String::from)[..], true));
    }
}
