//! Files of options for `--config` and `--recipe`: TOML or JSON, flat or with a section for each program.
//!
//! A file has one of three forms. A saved output (`run.json`, `report.json`, `manifest.json`) has the options in
//! `config`. A file with sections has them in `[data]`, `[pretrain]` and `[finetune]`, which the other programs ignore.
//! Any other file has the options of one program at the top.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bert_data::Error;
use bert_storage::read_limited;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The sections, one for each program.
pub const SECTIONS: [&str; 3] = ["data", "pretrain", "finetune"];

/// Keys that a file may have in addition to the sections.
const DESCRIPTIONS: [&str; 2] = ["title", "about"];

/// The options of one program in a file.
pub struct OptionsFile {
    path: PathBuf,
    text: String,
    is_toml: bool,
    /// The key of the object that contains the options; `None` if they are at the top.
    inside: Option<&'static str>,
    /// The options by key.
    pub options: Map<String, Value>,
}

impl OptionsFile {
    /// Reads the options of the program with this section from a file, or from the file `saved_as` of a folder.
    ///
    /// # Errors
    /// Fails when the file cannot be read, when it is neither TOML nor JSON, or when it has sections and options
    /// outside of them.
    pub fn read(path: &Path, saved_as: &str, section: &'static str) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join(saved_as) } else { path.to_owned() };
        let bytes = read_limited(&path, MAX_BYTES).map_err(bert_storage::Error::io("read", &path))?;
        Ok(Self::parse(&path, String::from_utf8_lossy(&bytes).into_owned(), section)?)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Fails when the text is neither TOML nor JSON, or when it has sections and options outside of them.
    pub fn parse(path: &Path, text: String, section: &'static str) -> Result<Self, Error> {
        let is_toml = is_toml(path, &text);
        let mut file = Self { path: path.to_owned(), text, is_toml, inside: None, options: Map::new() };
        let mut all = parse_object(&file.path, &file.text, is_toml)?;
        if let Some(Value::Object(saved)) = all.remove("config") {
            (file.inside, file.options) = (Some("config"), saved);
            return Ok(file);
        }
        let is_section = |name: &&str| all.get(*name).is_some_and(Value::is_object);
        if !SECTIONS.iter().any(is_section) {
            file.options = all;
            return Ok(file);
        }
        let other =
            |key: &&String| !SECTIONS.contains(&key.as_str()) && !DESCRIPTIONS.contains(&key.as_str());
        if let Some(other) = all.keys().find(other) {
            let reason = format!("unknown field `{other}`: a file with sections has all options in them");
            return Err(file.at(other, &reason));
        }
        file.inside = Some(section);
        if let Some(Value::Object(own)) = all.remove(section) {
            file.options = own;
        }
        Ok(file)
    }

    /// Returns whether the file is a saved output, with its options in `config`.
    #[must_use]
    pub fn is_saved_output(&self) -> bool {
        self.inside == Some("config")
    }

    /// Returns the error for an option: its line and the reason.
    #[must_use]
    pub fn at(&self, key: &str, reason: &str) -> Error {
        let path: Vec<&str> = self.inside.into_iter().chain([key]).collect();
        let line =
            if self.is_toml { line_in_toml(&self.text, &path) } else { line_in_json(&self.text, &path) };
        match line {
            Some(line) => invalid(&self.path, &format!("line {line}: {reason}")),
            None => invalid(&self.path, reason),
        }
    }
}

/// Returns the error for an invalid file.
pub fn invalid(path: &Path, reason: &str) -> Error {
    Error::usage("not a valid configuration").at(path).because(serde_json::Error::custom(reason))
}

/// Returns whether a file is TOML: by its extension, else by its content.
fn is_toml(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => true,
        Some("json") => false,
        _ => !text.trim_start().starts_with('{'),
    }
}

/// Parses a file to an object.
///
/// # Errors
/// Fails when the text is not an object in TOML or JSON; the cause of the error names the line.
pub fn parse_object(path: &Path, text: &str, is_toml: bool) -> Result<Map<String, Value>, Error> {
    if !is_toml {
        let parsed = serde_json::from_str(text);
        return parsed.map_err(|source| Error::usage("not a valid configuration").at(path).because(source));
    }
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        invalid(path, &format!("line {line}: {}", error.message()))
    })
}

/// Returns the line of a position in a text, from 1.
fn line_at(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|&byte| byte == b'\n').count()
}

/// Returns the line of a key in TOML, given with the tables around it.
fn line_in_toml(text: &str, path: &[&str]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let (last, around) = path.split_last()?;
    for name in around {
        let (_, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
        let DeValue::Table(inner) = value.get_ref() else { return None };
        table = inner;
    }
    let (key, _) = table.iter().find(|(key, _)| key.get_ref() == last)?;
    Some(line_at(text, key.span().start))
}

/// Returns the line of the value of a key in JSON, given with the keys of the objects around it.
fn line_in_json(text: &str, path: &[&str]) -> Option<usize> {
    let mut inside = text;
    for name in path {
        let object: HashMap<String, &RawValue> = serde_json::from_str(inside).ok()?;
        inside = object.get(*name)?.get();
    }
    Some(line_at(text, inside.as_ptr() as usize - text.as_ptr() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<OptionsFile, String> {
        let parsed = OptionsFile::parse(Path::new(name), text.to_string(), "pretrain");
        parsed.map_err(|error| format!("{error}: {}", std::error::Error::source(&error).unwrap()))
    }

    #[test]
    fn forms_and_lines_are_found_in_toml_and_json() {
        for (name, text, line) in [
            ("a.toml", "# a comment\nsteps = 3\n", 2),
            ("a.toml", "title = 'x'\n[data]\ndupe_factor = 1\n[pretrain]\n\nsteps = 3\n", 6),
            ("a.json", "{\n \"steps\": 3 }", 2),
            ("a.json", "{ \"about\": \"x\",\n \"pretrain\": {\n \"steps\": 3 } }", 3),
            (
                "run.json",
                "{ \"steps\": 9,\n \"config\": { \"model\": { \"steps\": 1 },\n\n \"steps\": 3 } }",
                4,
            ),
            ("by-content", "{\n\n\"steps\": 3 }", 3),
            ("by-content", "\nsteps = 3", 2),
        ] {
            let file = parse(name, text).unwrap();
            assert_eq!(file.options["steps"], 3, "{name}: {text}");
            let error = std::error::Error::source(&file.at("steps", "wrong")).unwrap().to_string();
            assert_eq!(error, format!("line {line}: wrong"), "{name}: {text}");
        }
    }

    #[test]
    fn syntax_errors_have_their_line() {
        for (name, text, part) in [
            ("a.toml", "steps = 3\nmodel = tiny\n", "line 2: "),
            ("a.json", "{\n \"steps\": }", "line 2"),
            ("a.json", "steps = 3", "line 1"),
            ("a.toml", "steps = 3\n[pretrain]\nseed = 1", "line 1: unknown field `steps`"),
        ] {
            let error = parse(name, text).err().unwrap();
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
