//! Disks and process groups that fail on purpose, for the tests of the other crates, which have it as a development
//! dependency.

pub mod disks;
pub mod transports;
