//! Checks that lines are text: UTF-8 without NUL bytes.
//!
//! A bad line here and there is repaired and counted. A file in which more than one line in twenty is bad is refused:
//! it has another encoding or is not text. The count of a file does not depend on threads.

use std::borrow::Cow;
use std::path::Path;

use crate::error::{InputProblem, Locate, Result};
use crate::input::Block;
use crate::input::remarks::{Remark, Remarks};

/// One in so many lines of a file may be bad.
const GOOD_PER_BAD: u64 = 20;
/// From so many lines on a file is refused before its end, where more than half of them are bad.
const ENOUGH: u64 = 20;

/// One in so many lines of text may begin with a tag before it is said.
const TEXTS_PER_TAG: u64 = 4;

/// What to do with lines that are not text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadLines {
    /// Repair and count them; refuse a file with many of them.
    #[default]
    Few,
    /// Refuse the first one (`--strict-utf8`).
    None,
    /// Repair and count them, however many there are (`--lossy-utf8`).
    Any,
}

impl BadLines {
    /// What two flags ask for, of which at most one is set.
    #[must_use]
    pub fn of(strict_utf8: bool, lossy_utf8: bool) -> Self {
        match (strict_utf8, lossy_utf8) {
            (true, _) => Self::None,
            (_, true) => Self::Any,
            _ => Self::Few,
        }
    }
}

/// The lines of a file so far, or of a block of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCheck {
    /// Lines that are not blank.
    lines: u64,
    /// Those of them that are not UTF-8 or hold a NUL.
    pub(crate) bad: u64,
    /// Whether a NUL is among them.
    nul: bool,
    /// The number of the first bad one.
    first: u64,
    /// Texts that are not blank: lines, or rows of tables.
    pub(crate) texts: u64,
    /// Lines of text with carriage returns inside.
    returns: u64,
    /// Lines of text that begin with a tag.
    tags: u64,
    /// Rows of JSON with half of a surrogate pair.
    half_pairs: u64,
}

impl LineCheck {
    /// The lines of a block of text or JSON.
    pub(crate) fn of(block: &Block, path: &Path, bad_lines: BadLines) -> Result<Self> {
        let mut check = Self::default();
        for (number, line) in block.lines().take_while(|_| !block.format.has_rows()) {
            check.decode(line, (path, number), bad_lines)?;
        }
        Ok(check)
    }

    /// The text of a line, with U+FFFD for what is not UTF-8. NULs stay: the tokenizer drops both.
    pub(crate) fn decode<'a>(
        &mut self,
        line: &'a [u8],
        (path, number): (&Path, u64),
        bad_lines: BadLines,
    ) -> Result<Cow<'a, str>> {
        self.lines += u64::from(!line.trim_ascii().is_empty());
        let text = String::from_utf8_lossy(line);
        let (valid, nul) = (matches!(text, Cow::Borrowed(_)), line.contains(&0));
        if valid && !nul {
            return Ok(text);
        }
        if bad_lines == BadLines::None {
            let problem = if valid { InputProblem::NulByte } else { InputProblem::InvalidUtf8 };
            return Err(problem.at_line(path, number).into());
        }
        self.add(Self { bad: 1, nul, first: number, ..Self::default() });
        Ok(text)
    }

    /// Looks at a line of text, without its end, for what other line ends and markup leave there.
    pub(crate) fn look_at_text(&mut self, line: &[u8]) {
        self.returns += u64::from(line.contains(&b'\r'));
        let is_tag = matches!(line.trim_ascii_start(), [b'<', b'/' | b'a'..=b'z' | b'A'..=b'Z', ..]);
        self.tags += u64::from(is_tag && line.contains(&b'>'));
    }

    /// Counts a row of JSON that held half of a surrogate pair, if it did, or refuses it.
    pub(crate) fn see_half_pair(
        &mut self,
        half_pair: bool,
        (path, row): (&Path, u64),
        bad_lines: BadLines,
    ) -> Result<()> {
        if half_pair && bad_lines == BadLines::None {
            return Err(InputProblem::HalfPair.at_line(path, row).into());
        }
        self.half_pairs += u64::from(half_pair);
        Ok(())
    }

    /// Adds the lines that follow.
    fn add(&mut self, next: Self) {
        if self.bad == 0 {
            self.first = next.first;
        }
        self.lines += next.lines;
        self.bad += next.bad;
        self.nul |= next.nul;
        self.texts += next.texts;
        self.returns += next.returns;
        self.tags += next.tags;
        self.half_pairs += next.half_pairs;
    }

    /// Adds the lines of the next block and refuses a file with too many bad ones. Behind its last block this returns what
    /// the user should know of the file, and begins with the next one.
    pub(crate) fn add_block(
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
            remarks.see(Remark::CarriageReturns, path, file.returns);
            remarks.see(Remark::HalfSurrogates, path, file.half_pairs);
            let many_tags = file.tags * TEXTS_PER_TAG > file.lines;
            remarks.see(Remark::Tags, path, if many_tags { file.tags } else { 0 });
            remarks.see(Remark::NoText, path, u64::from(file.texts == 0));
        }
        Ok(remarks)
    }

    /// Refuses a file with too many bad lines, or with carriage returns inside most of its lines: in the end more than one in twenty, before it more than half. A single
    /// line is no reason, unless it holds a NUL, which no encoding of text but UTF-16 and UTF-32 has.
    fn check(&self, path: &Path, at_end: bool, bad_lines: BadLines) -> Result<()> {
        let many = match at_end {
            true => self.bad * GOOD_PER_BAD > self.lines,
            false => self.lines >= ENOUGH && self.bad * 2 > self.lines,
        };
        if at_end && self.returns * 2 > self.lines {
            let (returns, lines) = (self.returns, self.lines);
            return Err(InputProblem::CarriageReturns { returns, lines }.at(path).into());
        }
        if bad_lines != BadLines::Few || !many || (self.bad < 2 && !self.nul) {
            return Ok(());
        }
        let (bad, lines, first) = (self.bad, self.lines, self.first);
        Err(InputProblem::NotUtf8Text { bad, lines, first }.at(path).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(good: u64, bad: &[&[u8]], at_end: bool, bad_lines: BadLines) -> Result<LineCheck> {
        let (path, mut check) = (Path::new("it"), LineCheck::default());
        for number in 0..good {
            check.decode(b"a line", (path, number + 1), bad_lines)?;
        }
        for (number, line) in (good + 1..).zip(bad) {
            check.decode(line, (path, number), bad_lines)?;
        }
        check.check(path, at_end, bad_lines).map(|()| check)
    }

    #[test]
    fn more_than_one_in_twenty_is_refused() {
        let latin: &[&[u8]] = &[b"Caf\xe9", b"na\xefve"];
        assert_eq!(checked(38, latin, true, BadLines::Few).unwrap().bad, 2, "exactly one in twenty");
        let error = checked(37, latin, true, BadLines::Few).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(
            error.to_string().starts_with("it: 2 of 39 lines are not UTF-8 text, line 38 the first"),
            "{error}"
        );
        checked(37, latin, true, BadLines::Any).unwrap();
        checked(37, latin, false, BadLines::Few).unwrap();
        checked(1, &latin[..1], true, BadLines::Few).expect("one line is repaired");
        checked(1, &[b"a\0b"], true, BadLines::Few).expect_err("one line with a NUL is not");
        checked(19, &[b"a\0b"], true, BadLines::Few).expect("one of twenty is");
    }

    #[test]
    fn before_the_end_more_than_half_is_refused() {
        let garbage = [&b"\xff\xfe\xfd"[..]; 11];
        checked(9, &garbage, false, BadLines::Few).unwrap_err();
        checked(11, &garbage, false, BadLines::Few).unwrap();
        checked(8, &garbage, false, BadLines::Few).expect("too few lines to tell");
    }

    #[test]
    fn strict_refuses_the_first() {
        for (line, said) in [(&b"Caf\xe9"[..], "it:4: invalid UTF-8"), (b"a\0", "it:4: a NUL byte")] {
            let error = checked(3, &[line], true, BadLines::None).unwrap_err();
            assert!(error.to_string().starts_with(said), "{error}");
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
