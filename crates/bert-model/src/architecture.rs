//! [`Architecture`]: how BERT, with any head or none, is made from a configuration.

use burn::module::Module;
use burn::tensor::Device;

use crate::config::BertConfig;
use crate::error::Error;
use crate::init::{Initialization, initialize};
use crate::model::BertModel;

/// A model that is made from a configuration and loads a folder of weights, as a class of `transformers` does.
pub trait Architecture: Module {
    /// The name under `architectures` in `config.json`: that of the class of `transformers`, where it has one.
    const NAME: &'static str;

    /// The modules with zeros in every table and matrix, to be filled.
    fn zeroed(config: &BertConfig, device: &Device) -> Self;

    /// The same with another encoder.
    #[must_use]
    fn map_encoder(self, f: impl FnOnce(BertModel) -> BertModel) -> Self;

    /// A fresh model with the reference's initial values. Each parameter is a pure function of `(seed, its name)`.
    fn new(config: &BertConfig, seed: u64, device: &Device) -> Self {
        let fresh = Self::initialized(config, Initialization::Reference, seed, device);
        fresh.expect("the reference's values fit every shape")
    }

    /// A fresh model with other initial values.
    ///
    /// # Errors
    ///
    /// As [`initialize`].
    fn initialized(
        config: &BertConfig,
        initialization: Initialization<'_>,
        seed: u64,
        device: &Device,
    ) -> Result<Self, Error> {
        initialize(Self::zeroed(config, device), config, initialization, seed)
    }
}
