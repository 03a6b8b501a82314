//! Renders a model card: the `README.md` of a model folder, with a header for the Hugging Face Hub.
//!
//! <https://huggingface.co/docs/hub/model-cards> has the fields of the header. The scores are in its `model-index`. The
//! format has no field for a confidence interval, so the name of a score contains the interval.

use std::fmt::Write as _;
use std::path::Path;

use bert_pages::markdown::{plain, rows};
use bert_training::Error;

/// Statements about a model that only its author can make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardOptions {
    /// Language of the model, such as `de`.
    pub language: Option<String>,
    /// Licence, by its identifier on the Hugging Face Hub, such as `apache-2.0`.
    pub license: Option<String>,
    /// Name of the model on the Hub, such as `me/my-bert`, or its folder.
    pub name: Option<String>,
}

impl CardOptions {
    /// Checks that language and licence have the form of an identifier.
    ///
    /// # Errors
    /// Fails when one of them has a different form; the error names the flag.
    pub fn check(&self) -> Result<(), Error> {
        for (flag, value) in [("language", &self.language), ("license", &self.license)] {
            let valid = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
            };
            if let Some(value) = value.as_deref().filter(|value| !valid(value)) {
                let reason = format!("{value:?} is not an identifier such as en or apache-2.0");
                return Err(Error::option(flag, reason));
            }
        }
        Ok(())
    }

    /// Returns these statements; absent ones are taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            language: self.language.or(other.language),
            license: self.license.or(other.license),
            name: self.name.or(other.name),
        }
    }
}

/// The path of the model in the Python code of a card; replaced by the name of the model.
pub const MODEL_PATH: &str = "PATH";

/// Returns Python code that loads a model of this class of `transformers`.
pub fn python_usage(class: &str) -> String {
    format!(
        "from transformers import AutoTokenizer, {class}\n\ntokenizer = AutoTokenizer.from_pretrained(\"{MODEL_PATH}\")\n\
         model = {class}.from_pretrained(\"{MODEL_PATH}\")\n"
    )
}

/// The data of a card's scores.
#[derive(Debug, Default)]
pub struct CardDataset {
    /// Description, such as `dev of rte, 277 examples`.
    pub name: String,
    /// Identifier on the Hub, such as `glue`; `own-data` or `held-out-text` for data that are not on the Hub.
    pub id: String,
    /// Part of the data set on the Hub, such as `rte`.
    pub config: Option<String>,
    /// Split on the Hub, such as `validation`.
    pub split: Option<&'static str>,
}

/// Returns the language and the licence that the model card in a folder states; a statement that the card lacks is
/// `None`. If one of them does not have the form of an identifier, both are `None`.
pub fn stated_in(folder: &Path) -> CardOptions {
    let text = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let header =
        text.strip_prefix("---\n").and_then(|text| text.split_once("\n---")).map_or("", |(header, _)| header);
    let value = |key: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    };
    let stated = CardOptions { language: value("language"), license: value("license"), name: None };
    if stated.check().is_ok() { stated } else { CardOptions::default() }
}

/// A score of a card.
#[derive(Debug)]
pub struct CardScore {
    /// Name of the metric on the Hub, such as `accuracy`.
    pub metric: String,
    /// The score.
    pub value: f64,
    /// Name of the measured quantity, with its interval.
    pub name: String,
}

/// The content of a model card.
#[derive(Debug)]
pub struct Card {
    /// Name of the model, such as `bert-rte`.
    pub name: String,
    /// Folder of the model in the Python code, unless the options name the model.
    pub path: String,
    /// Library that loads the model, by its name on the Hub; `None` if only this workspace does.
    pub library: Option<&'static str>,
    /// Description of the weights, such as `a BERT pre-trained by masked LM`.
    pub model: String,
    /// Task of the model on the Hub, such as `fill-mask`; `None` if it has none there.
    pub task: Option<&'static str>,
    /// Language and licence as far as they are known.
    pub stated: CardOptions,
    /// The data of the scores.
    pub dataset: CardDataset,
    /// Scores; without any, the card says that there are none.
    pub scores: Vec<CardScore>,
    /// Description of the training text, in rows; empty if the text is unknown.
    pub text: Vec<(&'static str, String)>,
    /// Python code that loads the model from [`MODEL_PATH`].
    pub usage: String,
    /// Limits, one sentence each.
    pub limits: Vec<String>,
    /// Training settings.
    pub settings: Vec<(&'static str, String)>,
}

impl Card {
    /// Returns the card as Markdown. `options` take precedence over the statements of the card.
    pub fn render(&self, options: &CardOptions) -> String {
        let options = &options.clone().or(self.stated.clone());
        let mut out = self.header(options);
        let _ = write!(out, "\n# BERT\n\nThis folder has {}.\n", self.model);
        let licence = options.license.as_deref().unwrap_or("not stated");
        let language = options.language.as_deref().unwrap_or("not stated");
        let _ = write!(out, "\nLanguage: {language}. Licence: {licence}.\n");
        out.push_str("\n## Scores\n\n");
        if self.scores.is_empty() {
            out.push_str("No score was measured.\n");
        } else {
            let _ = writeln!(out, "On {}:\n\n| | |\n|---|---:|", plain(&self.dataset.name));
            let scores = self.scores.iter().map(|score| [plain(&score.name), format!("{:.4}", score.value)]);
            out.push_str(&rows(scores));
        }
        if !self.text.is_empty() {
            let _ = write!(out, "\n## Text\n\n| | |\n|---|---|\n{}", table(&self.text));
        }
        let path = options.name.as_deref().unwrap_or(&self.path);
        let path = serde_json::Value::from(path).to_string();
        let usage = self.usage.replace(&format!("\"{MODEL_PATH}\""), &path);
        let _ = write!(out, "\n## Usage\n\n```python\n{usage}```\n\n## Limits\n\n");
        self.limits.iter().for_each(|limit| out.push_str(&format!("- {limit}\n")));
        let _ = write!(out, "\n## Training\n\n| | |\n|---|---|\n{}", table(&self.settings));
        out
    }

    /// Returns the header in YAML. Every JSON string is a YAML string, so texts are quoted as in JSON.
    fn header(&self, options: &CardOptions) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = String::from("---\n");
        if let Some(library) = self.library {
            let _ = writeln!(out, "library_name: {library}");
        }
        if let Some(task) = self.task {
            let _ = writeln!(out, "pipeline_tag: {task}");
        }
        if let Some(language) = &options.language {
            let _ = writeln!(out, "language: {}", quoted(language));
        }
        if let Some(license) = &options.license {
            let _ = writeln!(out, "license: {license}");
        }
        out.push_str("tags:\n- bert\n");
        if let (Some(task), false) = (self.task, self.scores.is_empty()) {
            let CardDataset { name: dataset, id, config, split } = &self.dataset;
            let _ = write!(
                out,
                "model-index:\n- name: {}\n  results:\n  - task:\n      type: {task}\n    dataset:\n      name: {}\n      \
                 type: {id}\n",
                quoted(options.name.as_deref().unwrap_or(&self.name)),
                quoted(dataset)
            );
            let parts = [("config", config.as_deref()), ("split", *split)];
            for (key, value) in parts.into_iter().filter_map(|(key, value)| Some((key, value?))) {
                let _ = writeln!(out, "      {key}: {value}");
            }
            out.push_str("    metrics:\n");
            for CardScore { metric, value, name } in &self.scores {
                let _ = write!(
                    out,
                    "    - type: {metric}\n      value: {value:.6}\n      name: {}\n",
                    quoted(name)
                );
            }
        }
        out.push_str("---\n");
        out
    }
}

/// Returns the rows of a table. The values may come from files, so Markdown in them is escaped.
fn table(cells: &[(&str, String)]) -> String {
    rows(cells.iter().map(|(key, value)| [(*key).to_string(), plain(value)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = r#"---
library_name: transformers
pipeline_tag: fill-mask
language: "de"
license: mit
tags:
- bert
model-index:
- name: "my-bert"
  results:
  - task:
      type: fill-mask
    dataset:
      name: "held \"out\""
      type: held-out-text
      split: validation
    metrics:
    - type: accuracy
      value: 0.324000
      name: "masked LM accuracy"
---

# BERT

This folder has a BERT pre-trained by masked LM.

Language: de. Licence: mit.

## Scores

On held &quot;out&quot;:

| | |
|---|---:|
| masked LM accuracy | 0.3240 |

## Text

| | |
|---|---|
| files | a\|b.txt |

## Usage

```python
model = load("out/my-bert")
```

## Limits

- Short texts only.

## Training

| | |
|---|---|
| seed | 1 |
"#;

    fn card() -> Card {
        let score = CardScore { metric: "accuracy".into(), value: 0.324, name: "masked LM accuracy".into() };
        Card {
            name: "my-bert".into(),
            path: "out/my-bert".into(),
            library: Some("transformers"),
            model: "a BERT pre-trained by masked LM".into(),
            task: Some("fill-mask"),
            stated: CardOptions { language: Some("en".into()), ..CardOptions::default() },
            dataset: CardDataset {
                name: "held \"out\"".into(),
                id: "held-out-text".into(),
                config: None,
                split: Some("validation"),
            },
            scores: vec![score],
            text: vec![("files", "a|b.txt".into())],
            usage: "model = load(\"PATH\")\n".into(),
            limits: vec!["Short texts only.".into()],
            settings: vec![("seed", "1".into())],
        }
    }

    #[test]
    fn a_card_has_the_golden_text() {
        let options = CardOptions { language: Some("de".into()), license: Some("mit".into()), name: None };
        assert!(options.check().is_ok());
        assert_eq!(card().render(&options), GOLDEN);
        let named = CardOptions { name: Some("me/other".into()), ..options };
        let expected = GOLDEN.replace("\"my-bert\"", "\"me/other\"").replace("out/my-bert", "me/other");
        assert_eq!(card().render(&named), expected);
        let own = Card { library: None, task: None, ..card() }.render(&CardOptions::default());
        assert!(own.starts_with("---\nlanguage: \"en\"\n") && !own.contains("model-index"), "{own}");
    }

    #[test]
    fn language_and_licence_of_a_card_are_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(stated_in(folder.path()), CardOptions::default());
        let options = CardOptions { language: Some("de".into()), license: Some("mit".into()), name: None };
        std::fs::write(folder.path().join("README.md"), card().render(&options)).unwrap();
        assert_eq!(stated_in(folder.path()), options);
        std::fs::write(folder.path().join("README.md"), "language: de\n").unwrap();
        assert_eq!(stated_in(folder.path()), CardOptions::default());
    }

    #[test]
    fn a_card_claims_nothing_unknown() {
        let unknown = Card { scores: Vec::new(), stated: CardOptions::default(), ..card() };
        let unknown = unknown.render(&CardOptions::default());
        assert!(unknown.contains("Language: not stated. Licence: not stated."), "{unknown}");
        assert!(unknown.contains("No score was measured.") && !unknown.contains("model-index"), "{unknown}");
        assert!(!unknown.contains("license:") && !unknown.contains("language:"), "{unknown}");
        let broken = CardOptions { license: Some("my\nlicence".into()), ..CardOptions::default() };
        assert!(broken.check().is_err());
    }
}
