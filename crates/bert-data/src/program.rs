//! The name and version of this program, with its commit.

use bert_storage::commit;

/// Name and version of this program.
const PROGRAM: &str = concat!("bert-data ", env!("CARGO_PKG_VERSION"));

/// Returns the name, the version and the first digits of the commit, such as `bert-data 0.1.0 (697acb8e)`.
pub(crate) fn program() -> String {
    match commit() {
        "unknown" => PROGRAM.to_owned(),
        commit => format!("{PROGRAM} ({})", commit.get(..8).unwrap_or(commit)),
    }
}

/// Returns whether a text is a result of [`program`] for this version, at any commit.
pub(crate) fn is_of_this_version(program: &str) -> bool {
    program.strip_prefix(PROGRAM).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}
