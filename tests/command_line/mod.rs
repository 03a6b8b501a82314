//! Flags that the programs share: threads, dry runs, configuration files, forms of output, names and suggestions.

mod config;
mod dry_run;
mod json;
mod names;
mod numbers;
#[cfg(unix)]
mod outputs;
mod tables;
mod threads;
