//! Output: results on stdout and in files, messages, tables and progress.

pub mod clock;
pub mod counting;
pub mod download;
pub mod files;
pub mod findings;
pub mod progress;
pub mod results;
pub mod run_log;
pub mod signals;
pub mod status_line;
pub mod stdout;
pub mod table;
pub mod terminal;
