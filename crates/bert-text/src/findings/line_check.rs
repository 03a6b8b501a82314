//! Checks that lines are text: UTF-8 without NUL bytes.
//!
//! A few bad lines are repaired and counted. A file with more than one bad line in twenty is rejected, because it has a
//! different encoding or is not text. The counts of a file do not depend on the number of threads.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::remarks::{Remark, Remarks};
use super::signs::Signs;
use crate::error::{Error, Result};
use crate::line_counts::LineCounts;

/// Number of lines among which at most one may be bad.
const GOOD_PER_BAD: u64 = 20;
/// Minimum number of lines before a file can be rejected early, when more than half of them are bad.
const ENOUGH: u64 = 20;

/// Policy for lines that are not text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadLines {
    /// Repair and count bad lines; reject a file with many of them.
    #[default]
    Few,
    /// Reject the first bad line (`--strict-utf8`).
    None,
    /// Repair and count any number of bad lines (`--lossy-utf8`).
    Any,
}

impl BadLines {
    /// Returns the policy selected by two flags, of which at most one is set.
    pub fn from_flags(strict_utf8: bool, lossy_utf8: bool) -> Self {
        match (strict_utf8, lossy_utf8) {
            (true, _) => Self::None,
            (_, true) => Self::Any,
            _ => Self::Few,
        }
    }
}

/// Counts of the lines of a file so far, or of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCheck {
    /// The lines of the file.
    pub counts: LineCounts,
    /// Number of texts that are not blank: lines, or rows of tables.
    pub(crate) texts: u64,
    /// Number of lines of text with carriage returns inside.
    returns: u64,
    /// Number of JSON rows with half of a surrogate pair.
    half_pairs: u64,
    /// Number of rows of tables that are null.
    pub null_rows: u64,
    /// Signs that the text is not running text.
    pub signs: Signs,
}

impl LineCheck {
    /// Returns the check of a block of which no line has been seen yet. `source` has the counts of the lines of a file
    /// that is converted; if one of them is bad and no bad line is allowed, it is rejected.
    pub(crate) fn begin(source: Option<&LineCounts>, path: &Path, bad_lines: BadLines) -> Result<Self> {
        match source {
            Some(source) if source.bad > 0 && bad_lines == BadLines::None => {
                Err(bad_line(source.nul).at_line(path, source.first))
            }
            _ => Ok(Self::default()),
        }
    }

    /// Returns the check of a whole block. In a file that is converted, the lines before the conversion count.
    pub(crate) fn end(self, source: Option<&LineCounts>) -> Self {
        Self { counts: source.cloned().unwrap_or(self.counts), ..self }
    }

    /// Checks the first lines of a file; with `is_whole`, they are the whole file.
    ///
    /// # Errors
    /// Fails as for the lines of the whole file.
    pub(crate) fn check_head(head: &[u8], is_whole: bool, path: &Path, bad_lines: BadLines) -> Result<()> {
        let mut check = Self::default();
        let end =
            if is_whole { head.len() } else { head.iter().rposition(|&byte| byte == b'\n').unwrap_or(0) };
        for (number, line) in (1..).zip(head[..end].split(|&byte| byte == b'\n')) {
            check.decode(line, (path, number), bad_lines)?;
        }
        check.check(path, is_whole, bad_lines)
    }

    /// Returns the text of a line, with U+FFFD for invalid UTF-8. NULs are kept, because the tokenizer drops both
    /// characters.
    pub(crate) fn decode<'a>(
        &mut self,
        line: &'a [u8],
        (path, number): (&Path, u64),
        bad_lines: BadLines,
    ) -> Result<Cow<'a, str>> {
        let before = self.counts.bad;
        let text = self.counts.see(line, number);
        if self.counts.bad > before && bad_lines == BadLines::None {
            return Err(bad_line(matches!(text, Cow::Borrowed(_))).at_line(path, number));
        }
        Ok(text)
    }

    /// Counts a line of text, given without its end, if it contains a carriage return.
    pub(crate) fn look_for_returns(&mut self, line: &[u8]) {
        self.returns += u64::from(line.contains(&b'\r'));
    }

    /// Counts a JSON row with half of a surrogate pair, or rejects it.
    pub(crate) fn see_half_pair(
        &mut self,
        half_pair: bool,
        (path, row): (&Path, u64),
        bad_lines: BadLines,
    ) -> Result<()> {
        if half_pair && bad_lines == BadLines::None {
            return Err(Error::data(
                "half of a surrogate pair, such as \"\\ud83d\" (without `.strict_utf8` it would be replaced and \
                 counted)",
            )
            .at_line(path, row));
        }
        self.half_pairs += u64::from(half_pair);
        Ok(())
    }

    /// Returns the counts of lines that follow `lines` other lines: `lines` is added to the number of the first bad
    /// line.
    pub fn after_lines(self, lines: u64) -> Self {
        let first = if self.counts.bad > 0 { self.counts.first + lines } else { 0 };
        Self { counts: LineCounts { first, ..self.counts }, ..self }
    }

    /// Adds the counts of the following lines.
    fn add(&mut self, next: Self) {
        self.counts.add(next.counts);
        self.texts += next.texts;
        self.returns += next.returns;
        self.half_pairs += next.half_pairs;
        self.null_rows += next.null_rows;
        self.signs.add(next.signs);
    }

    /// Adds the counts of the next block, and rejects a file with too many bad lines. After the last block of a file
    /// this returns the remarks on the file and resets the counts.
    pub fn add_block(
        &mut self,
        block: Self,
        path: &Path,
        ends_file: bool,
        bad_lines: BadLines,
    ) -> Result<Remarks> {
        self.add(block);
        self.check(path, ends_file, bad_lines)?;
        let mut remarks = Remarks::default();
        if ends_file {
            let file = std::mem::take(self);
            remarks.add_count(Remark::CarriageReturns, path, file.returns);
            remarks.add_count(Remark::HalfSurrogates, path, file.half_pairs);
            remarks.add_count(Remark::NoText, path, u64::from(file.texts == 0));
            remarks.add(file.signs.remarks(path));
        }
        Ok(remarks)
    }

    /// Rejects a file with too many bad lines or with carriage returns inside most of its lines. The limit is one line
    /// in twenty at the end of the file, and half of the lines before it. A single bad line is accepted unless it
    /// contains a NUL, which occurs only in UTF-16 and UTF-32.
    fn check(&self, path: &Path, at_end: bool, bad_lines: BadLines) -> Result<()> {
        let LineCounts { lines, bad, nul, first } = self.counts;
        let many = if at_end { bad * GOOD_PER_BAD > lines } else { lines >= ENOUGH && bad * 2 > lines };
        if at_end && self.returns * 2 > lines {
            let returns = self.returns;
            return Err(Error::data(format!(
                "{returns} of {lines} lines contain carriage returns (\\r), the line ends of old Macs; convert them \
                 to \\n (tr '\\r' '\\n')"
            ))
            .at(path));
        }
        if bad_lines != BadLines::Few || !many || (bad < 2 && !nul) {
            return Ok(());
        }
        let advice = "convert the file to UTF-8 (iconv), leave it out, or replace the invalid bytes with `.lossy_utf8`";
        let text = format!("{bad} of {lines} lines are not UTF-8, the first one here: {advice}");
        Err(Error::data(text).at_line(path, first))
    }
}

/// Returns the error for a line that is not UTF-8 or, if `is_nul`, has a NUL.
fn bad_line(is_nul: bool) -> Error {
    if is_nul {
        Error::data("a NUL byte (without `.strict_utf8` it would be dropped and counted)")
    } else {
        Error::data("invalid UTF-8 (without `.strict_utf8` it would be replaced and counted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(good: u64, bad: &[&[u8]], at_end: bool, bad_lines: BadLines) -> Result<LineCheck> {
        let path = Path::new("it");
        let mut check = LineCheck::default();
        for number in 0..good {
            check.decode(b"a line", (path, number + 1), bad_lines)?;
        }
        for (number, line) in (good + 1..).zip(bad) {
            check.decode(line, (path, number), bad_lines)?;
        }
        check.check(path, at_end, bad_lines).map(|()| check)
    }

    #[test]
    fn more_than_one_in_twenty_is_rejected() {
        let latin: &[&[u8]] = &[b"Caf\xe9", b"na\xefve"];
        assert_eq!(checked(38, latin, true, BadLines::Few).unwrap().counts.bad, 2, "exactly one in twenty");
        let error = checked(37, latin, true, BadLines::Few).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(
            error.to_string().starts_with("it:38: 2 of 39 lines are not UTF-8, the first one here"),
            "{error}"
        );
        checked(37, latin, true, BadLines::Any).unwrap();
        checked(37, latin, false, BadLines::Few).unwrap();
        checked(1, &latin[..1], true, BadLines::Few).expect("one line is repaired");
        checked(1, &[b"a\0b"], true, BadLines::Few).expect_err("one line with a NUL is not");
        checked(19, &[b"a\0b"], true, BadLines::Few).expect("one of twenty is");
    }

    #[test]
    fn before_the_end_more_than_half_is_rejected() {
        let garbage = [&b"\xff\xfe\xfd"[..]; 11];
        checked(9, &garbage, false, BadLines::Few).unwrap_err();
        checked(11, &garbage, false, BadLines::Few).unwrap();
        checked(8, &garbage, false, BadLines::Few).expect("too few lines to tell");
    }

    #[test]
    fn strict_rejects_the_first() {
        for (line, expected) in [(&b"Caf\xe9"[..], "it:4: invalid UTF-8"), (b"a\0", "it:4: a NUL byte")] {
            let error = checked(3, &[line], true, BadLines::None).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn blocks_add_up() {
        let all = checked(30, &[b"\xff", b"\xfe"], true, BadLines::Any).unwrap();
        let mut sum = LineCheck::default();
        sum.add(checked(30, &[], true, BadLines::Any).unwrap());
        for (number, line) in [(31, b"\xff"), (32, b"\xfe")] {
            let mut block = LineCheck::default();
            block.decode(line, (Path::new("it"), number), BadLines::Any).unwrap();
            sum.add(block);
        }
        assert_eq!(sum, all);
    }
}
