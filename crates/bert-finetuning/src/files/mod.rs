//! Files of the output folder: models, adapters and cards.

pub(crate) mod adapters;
pub(crate) mod folder;
pub mod model_card;
