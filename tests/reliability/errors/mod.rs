//! Wrong input, one case per line: checks the exit code, part of the message, and that nothing changed.

mod building;
mod data;
mod early;
mod tasks;
mod training;

use crate::common::{Folder, Refusal, refusals};

/// Checks the rows of a table (see [`refusals`]); the messages are parts of what is printed.
fn check(folder: &Folder, common: &str, table: &str) {
    for Refusal { code, line, message } in refusals(common, table) {
        let before = folder.snapshot(".");
        let ended = folder.refused(&line, code, message);
        assert!(ended.stderr.contains("error: "), "{line}\n{}", ended.stderr);
        assert_eq!(ended.stdout, "", "{line}");
        let after = folder.snapshot(".");
        let changed = after.iter().filter(|(name, bytes)| before.get(*name) != Some(bytes));
        assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&String>::new(), "{line}");
        assert_eq!(before.len(), after.len(), "{line}");
    }
}
