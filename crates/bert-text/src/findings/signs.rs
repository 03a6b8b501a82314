//! Counts the lines and rows of a file that do not look like running text: columns, markup, escapes, damaged
//! characters.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::remarks::{Remark, Remarks, short};
use crate::forms::line_breaks::BrokenLines;

/// Maximum number of examples of each sign.
const EXAMPLES: usize = 2;

/// A sign that a line or row is not running text: its remark, the minimum percentage of the texts of a file for the
/// remark, the flags of the bytes that a text with the sign has, and a function that returns whether a text with these
/// flags has the sign.
type Sign = (Remark, u64, u16, fn(&str) -> bool);

/// All signs. Tabs count only in texts of one line.
const SIGNS: [Sign; 12] = [
    (Remark::Tabs, 50, TAB, |text| !text.contains('\n')),
    (Remark::Entities, 10, AMPERSAND, |text| are_frequent(count_entities(text), text)),
    (Remark::Tags, 25, LESS, is_markup),
    (Remark::LiteralBreaks, 10, BACKSLASH, has_literal_break),
    (Remark::UnknownWords, 10, LESS, |text| are_frequent(text.matches("<unk>").count(), text)),
    (Remark::TwiceEncoded, 5, C2 | C3, is_twice_encoded),
    (Remark::Decomposed, 5, MARK, is_decomposed),
    (Remark::Unseparated, 50, ASIAN, is_unseparated),
    (Remark::Fields, 50, BAR, has_fields),
    (Remark::Identifiers, 50, DIGIT, begins_with_identifier),
    (Remark::Identifiers, 90, DIGIT, begins_with_number),
    (Remark::Rules, 0, RULE, is_rule),
];

const TAB: u16 = 1;
const AMPERSAND: u16 = 2;
const LESS: u16 = 4;
const BACKSLASH: u16 = 8;
const MARK: u16 = 16;
const C2: u16 = 32;
const C3: u16 = 64;
const ASIAN: u16 = 128;
const E2: u16 = 256;
const BAR: u16 = 512;
const RULE: u16 = 1024;
const DIGIT: u16 = 2048;

/// Characters of which a line between documents may consist, such as `-----`.
const RULE_MARKS: [u8; 5] = *b"-_=~#";

/// The flag of each byte value that occurs in a sign, and 0 for other bytes.
const FLAGS: [u16; 256] = {
    let mut flags = [0; 256];
    flags[b'\t' as usize] = TAB;
    flags[b'&' as usize] = AMPERSAND;
    flags[b'<' as usize] = LESS;
    flags[b'\\' as usize] = BACKSLASH;
    // These bytes begin combining marks of Latin, Greek and Cyrillic.
    flags[0xCC] = MARK;
    flags[0xCD] = MARK;
    flags[0xC2] = C2;
    flags[0xC3] = C3;
    // These bytes begin the letters of India and Southeast Asia.
    flags[0xE0] = ASIAN;
    flags[0xE1] = ASIAN;
    flags[0xE2] = E2;
    flags[b'|' as usize] = BAR;
    flags[b'+' as usize] = BAR;
    let mut at = 0;
    while at < RULE_MARKS.len() {
        flags[RULE_MARKS[at] as usize] = RULE;
        at += 1;
    }
    let mut digit = b'0';
    while digit <= b'9' {
        flags[digit as usize] = DIGIT;
        digit += 1;
    }
    flags
};

/// Counts of a file so far, or of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signs {
    /// Number of lines and rows that are not blank.
    texts: u64,
    counts: [u64; SIGNS.len()],
    examples: Vec<(u8, String)>,
    /// The line breaks, if the file is read line by line.
    pub(crate) broken: BrokenLines,
    /// Number of rows whose lines were joined.
    joined_rows: u64,
    /// An example of two lines that were joined.
    joined_example: Option<[String; 2]>,
    /// Number of zero-width spaces that separate words.
    pub(crate) zero_width: u64,
    /// Number of sentences that were cut because no end of a sentence was found.
    pub unsegmented: u64,
    /// Number of sentences with words that are too long for the tokenizer.
    pub long_words: u64,
}

impl Signs {
    /// Counts the signs of a row, or of a line without the white space around it. Returns whether the text may have
    /// zero-width spaces.
    pub(crate) fn look(&mut self, text: &str) -> bool {
        if text.is_empty() {
            return false;
        }
        self.texts += 1;
        let flags = text.bytes().fold(0, |flags, byte| flags | FLAGS[usize::from(byte)]);
        if flags & !E2 == 0 {
            return flags == E2;
        }
        for (index, (_, _, needed, has_sign)) in SIGNS.into_iter().enumerate() {
            if flags & needed == needed && has_sign(text) {
                self.counts[index] += 1;
                self.add_example(index as u8, text);
            }
        }
        flags & E2 > 0
    }

    fn add_example(&mut self, sign: u8, text: &str) {
        if self.examples.iter().filter(|(known, _)| *known == sign).count() < EXAMPLES {
            self.examples.push((sign, short(text)));
        }
    }

    /// Removes the count of texts with accents as separate characters. They do not matter if accents are stripped.
    pub fn forget_decomposed(&mut self) {
        for (index, _) in SIGNS.iter().enumerate().filter(|(_, sign)| sign.0 == Remark::Decomposed) {
            self.counts[index] = 0;
            self.examples.retain(|(sign, _)| usize::from(*sign) != index);
        }
    }

    /// Counts rows whose lines were joined.
    pub fn add_joined_rows(&mut self, rows: u64, example: Option<[String; 2]>) {
        self.joined_rows += rows;
        self.joined_example =
            self.joined_example.take().or(example.map(|lines| lines.map(|line| short(&line))));
    }

    /// Adds the counts of the text that follows.
    pub(crate) fn add(&mut self, next: Self) {
        self.texts += next.texts;
        self.counts.iter_mut().zip(next.counts).for_each(|(sum, more)| *sum += more);
        for (sign, text) in next.examples {
            self.add_example(sign, &text);
        }
        self.broken.merge(next.broken);
        self.joined_rows += next.joined_rows;
        self.joined_example = self.joined_example.take().or(next.joined_example);
        self.zero_width += next.zero_width;
        self.unsegmented += next.unsegmented;
        self.long_words += next.long_words;
    }

    /// Returns the remarks on a file with these counts.
    pub(crate) fn remarks(self, path: &Path) -> Remarks {
        let mut remarks = Remarks::default();
        for (index, (remark, percent, ..)) in SIGNS.into_iter().enumerate() {
            let count = self.counts[index];
            if 100 * count >= percent * self.texts && count >= 2 {
                let examples = self.examples.iter().filter(|(of, _)| usize::from(*of) == index);
                remarks.add_share(
                    remark,
                    path,
                    [count, self.texts],
                    examples.map(|(_, text)| text.clone()).collect(),
                );
            }
        }
        if let Some((inside, breaks, example)) = self.broken.finding() {
            remarks.add_share(
                Remark::BrokenLines,
                path,
                [inside, breaks],
                example.map(|line| short(&line)).into(),
            );
        }
        let example = self.joined_example.map(Vec::from).unwrap_or_default();
        if self.joined_rows > 0 {
            remarks.add_share(Remark::JoinedRows, path, [self.joined_rows, self.texts], example);
        }
        remarks.add_count(Remark::ZeroWidthSpaces, path, self.zero_width);
        if 10 * self.unsegmented >= self.texts {
            remarks.add_count(Remark::Unsegmented, path, self.unsegmented);
        }
        if 100 * self.long_words >= self.texts {
            remarks.add_count(Remark::LongWords, path, self.long_words);
        }
        remarks
    }
}

/// Returns whether a text has accents that follow their letters as separate characters.
fn is_decomposed(text: &str) -> bool {
    let is_accent = |c| matches!(c, '\u{300}'..='\u{304}' | '\u{308}' | '\u{30a}'..='\u{30c}' | '\u{327}');
    text.chars().any(is_accent)
}

/// Returns whether a line has separators between fields: `+++$+++`, or bars. In Indian scripts, bars are full stops.
fn has_fields(text: &str) -> bool {
    let inside = text.trim_matches(['|', ' ']);
    let is_asian = || text.bytes().any(|byte| FLAGS[usize::from(byte)] == ASIAN);
    text.contains("+++$+++") || inside.contains('|') && !is_asian()
}

/// Minimum number of characters of a line that consists of one repeated character.
const MIN_RULE: usize = 4;

/// Returns whether a line consists of one repeated character of [`RULE_MARKS`].
fn is_rule(text: &str) -> bool {
    let first = text.as_bytes()[0];
    text.len() >= MIN_RULE && RULE_MARKS.contains(&first) && text.bytes().all(|byte| byte == first)
}

/// Minimum length of an identifier in bytes.
const IDENTIFIER: usize = 6;

/// Returns whether a line begins with an identifier: a word of letters, digits, and hyphens or underscores, such as
/// `1089-134686-0000`; a time code; or a verse of a book, such as `Genesis 1:1` or `1 Samuel 2:3`.
fn begins_with_identifier(text: &str) -> bool {
    let mut words = text.splitn(4, [' ', '\t']);
    let first = words.next().unwrap_or_default();
    let is_place = |word: &str| {
        let word = word.trim_matches(['[', ']', '(', ')', '<', '>', '{', '}', ',']).trim_end_matches(':');
        let is_mark = |c: char| matches!(c, ':' | '.' | ',' | '-' | '/');
        (word.contains(':') || word.matches(is_mark).count() == 2)
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || is_mark(c))
    };
    let is_book = |word: &str| word.chars().all(char::is_alphabetic);
    let begins_with_verse = match (is_book(first), words.next(), words.next()) {
        (true, Some(second), _) => is_place(second),
        (false, Some(second), Some(third)) => first.len() == 1 && is_book(second) && is_place(third),
        _ => false,
    };
    let is_joiner = |c: char| matches!(c, '-' | '_');
    let is_plain = first.chars().all(|c| c.is_ascii_alphanumeric() || is_joiner(c) || c == '.');
    let is_code = is_plain
        && (IDENTIFIER..text.len()).contains(&first.len())
        && first.contains(is_joiner)
        && first.chars().filter(char::is_ascii_digit).count() >= 3;
    is_code || is_place(first) || begins_with_verse
}

/// Returns whether a text of one line begins with a separate number, such as `12`, `12.` or `[12]`, before a sentence.
fn begins_with_number(text: &str) -> bool {
    let Some((word, rest)) = text.split_once([' ', '\t']) else { return false };
    let number = word.trim_start_matches(['(', '[']).trim_end_matches(['.', ':', ')', ']']);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && !rest.trim_start().starts_with(char::is_lowercase) && !text.contains('\n')
}

/// Maximum mean number of characters of a word of Thai, Lao, Burmese or Khmer.
const MAX_WORD: usize = 15;

/// Returns whether most of a text is in a script without spaces between words, and its words are not separated.
fn is_unseparated(text: &str) -> bool {
    let is_of_script =
        |c: &char| matches!(u32::from(*c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF);
    let letters = text.chars().filter(is_of_script).count();
    let is_separator = |c: char| c.is_whitespace() || c == '\u{200b}' || c.is_ascii_punctuation();
    let words = text.split(is_separator).filter(|word| !word.is_empty()).count();
    2 * letters > text.chars().count() && letters > MAX_WORD * words
}

/// Maximum number of bytes per sign in a long row. A text about markup, for example, has fewer signs.
const BYTES_PER_SIGN: usize = 100;

/// Returns whether a text has at least one sign, and at least one for each [`BYTES_PER_SIGN`] bytes.
fn are_frequent(signs: usize, text: &str) -> bool {
    signs > 0 && signs * BYTES_PER_SIGN >= text.len()
}

/// Returns whether a text is markup: tags are frequent, or the text ends with a tag.
fn is_markup(text: &str) -> bool {
    let tags = count_tags(text);
    are_frequent(tags, text) || tags > 0 && text.ends_with('>')
}

/// Returns the number of entities.
fn count_entities(text: &str) -> usize {
    let is_entity = |rest: &str| {
        let names = ["lt;", "gt;", "amp;", "quot;", "apos;", "nbsp;"];
        let number =
            rest.strip_prefix('#').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
        names.iter().any(|name| rest.starts_with(name)) || number.is_some_and(|rest| rest.starts_with(';'))
    };
    text.match_indices('&').filter(|(at, _)| is_entity(&text[at + 1..])).count()
}

/// Returns the number of closing tags and of the tags `<br>`, `<p>` and `<div>`.
fn count_tags(text: &str) -> usize {
    let is_tag = |rest: &str| {
        let name = rest.strip_prefix('/').unwrap_or(rest);
        let is_known = ["br>", "br/>", "br />", "p>", "div"].iter().any(|tag| rest.starts_with(tag));
        let is_close = name.len() < rest.len();
        (is_close || is_known) && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.contains('>')
    };
    text.match_indices('<').filter(|(at, _)| is_tag(&text[at + 1..])).count()
}

/// Returns whether a backslash and `n` occur between words. In code, a quote or a bracket follows them.
fn has_literal_break(text: &str) -> bool {
    text.match_indices("\\n").any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + 2..].trim_start_matches("\\n").chars().next();
        let is_text = |c: char| {
            c.is_uppercase() || c.is_whitespace() || c.is_numeric() || c == '"' && before == Some('.')
        };
        before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '!' | '?' | ',' | ':'))
            && after.is_some_and(is_text)
    })
}

/// Returns whether a text has two characters that are one character of UTF-8 read as Latin-1.
fn is_twice_encoded(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        if matches!(c, '\u{c2}'..='\u{c5}') && matches!(next, '\u{80}'..='\u{bf}')
            || c == '\u{e2}' && matches!(next, '\u{80}' | '\u{20ac}')
        {
            return true;
        }
    }
    false
}
