//! The process: exit codes, signals, huge pages, compute threads and the group of ranks.

pub mod exit;
pub mod process_group;
pub mod signals;
pub mod threads;
