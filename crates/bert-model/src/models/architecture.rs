//! [`Architecture`]: how a BERT model, with or without a head, is built from a configuration.

use burn::module::Module;
use burn::tensor::Device;

use crate::config::BertConfig;
use crate::error::Error;
use crate::init::{Initialization, initialize};
use crate::models::bert::BertModel;

/// A model that is built from a configuration and loads a folder of weights, like a class of `transformers`.
pub trait Architecture: Module {
    /// The name under `architectures` in `config.json`: the class name in `transformers`, if there is such a class.
    const NAME: &'static str;

    /// Returns the modules with zeros in every table and matrix, to be filled later.
    fn zeroed(config: &BertConfig, device: &Device) -> Self;

    /// Returns the model with its encoder replaced by the result of `f`.
    #[must_use]
    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self;

    /// Returns a new model with the reference's initialization. Each parameter is a pure function of the seed and the
    /// parameter's name.
    fn new(config: &BertConfig, seed: u64, device: &Device) -> Self {
        let fresh = Self::initialized(config, Initialization::Reference, seed, device);
        fresh.expect("the reference's values fit every shape")
    }

    /// Returns a new model with the given initialization.
    ///
    /// # Errors
    /// Fails as [`initialize`] does.
    fn initialized(
        config: &BertConfig,
        initialization: Initialization<'_>,
        seed: u64,
        device: &Device,
    ) -> Result<Self, Error> {
        initialize(Self::zeroed(config, device), config, initialization, seed)
    }
}

impl Architecture for BertModel {
    const NAME: &'static str = "BertModel";

    fn zeroed(config: &BertConfig, device: &Device) -> Self {
        Self::with_zeros(config, device)
    }

    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self {
        f(self)
    }
}
