//! Describes a fresh model: its shape by name, and the weights that it begins with.

use std::path::Path;

use bert_data::DataSet;
use bert_model::{BertConfig, Initialization, LogBilinear, Preset};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::log_bilinear::log_bilinear;
use crate::stop::StopFlag;

/// The initialization as a flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum InitializationChoice {
    /// A truncated normal, as in the paper.
    Reference,
    /// Two heads of the first layer look at the previous and at the next token.
    Neighbours,
    /// The same, and word embeddings begin with what counting the training text gives.
    #[default]
    Counts,
}

impl InitializationChoice {
    /// The word that selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Neighbours => "neighbours",
            Self::Counts => "counts",
        }
    }
}

/// Returns the shape of a model: one of the released sizes for a vocabulary of this size, or a `config.json`. Where that
/// file has no `vocab_size`, the size of the vocabulary is taken, and `note` gets a sentence about it.
///
/// # Errors
/// When the name is neither, or the file is no configuration.
pub fn named_model(name: &str, vocabulary: usize, note: &mut dyn FnMut(String)) -> Result<BertConfig, Error> {
    if let Ok(preset) = name.parse::<Preset>() {
        return Ok(BertConfig::preset(preset, vocabulary));
    }
    let path = Path::new(name);
    if !path.exists() {
        let reason = format!("{name:?} is neither tiny, mini, small, medium, base or large nor a file");
        return Err(Error::Configuration { flag: "model", reason });
    }
    let (config, has_size) = BertConfig::read_for(path, vocabulary)?;
    if !has_size {
        note(format!("{name} has no vocab_size: it is {vocabulary}, the size of the vocabulary"));
    }
    Ok(config)
}

/// An initialization with the counts that it needs.
pub struct FreshWeights {
    choice: InitializationChoice,
    counts: Option<LogBilinear>,
}

impl FreshWeights {
    /// Counts the text of a data set where the choice asks for it.
    ///
    /// # Errors
    /// When a shard cannot be read or is not what the manifest says.
    pub fn new(
        choice: InitializationChoice,
        data: &DataSet,
        model: &BertConfig,
        seed: u64,
    ) -> Result<Self, Error> {
        Self::new_unless_stopped(choice, data, model, seed, &StopFlag::new())
    }

    /// Does what [`FreshWeights::new`] does, until a stop is asked for.
    ///
    /// # Errors
    /// [`Error::Stopped`]; as [`FreshWeights::new`].
    pub fn new_unless_stopped(
        choice: InitializationChoice,
        data: &DataSet,
        model: &BertConfig,
        seed: u64,
        stop: &StopFlag,
    ) -> Result<Self, Error> {
        match choice {
            InitializationChoice::Counts => {
                Ok(Self { choice, counts: Some(log_bilinear(data, model, seed, stop)?) })
            }
            _ => Self::uncounted(choice),
        }
    }

    /// Weights that need no text.
    ///
    /// # Errors
    /// For the choice that does.
    pub fn uncounted(choice: InitializationChoice) -> Result<Self, Error> {
        if choice == InitializationChoice::Counts {
            let reason = "counts needs a data folder whose text it can count".to_string();
            return Err(Error::Configuration { flag: "initialization", reason });
        }
        Ok(Self { choice, counts: None })
    }

    /// Which they are.
    pub fn choice(&self) -> InitializationChoice {
        self.choice
    }

    /// What a model is initialized with.
    pub fn initialization(&self) -> Initialization<'_> {
        match (&self.counts, self.choice) {
            (Some(counts), _) => Initialization::Counts(counts),
            (None, InitializationChoice::Neighbours) => Initialization::Neighbours,
            (None, _) => Initialization::Reference,
        }
    }
}
