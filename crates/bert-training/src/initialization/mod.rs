//! Initial weights of a model: resolves its shape by name, and selects an initialization.

pub(crate) mod bigram_counts;
mod cached_fit;
mod fit_step;
pub(crate) mod log_bilinear;

use std::path::Path;

use bert_data::DataSet;
use bert_inference::StopFlag;
use bert_model::{BertConfig, Initialization, LogBilinear, Preset};
use bert_storage::{did_you_mean, exists};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::initialization::log_bilinear::{CountingEvent, log_bilinear};

/// The choice of initialization, as a flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum InitializationChoice {
    /// Truncated normal distribution, as in the paper.
    Reference,
    /// Two attention heads of the first layer attend to the previous and to the next token.
    PreviousNext,
    /// The same, with word embeddings from bigram counts of the training text.
    #[default]
    Bigram,
}

impl InitializationChoice {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::PreviousNext => "previous-next",
            Self::Bigram => "bigram",
        }
    }
}

/// Returns the shape of a model: one of the released sizes for a vocabulary of this size, or a `config.json`. If that
/// file has no `vocab_size`, the size of the vocabulary is used, and `note` receives a sentence about it.
///
/// # Errors
/// Fails when the name is neither, or the file cannot be read or is not a valid configuration.
pub fn named_model(name: &str, vocabulary: usize, note: &mut dyn FnMut(String)) -> Result<BertConfig, Error> {
    if let Ok(preset) = name.parse::<Preset>() {
        return Ok(BertConfig::preset(preset, vocabulary));
    }
    let path = Path::new(name);
    if !exists(path)? {
        // Published names have the form of bert-base-uncased.
        let size = name.trim_start_matches("bert-").split('-').next().unwrap_or(name);
        let similar = did_you_mean(size, ["tiny", "mini", "small", "medium", "base", "large"]);
        let reason = format!(
            "{name:?} is not a model size (tiny, mini, small, medium, base, large) and not a file{similar}"
        );
        return Err(Error::option("model", reason));
    }
    let (config, has_size) = BertConfig::read_for(path, vocabulary)?;
    if !has_size {
        note(format!("{name} has no vocab_size; the size of the vocabulary is used: {vocabulary}"));
    }
    Ok(config)
}

impl InitializationChoice {
    /// Returns this initialization for a model. If the initialization needs corpus counts, counts the texts of `sets`
    /// in proportion to their weights.
    ///
    /// # Errors
    /// Fails when a stop is requested, when a shard cannot be read or does not match the manifest, when the text has no
    /// words, or when the model's heads are too few or too narrow for the initialization.
    pub fn weights(
        self,
        sets: &[(DataSet, f64)],
        model: &BertConfig,
        seed: u64,
        stop: &StopFlag,
        on_event: &mut dyn FnMut(CountingEvent),
    ) -> Result<FreshWeights, Error> {
        match self {
            Self::Bigram => {
                let counts = log_bilinear(sets, model, seed, stop, on_event)?;
                Ok(FreshWeights { choice: self, counts: Some(counts) })
            }
            _ => FreshWeights::uncounted(self),
        }
    }
}

/// An initialization with the counts that it needs.
pub struct FreshWeights {
    choice: InitializationChoice,
    counts: Option<LogBilinear>,
}

impl FreshWeights {
    /// Returns an initialization that needs no text.
    ///
    /// # Errors
    /// Fails when the choice needs text.
    pub fn uncounted(choice: InitializationChoice) -> Result<Self, Error> {
        if choice == InitializationChoice::Bigram {
            let reason = "bigram needs a data folder whose text it can count".to_string();
            return Err(Error::option("initialization", reason));
        }
        Ok(Self { choice, counts: None })
    }

    /// Returns the choice.
    pub fn choice(&self) -> InitializationChoice {
        self.choice
    }

    /// Returns the initialization for a model.
    pub fn initialization(&self) -> Initialization<'_> {
        match (&self.counts, self.choice) {
            (Some(counts), _) => Initialization::Bigram(counts),
            (None, InitializationChoice::PreviousNext) => Initialization::PreviousNext,
            (None, _) => Initialization::Reference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn unreadable_configuration_is_not_an_unknown_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let error = |name: &str| named_model(name, 100, &mut |_| {}).unwrap_err();
        assert!(error(path.to_str().unwrap()).io_kind().is_some());
        assert_eq!(error("huge").setting(), Some("model"));
    }
}
