//! Disks, process groups and a model hub that fail on purpose, for the tests of the other crates, which have this crate
//! as a development dependency.

pub mod disks;
pub mod hub;
pub mod transports;
