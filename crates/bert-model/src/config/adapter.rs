//! The configuration of an adapter or of LoRA.

use std::fmt::Display;

use serde_json::Value;

use crate::error::Error;

/// An adapter's form and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdapterConfig {
    /// Two dense layers with a bottleneck between them.
    Bottleneck {
        /// The position in the layer.
        form: BottleneckForm,
        /// The hidden size divided by the bottleneck width, at least 1.
        reduction_factor: f64,
    },
    /// Two low-rank matrices whose product is added to a projection's weight.
    Lora {
        /// The rank: columns of the first matrix, rows of the second.
        rank: usize,
        /// The product is multiplied by `alpha / rank`.
        alpha: f64,
    },
}

impl AdapterConfig {
    /// Returns the adapter's name in its library.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bottleneck { form, .. } => form.name(),
            Self::Lora { .. } => "lora",
        }
    }

    /// Checks that the sizes are valid for a model of this hidden size.
    ///
    /// # Errors
    /// Fails when a size is invalid; the error names the key of `adapter_config.json`.
    pub fn validate(&self, hidden_size: usize) -> Result<(), Error> {
        match *self {
            Self::Bottleneck { reduction_factor, .. }
                if !reduction_factor.is_finite() || reduction_factor < 1.0 =>
            {
                Err(adapter_config_error(
                    "reduction_factor",
                    format!("is {reduction_factor}, but must be at least 1"),
                ))
            }
            Self::Bottleneck { .. } => Ok(()),
            Self::Lora { rank, .. } if rank == 0 || rank > hidden_size => {
                let reason = format!("is {rank}, but must be from 1 to the hidden size of {hidden_size}");
                Err(adapter_config_error("r", reason))
            }
            Self::Lora { alpha, .. } if !(alpha > 0.0 && alpha.is_finite()) => {
                Err(adapter_config_error("lora_alpha", format!("is {alpha}, but must be above 0")))
            }
            Self::Lora { .. } => Ok(()),
        }
    }
}

/// Formats a number as Python does: an integer without a decimal point.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { (value as i64).into() } else { value.into() }
}

pub(crate) fn adapter_config_error(key: &str, reason: impl Display) -> Error {
    Error::model(format!("adapter configuration: `{key}` {reason}"))
}

/// Position of a bottleneck adapter in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BottleneckForm {
    /// After the feed-forward network, on its normalized output.
    Pfeiffer,
    /// After attention and after the feed-forward network, before their residuals.
    Houlsby,
    /// In parallel with the feed-forward network, on its input.
    Parallel,
}

impl BottleneckForm {
    /// Returns the name of this configuration in the `adapters` library.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pfeiffer => "seq_bn",
            Self::Houlsby => "double_seq_bn",
            Self::Parallel => "par_bn",
        }
    }

    /// Returns the default ratio of the hidden size to the bottleneck width.
    pub fn default_reduction_factor(self) -> f64 {
        match self {
            Self::Pfeiffer | Self::Houlsby => 16.0,
            Self::Parallel => 2.0,
        }
    }

    /// Returns true if there is also an adapter after attention.
    pub fn after_attention(self) -> bool {
        self == Self::Houlsby
    }

    /// Returns the factor that scales the adapter's output.
    pub(crate) fn scaling(self) -> f64 {
        match self {
            Self::Pfeiffer | Self::Houlsby => 1.0,
            Self::Parallel => 4.0,
        }
    }
}
