//! Measures, checks and selects devices before the first step.
//!
//! | module | purpose |
//! |---|---|
//! | [`rates`] | measures products, memory and launches |
//! | [`survey`] | properties and rates of all devices |
//! | [`check`] | compares a micro-batch on the device with the CPU |
//! | [`auto`] | selects the fastest device that passes the check |

pub mod auto;
pub mod check;
pub mod rates;
pub mod survey;
