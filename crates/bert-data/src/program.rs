//! The name, version and commit of this program.

use std::sync::OnceLock;

/// Name and version of this program.
pub(crate) const PROGRAM: &str = concat!("bert-data ", env!("CARGO_PKG_VERSION"));

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

/// Returns name, version and the first digits of the commit, such as `bert-data 0.1.0 (697acb8e)`.
pub(crate) fn program() -> String {
    match commit() {
        "unknown" => PROGRAM.to_owned(),
        commit => format!("{PROGRAM} ({})", commit.get(..8).unwrap_or(commit)),
    }
}

/// Returns whether [`program`] of any commit of this version returned a text.
pub(crate) fn is_of_this_version(program: &str) -> bool {
    program.strip_prefix(PROGRAM).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}
