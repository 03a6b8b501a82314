//! Counts of the lines of a file, and of those that are not text.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Counts of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCounts {
    /// Number of lines that are not blank.
    pub(crate) lines: u64,
    /// Number of lines that are not UTF-8 or contain a NUL.
    pub bad: u64,
    /// Whether one of the bad lines contains a NUL.
    pub(crate) nul: bool,
    /// Number of the first bad line.
    pub(crate) first: u64,
}

impl LineCounts {
    /// Counts a line and returns its text, with U+FFFD for invalid UTF-8.
    pub(crate) fn see<'a>(&mut self, line: &'a [u8], number: u64) -> Cow<'a, str> {
        self.lines += u64::from(!line.trim_ascii().is_empty());
        let text = String::from_utf8_lossy(line);
        let nul = line.contains(&0);
        if nul || matches!(text, Cow::Owned(_)) {
            self.add(Self { lines: 0, bad: 1, nul, first: number });
        }
        text
    }

    /// Adds the counts of the following lines.
    pub(crate) fn add(&mut self, next: Self) {
        if self.bad == 0 {
            self.first = next.first;
        }
        self.lines += next.lines;
        self.bad += next.bad;
        self.nul |= next.nul;
    }
}
