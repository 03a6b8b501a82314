//! Renders a model card: the `README.md` of a model folder, with a header for the Hugging Face Hub.
//!
//! <https://huggingface.co/docs/hub/model-cards> has the fields of the header. A score is in its `model-index`; the
//! format has no field for an interval, so the name of a score contains it.

use std::fmt::Write as _;

use bert_pages::markdown::{plain, rows};

use crate::error::Error;

/// Statements about a model that only its author can make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardOptions {
    /// Language of the model, such as `de`.
    pub language: Option<String>,
    /// Licence, by its identifier on the Hugging Face Hub, such as `apache-2.0`.
    pub license: Option<String>,
}

impl CardOptions {
    /// Checks that both have the form of an identifier.
    ///
    /// # Errors
    /// [`Error::Configuration`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (flag, value) in [("language", &self.language), ("license", &self.license)] {
            let valid = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
            };
            if let Some(value) = value.as_deref().filter(|value| !valid(value)) {
                let reason = format!("{value:?} is no identifier such as en or apache-2.0");
                return Err(Error::Configuration { flag, reason });
            }
        }
        Ok(())
    }
}

/// A score of a card.
#[derive(Debug)]
pub(crate) struct CardScore {
    /// Name of the metric on the Hub, such as `accuracy`.
    pub(crate) metric: String,
    /// The score.
    pub(crate) value: f64,
    /// Name of the measured quantity, with its interval.
    pub(crate) name: String,
}

/// The content of a model card.
#[derive(Debug)]
pub(crate) struct Card {
    /// Description of the weights, such as `a BERT pre-trained by masked LM`.
    pub(crate) model: String,
    /// Task of the model on the Hub, such as `fill-mask`; `None` if it has none there.
    pub(crate) task: Option<&'static str>,
    /// Language as far as it is known.
    pub(crate) language: Option<String>,
    /// Name of the data of the scores.
    pub(crate) dataset: String,
    /// Scores; without any, the card says that there are none.
    pub(crate) scores: Vec<CardScore>,
    /// Description of the training text, in rows; empty if it is not known.
    pub(crate) text: Vec<(&'static str, String)>,
    /// Python code that loads the model from `PATH`.
    pub(crate) usage: String,
    /// Limits, one sentence each.
    pub(crate) limits: Vec<String>,
    /// Settings of the training.
    pub(crate) settings: Vec<(&'static str, String)>,
}

impl Card {
    /// Returns the card as Markdown.
    pub(crate) fn render(&self, options: &CardOptions) -> String {
        let mut out = self.header(options);
        let _ = write!(out, "\n# BERT\n\nThis folder has {}.\n", self.model);
        let licence = options.license.as_deref().unwrap_or("not stated");
        let language = options.language.as_ref().or(self.language.as_ref());
        let _ =
            write!(out, "\nLanguage: {}. Licence: {licence}.\n", language.map_or("not stated", |code| code));
        out.push_str("\n## Scores\n\n");
        if self.scores.is_empty() {
            out.push_str("No score was measured.\n");
        } else {
            let _ = writeln!(out, "On {}:\n\n| | |\n|---|---:|", plain(&self.dataset));
            let scores = self.scores.iter().map(|score| [plain(&score.name), format!("{:.4}", score.value)]);
            out.push_str(&rows(scores));
        }
        if !self.text.is_empty() {
            let _ = write!(out, "\n## Text\n\n| | |\n|---|---|\n{}", table(&self.text));
        }
        let _ = write!(out, "\n## Usage\n\n```python\n{}```\n\n## Limits\n\n", self.usage);
        self.limits.iter().for_each(|limit| out.push_str(&format!("- {limit}\n")));
        let _ = write!(out, "\n## Training\n\n| | |\n|---|---|\n{}", table(&self.settings));
        out
    }

    /// Returns the header in YAML. A JSON text is a YAML text, so texts are quoted as in JSON.
    fn header(&self, options: &CardOptions) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = String::from("---\nlibrary_name: transformers\n");
        if let Some(task) = self.task {
            let _ = writeln!(out, "pipeline_tag: {task}");
        }
        if let Some(language) = options.language.as_ref().or(self.language.as_ref()) {
            let _ = writeln!(out, "language: {}", quoted(language));
        }
        if let Some(license) = &options.license {
            let _ = writeln!(out, "license: {license}");
        }
        out.push_str("tags:\n- bert\n");
        if let (Some(task), false) = (self.task, self.scores.is_empty()) {
            let dataset = quoted(&self.dataset);
            let _ = write!(
                out,
                "model-index:\n- name: BERT\n  results:\n  - task:\n      type: {task}\n    dataset:\n      name: \
                 {dataset}\n      type: {dataset}\n    metrics:\n"
            );
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

/// Returns the rows of a table; the values may come from files.
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
- name: BERT
  results:
  - task:
      type: fill-mask
    dataset:
      name: "held \"out\""
      type: "held \"out\""
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
model = load("PATH")
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
            model: "a BERT pre-trained by masked LM".into(),
            task: Some("fill-mask"),
            language: Some("en".into()),
            dataset: "held \"out\"".into(),
            scores: vec![score],
            text: vec![("files", "a|b.txt".into())],
            usage: "model = load(\"PATH\")\n".into(),
            limits: vec!["Short texts only.".into()],
            settings: vec![("seed", "1".into())],
        }
    }

    #[test]
    fn a_card_has_the_golden_text() {
        let options = CardOptions { language: Some("de".into()), license: Some("mit".into()) };
        assert!(options.check().is_ok());
        assert_eq!(card().render(&options), GOLDEN);
    }

    #[test]
    fn a_card_claims_nothing_unknown() {
        let unknown = Card { scores: Vec::new(), language: None, ..card() }.render(&CardOptions::default());
        assert!(unknown.contains("Language: not stated. Licence: not stated."), "{unknown}");
        assert!(unknown.contains("No score was measured.") && !unknown.contains("model-index"), "{unknown}");
        assert!(!unknown.contains("license:") && !unknown.contains("language:"), "{unknown}");
        let broken = CardOptions { license: Some("my\nlicence".into()), language: None };
        assert!(broken.check().is_err());
    }
}
