//! The commit of the program that runs.

use std::sync::OnceLock;

/// Commit of the program. The libraries are compiled without it, so that a new commit does not change them.
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Records the commit of the program. A program calls this once, at its start; the commit of other programs is `unknown`.
pub fn set_commit(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

/// Returns the commit of the program, or `unknown`.
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or("unknown")
}
