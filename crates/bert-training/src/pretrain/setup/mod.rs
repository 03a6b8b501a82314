//! Opens a run: its data and model configuration, the initial weights, and the memory estimate.

pub(crate) mod estimate;
pub(crate) mod inputs;
pub(crate) mod starting_point;
