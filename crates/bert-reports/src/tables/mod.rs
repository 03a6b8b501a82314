//! Tables in Parquet: hidden states and attention weights.

mod attention;
mod features;

pub use crate::tables::attention::write_attention_parquet;
pub use crate::tables::features::write_features_parquet;
