//! Records what made a result: the program with its commit, the processor, and the command that was started.
//!
//! The summation order of a matrix product depends on the processor's vector instructions and L1 cache, never on the
//! number of threads. A run that continues with another program or on another processor is equally valid, but its bits
//! may differ from an uninterrupted run.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Commit of the program. The libraries are compiled without it, so that a new commit does not change them.
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Records the commit of the program. A program calls this once, at its start; the commit of other programs is
/// `unknown`.
pub fn set_commit(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

/// Returns the commit of the program, or `unknown`.
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or("unknown")
}

/// Returns the settings of the program and the processor that determine the last bits of a result.
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

/// The start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    /// Returns the start of this process, for a run on these computers, one for each rank.
    pub fn now(hosts: Vec<String>) -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            commit: commit().to_owned(),
            command: std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect(),
            ranks: hosts.len(),
            hosts,
            started: utc(seconds),
        }
    }
}

/// Returns the date and time of a number of seconds since 1970 (Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms").
fn utc(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // date -u -d @SECONDS +%FT%TZ
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(utc(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn an_invocation_counts_its_ranks() {
        let start = Invocation::now(vec!["a".into(), "a".into()]);
        assert_eq!((start.ranks, start.commit.as_str()), (2, "unknown"));
        assert!(!start.command.is_empty());
        assert_eq!(environment_of_run()["commit"], "unknown");
    }
}
