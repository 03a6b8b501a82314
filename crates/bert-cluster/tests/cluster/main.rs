//! Checks that every engine makes the same bytes, and that a cluster that loses machines does too or reports the
//! failure.

mod engines;
mod faults;
mod objects;
mod processes;
mod text;
