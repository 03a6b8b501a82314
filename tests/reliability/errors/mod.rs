//! Wrong input, one case per line: checks the exit code, part of the message, and that nothing changed.

mod building;
mod data;
mod tasks;
mod training;

use crate::common::Folder;

/// Command line, exit code, part of the message.
type Case<'a> = (&'a str, i32, &'a str);

fn check(folder: &Folder, cases: &[Case<'_>]) {
    for (line, code, part) in cases {
        let before = folder.snapshot(".");
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(*code), "{line}\n{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{line}\n{part:?} is not in {}", ended.stderr);
        assert!(ended.stderr.contains("error: "), "{line}\n{}", ended.stderr);
        assert_eq!(ended.stdout, "", "{line}");
        let after = folder.snapshot(".");
        let changed = after.iter().filter(|(name, bytes)| before.get(*name) != Some(bytes));
        assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&String>::new(), "{line}");
        assert_eq!(before.len(), after.len(), "{line}");
    }
}

/// Checks the cases, each with a common prefix of the command line.
fn check_with(folder: &Folder, common: &str, cases: &[Case<'_>]) {
    let lines: Vec<String> = cases.iter().map(|(line, ..)| format!("{common} {line}")).collect();
    let cases: Vec<Case<'_>> =
        lines.iter().zip(cases).map(|(line, case)| (line.as_str(), case.1, case.2)).collect();
    check(folder, &cases);
}
