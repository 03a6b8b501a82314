//! Records the program with its commit, the processor and the command that produced a result.
//!
//! The summation order of a matrix product depends on the processor's vector instructions and L1 cache, never on the
//! number of threads. A run that continues with a different program or on a different processor is equally valid, but
//! its results may differ in the last bits from an uninterrupted run.

use std::time::SystemTime;

use bert_storage::commit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Returns the properties of the program and the computer that determine the last bits of a result: versions, system,
/// instruction set, L1 cache.
pub fn environment() -> Value {
    let [bytes, ways, line] = bert_kernels::processor::l1_cache();
    json!({
        "program": concat!("bert ", env!("CARGO_PKG_VERSION")),
        "kernels": bert_kernels::VERSION,
        "system": std::env::consts::OS,
        "instruction_set": bert_kernels::processor::instruction_set(),
        "l1_cache": { "bytes": bytes, "ways": ways, "line": line },
    })
}

/// Returns [`environment`] with the commit of the program, as `run.json` records it.
pub fn environment_of_run() -> Value {
    let mut environment = environment();
    environment["commit"] = commit().into();
    environment
}

/// The program, the command line and the computers with which a run was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// Commit of the program.
    pub commit: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Name of the computer of each rank.
    pub hosts: Vec<String>,
    /// Number of ranks.
    pub ranks: usize,
    /// Time of the start in UTC, such as `2026-11-27T20:45:00Z`.
    pub started: String,
}

impl Invocation {
    /// Returns the invocation of this process. `hosts` has the name of the computer of each rank.
    pub fn now(hosts: Vec<String>) -> Self {
        Self {
            commit: commit().to_owned(),
            command: std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect(),
            ranks: hosts.len(),
            hosts,
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invocation_counts_its_ranks() {
        let start = Invocation::now(vec!["a".into(), "a".into()]);
        assert_eq!((start.ranks, start.commit.as_str()), (2, "unknown"));
        assert!(!start.command.is_empty());
        assert!(start.started.starts_with("20") && start.started.ends_with('Z'), "{}", start.started);
        assert_eq!(environment_of_run()["commit"], "unknown");
    }
}
