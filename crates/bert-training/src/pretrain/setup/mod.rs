//! Opens a run: its data and model configuration, the initial weights, the memory estimate, and the steps that fit a
//! time budget.

pub(crate) mod estimate;
pub(crate) mod inputs;
pub(crate) mod starting_point;
