//! Extracts the text from a JSON row, with the leniency of Python's `json`.
//!
//! Contrary to the standard, Python writes NaN and Infinity, Python and JavaScript write half of a surrogate pair if a
//! text was cut inside an emoji, and DuckDB accepts a comma after the last value. Such a row is repaired and parsed
//! again. Only the value of one key is read.

pub(crate) mod values;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use bert_storage::did_you_mean;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::{Error, Result, no_text};

/// Number of keys listed in the error for a missing key.
const KEYS: usize = 16;
/// Replacement for half of a surrogate pair: U+FFFD.
const REPLACED: &str = "\\ufffd";

/// The text of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonText {
    /// The text; `None` for a null.
    pub(crate) text: Option<String>,
    /// Whether the value is a list of sentences, which are the lines of the text.
    pub(crate) is_list: bool,
    /// Whether the row contained half of a surrogate pair, which was replaced.
    pub(crate) half_pair: bool,
}

/// Returns the text of one JSON row, `None` for a null; `path`, `line` and `column` are named in errors.
///
/// # Errors
/// Fails when the row is not an object, or when `column` is missing or not text.
pub fn json_text(json: &str, path: &Path, line: u64, column: &str) -> Result<Option<String>> {
    read_row(json, path, line, column).map(|row| row.text)
}

/// Returns the text as [`json_text`] does, whether it is a list, and whether half of a surrogate pair was replaced.
pub(crate) fn read_row(json: &str, path: &Path, line: u64, column: &str) -> Result<JsonText> {
    let mut found = find(json, column);
    let mut half_pair = false;
    if let Err(error) = found {
        let repaired = repaired(json);
        half_pair = repaired.half_pair;
        // If the repaired row fails too, report the first error, because its column is a column of the original row.
        found = match find(&repaired.json, column) {
            Ok(found) => Ok(found),
            Err(_) => Err(error),
        };
    }
    let found = found.map_err(|source| {
        Error::data("not a JSON object (expected one object per line)").because(source).at_line(path, line)
    })?;
    let problem = match found {
        KeyLookup::Text(text) => return Ok(JsonText { text, is_list: false, half_pair }),
        KeyLookup::List(sentences) => {
            return Ok(JsonText { text: Some(sentences), is_list: true, half_pair });
        }
        KeyLookup::Other(kind) => format!("is {kind}, expected text"),
        KeyLookup::Missing(keys) => {
            let similar = did_you_mean(column, keys.iter().map(|key| &**key));
            format!("is missing (keys: {}{similar}{})", listed(&keys), rows_within(json, column))
        }
    };
    Err(no_text(column, &problem).at_line(path, line))
}

/// Returns a hint about where the text is, if it is nested inside a row.
fn rows_within(json: &str, column: &str) -> String {
    let object: Map<String, Value> = serde_json::from_str(&repaired(json).json).unwrap_or_default();
    let is_plain = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let hint = object.iter().filter(|(key, _)| is_plain(key)).find_map(|(key, value)| match value {
        Value::Array(rows) if rows.first().is_some_and(Value::is_object) => {
            Some(format!("one object on each line is expected: jq -c '.{key}[]'"))
        }
        Value::Object(row) if row.contains_key(column) => {
            Some(format!("`.text_column` {key}.{column} reads the key inside of it"))
        }
        _ => None,
    });
    hint.map(|hint| format!("; {hint}")).unwrap_or_default()
}

/// Appends a sentence of a list as a line.
pub(crate) fn push_sentence(sentence: &str, lines: &mut String) {
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.extend(sentence.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
}

/// Returns the first names, separated by commas, and the number of the others.
pub(crate) fn listed(names: &[String]) -> String {
    let shown = |name: &String| match name.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", name[..end].escape_debug()),
        None => name.escape_debug().to_string(),
    };
    let mut list = names.iter().take(KEYS).map(shown).collect::<Vec<_>>().join(", ");
    if names.len() > KEYS {
        list += &format!(", and {} more", names.len() - KEYS);
    }
    list
}

fn find(json: &str, column: &str) -> serde_json::Result<KeyLookup> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = (&mut deserializer).deserialize_map(TextOf(column))?;
    deserializer.end().map(|()| found)
}

/// JSON after repair to conform to the standard.
pub(crate) struct Repaired<'a> {
    pub(crate) json: Cow<'a, str>,
    pub(crate) half_pair: bool,
}

/// Repairs JSON: NaN and infinite numbers become nulls, halves of surrogate pairs become U+FFFD, and commas before a
/// closing bracket become spaces.
pub(crate) fn repaired(json: &str) -> Repaired<'_> {
    let mut out = String::with_capacity(json.len());
    let mut half_pair = false;
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => {
                let (taken, halves) = copy_string(rest, &mut out);
                half_pair |= halves;
                taken
            }
            ',' if rest[1..].trim_start().starts_with(['}', ']']) => {
                out.push(' ');
                1
            }
            c if c.is_ascii_alphanumeric() || c == '-' || c == '+' => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
                let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
                let number = word.trim_start_matches(['-', '+']).to_ascii_lowercase();
                let is_odd = matches!(number.as_str(), "nan" | "inf" | "infinity");
                out.push_str(if is_odd { "null" } else { word });
                word.len()
            }
            c => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Repaired { json: out.into(), half_pair }
}

/// Copies the string at the start of some JSON. Returns its length in the input, and whether a half pair was replaced.
fn copy_string(json: &str, out: &mut String) -> (usize, bool) {
    let mut at = 1;
    let mut halves = false;
    out.push('"');
    while let Some(c) = json[at..].chars().next() {
        let rest = &json[at..];
        let taken = match (c, unit(rest)) {
            ('"', _) => {
                out.push('"');
                return (at + 1, halves);
            }
            ('\\', Some(0xd800..=0xdbff))
                if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            ('\\', Some(0xd800..=0xdfff)) => {
                (at, halves) = (at + 6, true);
                out.push_str(REPLACED);
                continue;
            }
            // Any other escaped character, often a quote or a backslash.
            ('\\', _) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => c.len_utf8(),
        };
        out.push_str(&rest[..taken]);
        at += taken;
    }
    (at, halves)
}

/// Parses an escape such as `\u00e9` at the start of a text and returns its UTF-16 code unit.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// The result of looking up a key in an object.
enum KeyLookup {
    /// The text; `None` for a null.
    Text(Option<String>),
    /// A list of sentences, as lines.
    List(String),
    /// A value that is not text; its type as a word.
    Other(&'static str),
    /// The key is missing; the object has these keys.
    Missing(Vec<String>),
}

/// Visitor that extracts one key of an object, or one at a path such as `doc.text`, and ignores the rest. The last value
/// of a repeated key wins, as in Python.
struct TextOf<'c>(&'c str);

impl<'de> Visitor<'de> for TextOf<'_> {
    type Value = KeyLookup;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyLookup, A::Error> {
        let mut found = None;
        let mut inside = None;
        let mut keys = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let rest = self.0.strip_prefix(key.as_str());
            match rest.map(|rest| (rest, rest.strip_prefix('.'))) {
                Some(("", _)) => found = Some(map.next_value_seed(AnyValue(None))?),
                Some((_, Some(path))) => {
                    inside = Some(map.next_value_seed(AnyValue(Some(path)))?);
                    keys.push(key);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    keys.push(key);
                }
            }
        }
        Ok(found.or(inside).unwrap_or(KeyLookup::Missing(keys)))
    }
}

/// Visitor of a value: the text itself, or an object with the text at a path.
struct AnyValue<'c>(Option<&'c str>);

impl AnyValue<'_> {
    fn other<E>(&self, kind: &'static str) -> Result<KeyLookup, E> {
        Ok(KeyLookup::Other(kind))
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = KeyLookup;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeyLookup, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = KeyLookup;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<KeyLookup, E> {
        match self.0 {
            None => Ok(KeyLookup::Text(Some(text.to_owned()))),
            Some(_) => self.other("in a text"),
        }
    }

    fn visit_unit<E>(self) -> Result<KeyLookup, E> {
        Ok(KeyLookup::Text(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<KeyLookup, E> {
        self.other("a truth value")
    }

    fn visit_i64<E>(self, _: i64) -> Result<KeyLookup, E> {
        self.other("a number")
    }

    fn visit_u64<E>(self, _: u64) -> Result<KeyLookup, E> {
        self.other("a number")
    }

    fn visit_f64<E>(self, _: f64) -> Result<KeyLookup, E> {
        self.other("a number")
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<KeyLookup, A::Error> {
        let mut sentences = String::new();
        let mut other = None;
        while let Some(found) = list.next_element_seed(AnyValue(self.0))? {
            match found {
                KeyLookup::Text(Some(text)) => push_sentence(&text, &mut sentences),
                KeyLookup::List(texts) => texts.lines().for_each(|text| push_sentence(text, &mut sentences)),
                KeyLookup::Text(None) => {}
                _ => other = Some("a list, but not of texts"),
            }
        }
        Ok(other.map_or(KeyLookup::List(sentences), KeyLookup::Other))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyLookup, A::Error> {
        if let Some(path) = self.0 {
            return TextOf(path).visit_map(map);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.other("an object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<JsonText> {
        read_row(json, Path::new("a.jsonl"), 3, "text")
    }

    #[test]
    fn rows_are_read_as_python_reads_them() {
        for json in [
            r#"{"score": NaN, "text": "a b"}"#,
            r#"{"text": "a b", "low": -Infinity, "high": [Infinity, 1e-5, {"x": inf}]}"#,
            r#"{"text": "a b", "list": [1, 2, ], }"#,
            "\t{\"n\": 123456789012345678901234567890, \"f\": 1e999, \"text\": \"a b\"}\r",
            r#"{"NaN": "NaN, ]", "text": 1, "text": "a b"}"#,
        ] {
            let row = read(json).unwrap();
            assert_eq!((row.text.as_deref(), row.half_pair), (Some("a b"), false), "{json}");
        }
        assert_eq!(read(r#"{"text": NaN}"#).unwrap().text, None, "what pandas writes for a missing text");
    }

    #[test]
    fn the_last_of_duplicate_keys_wins() {
        for (json, text) in [
            (r#"{"text": "a", "id": 1, "text": "b", "id": 2}"#, Some("b")),
            (r#"{"text": {"text": "a"}, "te\u0078t": "b"}"#, Some("b")),
            (r#"{"text": "a", "text": null}"#, None),
            (r#"{"text": "a", "n": NaN, "text": "\ud83d", "text": "b"}"#, Some("b")),
        ] {
            assert_eq!(read(json).unwrap().text.as_deref(), text, "{json}");
        }
        let error = read(r#"{"text": "a", "text": [1]}"#).unwrap_err();
        assert!(
            error.to_string().contains("a.jsonl:3: \"text\" is a list, but not of texts, expected text"),
            "{error}"
        );
    }

    #[test]
    fn lists_are_sentences_and_paths_lead_inside() {
        let at = |json: &str, column: &str| {
            read_row(json, Path::new("a.jsonl"), 3, column).map(|row| (row.text, row.is_list))
        };
        let list = (Some("a b.\nc d.".to_owned()), true);
        for (json, column) in [
            (r#"{"text": ["a b.", null, "c\nd."]}"#, "text"),
            (r#"{"doc": {"id": 1, "text": ["a b.", "c d."]}}"#, "doc.text"),
            (r#"{"doc": [{"text": "a b."}, {"text": "c d."}]}"#, "doc.text"),
        ] {
            assert_eq!(at(json, column).unwrap(), list, "{json}");
        }
        let text = |text: &str| (Some(text.to_owned()), false);
        assert_eq!(at(r#"{"doc": {"text": "a"}}"#, "doc.text").unwrap(), text("a"));
        assert_eq!(at(r#"{"doc": {"text": "a"}, "doc.text": "b"}"#, "doc.text").unwrap(), text("b"));
        assert!(at(r#"{"doc": "a"}"#, "doc.text").is_err() && at(r#"{"doc": {}}"#, "doc.text").is_err());
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced() {
        for (json, text) in [
            (r#"{"text": "a\ud83d b\\ud83d"}"#, "a\u{fffd} b\\ud83d"),
            (r#"{"text": "\udcb2\ud83d\ude00\ud83d"}"#, "\u{fffd}\u{1f600}\u{fffd}"),
            (r#"{"text": "\ud83d\ud83d\ude00\\\ud83d\n\u00e9"}"#, "\u{fffd}\u{1f600}\\\u{fffd}\n\u{e9}"),
            (r#"{"\ud83d": NaN, "text": "\uD83D"}"#, "\u{fffd}"),
        ] {
            let row = read(json).unwrap();
            assert_eq!((row.text.as_deref(), row.half_pair), (Some(text), true), "{json}");
        }
    }

    #[test]
    fn missing_keys_list_those_that_exist() {
        let message = |json: &str| read(json).unwrap_err().to_string();
        assert_eq!(
            message(r#"{"id": 1, "body\u001b": {"text": "x"}}"#),
            "a.jsonl:3: \"text\" is missing (keys: id, body\\u{1b}) (see `.text_column`)"
        );
        assert!(message("{}").contains("is missing (keys: )"));
        assert!(
            message(r#"{"n": NaN, "data": [{"text": "x"}]}"#)
                .contains("(keys: n, data; one object on each line")
        );
        assert!(message(r#"{"data": [{"text": "x"}]}"#).contains("jq -c '.data[]'"));
        assert!(message(r#"{"id": 1, "doc": {"text": "x"}}"#).contains("`.text_column` doc.text"));
        let many: String = (0..40).map(|n| format!("\"k{n}\": {n}, ")).collect();
        assert!(message(&format!("{{{many}\"z\": 0}}")).contains("k15, and 25 more"));
    }

    #[test]
    fn what_is_not_json_keeps_its_column() {
        for json in
            ["{\"text\": \"a \"quote\" b\"}", "{\"text\": NaN", "[NaN]", "{\"a\": \"\\ud8\"}", "{\"a\": +}"]
        {
            let error = read(json).unwrap_err();
            assert!(error.to_string().contains("a.jsonl:3: not a JSON object"), "{error}");
        }
    }
}
