//! Measures a few steps: estimates the cost of a run, and finds how many steps fit into a time budget.

pub(super) mod dry_run;
mod step_time;
pub(super) mod steps_for_budget;
