//! Measures whether the lines of a text break inside sentences, and joins such lines.
//!
//! A line break lies inside a sentence if the line does not end a sentence and either a lower-case letter follows, or
//! the first word of the next line had no room in the line. Text in lines of a fixed width (Project Gutenberg, mail,
//! text from PDF, notes in tables) has such breaks nearly everywhere; verse, lists, dialogue and code do not.
//!
//! Also lists the characters that end a sentence, in all scripts.

use bert_tokenization::is_ideograph;
use serde::{Deserialize, Serialize};

use crate::reading::LineBreaks as Setting;

/// Minimum median length, in characters, of a line that breaks for lack of room; verse has shorter lines.
const MIN_WIDTH: usize = 30;
/// Minimum median length of full lines that are prose whatever letters they begin with.
const MIN_PROSE: usize = 60;
/// Minimum median length for scripts without lower-case letters, in which the width is the only evidence.
const MIN_WIDTH_WITHOUT_CASE: usize = 45;
/// Minimum median length for text of ideographs.
const MIN_WIDTH_OF_IDEOGRAPHS: usize = 20;
/// Minimum median length for text of ideographs in narrow columns.
const MIN_COLUMN_OF_IDEOGRAPHS: usize = 12;
/// Minimum number of breaks for a decision from the first lines of a file.
const ENOUGH_BREAKS: usize = 8;
/// Minimum mean length of lines that break before lower-case letters at any width.
const MIN_RAGGED: usize = 45;
/// Maximum number of characters of a first word that count, because scripts without spaces break inside words.
const MAX_FIRST_WORD: usize = 12;

/// A line without the white space and the quotation marks around it, with its measures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    /// Number of characters, with the indentation.
    length: usize,
    indent: usize,
    /// Number of quotation marks (`>`) before the text.
    quotes: usize,
}

/// Maximum number of quotation marks before a line of text; Python's prompt has three.
const MAX_QUOTES: usize = 2;

impl<'a> Line<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let is_mark = |c: char| c == '>' || c.is_whitespace();
        let begin = line.find(|c| !is_mark(c)).unwrap_or(line.len());
        let (marks, text) = line.split_at(begin);
        let quotes = marks.matches('>').count();
        let is_apart = text.is_empty() || marks.ends_with(char::is_whitespace);
        if quotes > MAX_QUOTES || quotes > 0 && !is_apart {
            return Self { quotes: 0, ..Self::unquoted(line, line.trim_start()) };
        }
        Self { quotes, ..Self::unquoted(line, text) }
    }

    fn unquoted(line: &str, text: &'a str) -> Self {
        let indent = line.chars().count() - text.chars().count();
        let text = text.trim_end();
        Self { text, length: indent + text.chars().count(), indent, quotes: 0 }
    }

    fn first(self) -> Option<char> {
        self.text.trim_start_matches(['"', '\'', '(', '[', '\u{201c}', '\u{ab}', '\u{2018}']).chars().next()
    }

    /// Returns whether the line ends inside a sentence as far as its last character shows: a letter, a digit, a comma,
    /// a dash. A line of code that ends with a bracket or a semicolon is not open.
    pub(super) fn is_open(self) -> bool {
        let last = self.text.chars().next_back();
        !ends_sentence(self.text)
            && last.is_some_and(|c| {
                c.is_alphanumeric()
                    || matches!(c, ',' | '-' | '\u{2010}'..='\u{2015}' | '\u{3001}' | '\u{ff0c}')
                    || is_mark(c)
            })
    }

    /// Returns the number of characters of the first word.
    fn first_word(self) -> usize {
        let max = match self.text.chars().next() {
            Some(c) if is_cjk(c) => 1,
            Some(c) if is_without_blanks(c) => MAX_FIRST_WORD,
            _ => usize::MAX,
        };
        self.text.chars().take(max).take_while(|c| !c.is_whitespace()).count()
    }

    pub(super) fn begins_small(self) -> bool {
        self.first().is_some_and(char::is_lowercase)
    }

    pub(super) fn has_case(self) -> bool {
        self.first().is_some_and(|c| c.is_lowercase() || c.is_uppercase())
    }

    /// Returns whether the line is an item of a list, a heading of Markdown, or a row of a table.
    pub(super) fn is_item(self) -> bool {
        let mut words = self.text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let second = words.next();
        let is_number = |word: &str| {
            let digits = word.trim_end_matches(['.', ')']);
            digits.len() < word.len()
                && digits.len() <= 3
                && digits.chars().all(|c| c.is_ascii_alphanumeric())
                && (digits.len() == 1 || digits.chars().all(|c| c.is_ascii_digit()))
        };
        let bullets =
            ["-", "*", "+", "\u{2022}", "\u{b7}", "\u{2013}", "\u{2014}", "\u{25aa}", "\u{25e6}", "\u{25cf}"];
        second.is_some() && (bullets.contains(&first) || is_number(first)) || first.starts_with(['#', '|'])
    }
}

/// Returns whether a character is a combining mark, with which words of many scripts end.
fn is_mark(c: char) -> bool {
    use unicode_general_category::GeneralCategory as G;
    !c.is_ascii()
        && matches!(unicode_general_category::get_general_category(c), G::NonspacingMark | G::SpacingMark)
}

/// Returns whether a character belongs to a script of Southeast Asia without spaces between words: Thai, Lao, Tibetan,
/// Burmese, Khmer, and related scripts.
pub(crate) fn is_without_blanks(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x109F | 0x1780..=0x17FF | 0x1950..=0x1AAF | 0xA9E0..=0xA9FF | 0xAA00..=0xAADF)
}

/// Returns whether a character belongs to a script without spaces between words that breaks lines anywhere.
pub(super) fn is_cjk(c: char) -> bool {
    is_ideograph(c) || matches!(u32::from(c), 0x3000..=0x30FF | 0xFF00..=0xFFEF)
}

/// Returns whether the lines of a file that begins with these lines are joined to paragraphs.
pub(super) fn are_joined(lines: &[&str], breaks: Setting) -> bool {
    match breaks {
        Setting::Auto => LineBreaks::measure(lines.iter().copied()).are_inside_sentences(),
        Setting::Wrapped => true,
        Setting::Sentence | Setting::Paragraph => false,
    }
}

/// Statistics of the line breaks of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineBreaks {
    /// Number of lines that are not blank.
    lines: usize,
    /// Number of lines in which a sentence ends.
    ends: usize,
    /// Number of lines in which a sentence ends before the line does.
    ends_inside: usize,
    /// Number of breaks between two lines that are not blank.
    pub(crate) breaks: usize,
    /// Number of breaks after lines that do not end a sentence.
    open: usize,
    /// Number of breaks inside sentences for which the next word had no room.
    full: usize,
    /// Number of breaks inside sentences before lower-case letters.
    small: usize,
    /// Total length of the lines before these breaks.
    small_length: usize,
    /// Number of breaks inside sentences before letters with case.
    cased: usize,
    /// Length that nine of ten lines do not exceed.
    width: usize,
    /// Median length.
    median: usize,
    is_cjk: bool,
    /// The first line that breaks inside a sentence, and the line after it.
    pub(crate) example: Option<[String; 2]>,
}

impl LineBreaks {
    /// Measures the lines of a text.
    pub(crate) fn measure<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let lines: Vec<Line<'a>> = lines.into_iter().map(Line::new).collect();
        let mut lengths: Vec<usize> =
            lines.iter().filter(|line| !line.text.is_empty()).map(|line| line.length).collect();
        lengths.sort_unstable();
        let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or_default();
        let mut found = Self { lines: lengths.len(), width: at(90), median: at(50), ..Self::default() };
        let letters = || lines.iter().flat_map(|line| line.text.chars()).filter(|c| c.is_alphabetic());
        found.is_cjk = 2 * letters().filter(|&c| is_cjk(c)).count() > letters().count();
        for line in &lines {
            let ends_inside = ends_inside(line.text);
            found.ends += usize::from(ends_inside || ends_sentence(line.text));
            found.ends_inside += usize::from(ends_inside);
        }
        for pair in lines.windows(2) {
            found.add(pair[0], pair[1]);
        }
        found
    }

    fn add(&mut self, line: Line<'_>, next: Line<'_>) {
        if line.text.is_empty() || next.text.is_empty() || next.is_item() {
            return;
        }
        self.breaks += 1;
        if !line.is_open() {
            return;
        }
        self.open += 1;
        let is_small = next.begins_small();
        self.full += usize::from(self.is_full(line, next));
        self.cased += usize::from(next.has_case());
        if is_small {
            self.small += 1;
            self.small_length += line.length;
        }
        if self.example.is_none() && (is_small || self.is_full(line, next)) {
            self.example = Some([line.text.to_owned(), next.text.to_owned()]);
        }
    }

    /// Returns whether the first word of the next line had no room in a line.
    fn is_full(&self, line: Line<'_>, next: Line<'_>) -> bool {
        20 * (line.length + 1 + next.first_word()) >= 19 * self.width
    }

    /// Returns whether the first lines of a file break inside sentences.
    pub(crate) fn are_inside_sentences(&self) -> bool {
        self.breaks >= ENOUGH_BREAKS && 10 * self.open >= 3 * self.breaks && self.fit()
    }

    /// Returns whether the lines of one row break inside sentences: a row has few lines, of which some may end with
    /// sentences.
    pub(crate) fn are_inside_sentences_of_row(&self) -> bool {
        self.open > 0 && self.fit()
    }

    /// Returns whether most lines that do not end a sentence are full, or are long and continue in lower-case letters.
    fn fit(&self) -> bool {
        // A text with hardly any ends of sentences has no sentences that lines could break.
        if 20 * self.ends < self.lines {
            return false;
        }
        let is_cased = 2 * self.cased >= self.full.max(1);
        // In narrow columns many sentences end inside lines; in verse few do.
        let are_columns = 10 * self.full >= 9 * self.open && 2 * self.ends_inside >= self.ends;
        let min_width = if are_columns && self.is_cjk {
            MIN_COLUMN_OF_IDEOGRAPHS
        } else if is_cased || are_columns {
            MIN_WIDTH
        } else if self.is_cjk {
            MIN_WIDTH_OF_IDEOGRAPHS
        } else {
            MIN_WIDTH_WITHOUT_CASE
        };
        let are_full = 10 * self.full >= 7 * self.open && self.median >= min_width;
        // German nouns begin with capitals, as do lines of verse, which are shorter.
        let are_prose = self.median >= MIN_PROSE && 10 * self.full >= 9 * self.open;
        let fills_lines = are_full && (!is_cased || are_prose || 5 * self.small >= self.cased);
        let is_ragged = 2 * self.small >= self.breaks && self.small_length >= MIN_RAGGED * self.small;
        fills_lines || is_ragged
    }

    /// Returns whether a sentence continues in a line that follows after the end of a page.
    pub(super) fn interrupted(&self, line: Line<'_>, next: Line<'_>) -> bool {
        line.is_open() && (next.begins_small() || self.is_full(line, next))
    }

    /// Returns whether a paragraph continues after this line break. With `in_list`, the paragraph is an item of a list.
    /// A line such as "3. Mai kam er" begins no item after a full line whose sentence is open.
    pub(super) fn continues(&self, line: Line<'_>, next: Line<'_>, in_list: bool) -> bool {
        let begins_item = next.is_item() && (in_list || !line.is_open() || !self.is_full(line, next));
        if begins_item || line.text.starts_with('#') || line.quotes != next.quotes {
            return false;
        }
        let is_indented = next.indent >= line.indent + 2 && ends_sentence(line.text);
        !is_indented && (self.is_full(line, next) || (next.begins_small() && !ends_sentence(line.text)))
    }
}

/// Returns whether a sentence ends inside a line. `.`, `!` and `?` count only before a space, and the marks of other
/// scripts anywhere. A full stop counts only after four letters, because a shorter word may be an abbreviation. In
/// narrow columns, few sentences end where a line ends.
fn ends_inside(line: &str) -> bool {
    let is_word_end = |at: usize| line[..at].chars().rev().take(4).filter(|c| c.is_alphabetic()).count() == 4;
    let ends_word = |rest: &str| rest.trim_start_matches(closes).starts_with(char::is_whitespace);
    line.match_indices(is_sentence_end).any(|(at, mark)| match mark {
        "." => ends_word(&line[at + 1..]) && is_word_end(at),
        "!" | "?" => ends_word(&line[at + 1..]),
        _ => at + mark.len() < line.len(),
    })
}

/// The properties of the end of a line that are needed to count the break after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    is_open: bool,
    bytes: usize,
}

/// Minimum number of breaks for a decision about a whole file.
const MANY_BREAKS: u64 = 20;

/// Counts of the breaks of a whole file that is read line by line. Only breaks before lower-case letters are known to
/// lie inside sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokenLines {
    lines: u64,
    ends: u64,
    breaks: u64,
    small: u64,
    bytes: u64,
    example: Option<[String; 2]>,
}

impl BrokenLines {
    /// Adds a line without the white space around it; `before` is the end of the line before it and is replaced by the
    /// end of this line. `text_before` returns the line before it, for an example.
    pub(crate) fn add(
        &mut self,
        before: &mut Option<Edge>,
        line: &str,
        text_before: impl FnOnce() -> String,
    ) {
        if line.is_empty() {
            *before = None;
            return;
        }
        self.lines += 1;
        let next = Line { text: line, length: 0, indent: 0, quotes: 0 };
        if let Some(edge) = *before {
            self.breaks += 1;
            if edge.is_open && next.begins_small() {
                self.small += 1;
                self.bytes += edge.bytes as u64;
                if self.example.is_none() {
                    self.example = Some([text_before(), line.to_owned()]);
                }
            }
        }
        let ends = ends_sentence(line);
        self.ends += u64::from(ends || ends_inside(line));
        *before = Some(Edge { is_open: !ends && next.is_open(), bytes: line.len() });
    }

    /// Adds the counts of the lines that follow.
    pub(crate) fn merge(&mut self, next: Self) {
        self.lines += next.lines;
        self.ends += next.ends;
        self.breaks += next.breaks;
        self.small += next.small;
        self.bytes += next.bytes;
        self.example = self.example.take().or(next.example);
    }

    /// Returns the number of breaks inside sentences, the number of all breaks, and an example, if many breaks lie
    /// inside sentences.
    pub(crate) fn finding(self) -> Option<(u64, u64, [String; 2])> {
        let is_text = 20 * self.ends >= self.lines && self.bytes >= MIN_RAGGED as u64 * self.small;
        let are_many = self.breaks >= MANY_BREAKS && 3 * self.small >= self.breaks;
        self.example.filter(|_| is_text && are_many).map(|example| (self.small, self.breaks, example))
    }
}

/// Returns whether a character has the property `Sentence_Terminal` of Unicode, or ends sentences as the ellipsis and the
/// shad of Tibetan do.
pub fn is_sentence_end(c: char) -> bool {
    match c {
        '.' | '!' | '?' | '\u{2026}' => true,
        _ if c.is_ascii() => false,
        _ => {
            is_script_end(c)
                || matches!(u32::from(c),
            0x0589 | 0x061D..=0x061F | 0x06D4 | 0x0964..=0x0965 | 0x104A..=0x104B | 0x1362 | 0x1367..=0x1368
            | 0x203C..=0x203D | 0x2047..=0x2049 | 0x2E2E | 0x2E3C | 0x3002 | 0xFE52 | 0xFE56..=0xFE57 | 0xFF01
            | 0xFF0E | 0xFF1F | 0xFF61)
        }
    }
}

/// Returns whether a character ends sentences of a script that `sentencex` does not know.
pub fn is_script_end(c: char) -> bool {
    matches!(u32::from(c),
        // Syriac, N'Ko, Samaritan, Tibetan, Canadian syllabics, Philippine scripts, Khmer, Mongolian.
        0x0700..=0x0702 | 0x07F9 | 0x0837 | 0x0839 | 0x083D..=0x083E | 0x0F0D..=0x0F11 | 0x166E | 0x1735..=0x1736
        | 0x17D4..=0x17D5 | 0x1803 | 0x1809
        // Limbu, Tai Tham, Balinese, Lepcha, Ol Chiki, Lisu, Vai, Bamum, Phags-pa, Saurashtra.
        | 0x1944..=0x1945 | 0x1AA8..=0x1AAB | 0x1B5A..=0x1B5B | 0x1B5E..=0x1B5F | 0x1B7D..=0x1B7E | 0x1C3B..=0x1C3C
        | 0x1C7E..=0x1C7F | 0xA4FF | 0xA60E..=0xA60F | 0xA6F3 | 0xA6F7 | 0xA876..=0xA877 | 0xA8CE..=0xA8CF
        // Kayah Li, Javanese, Cham, Meetei Mayek.
        | 0xA92F | 0xA9C8..=0xA9C9 | 0xAA5D..=0xAA5F | 0xAAF0..=0xAAF1 | 0xABEB)
}

/// Returns whether a character may follow the end of a sentence: a closing quote or bracket, or a mark of emphasis.
pub(crate) fn closes(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | ')' | ']' | '}' | '*' | '_' | '\u{bb}' | '\u{ab}' | '\u{2018}'..='\u{201f}' | '\u{203a}'
    ) || matches!(c, '\u{300d}' | '\u{300f}' | '\u{3011}' | '\u{ff09}' | '\u{300b}' | '\u{3009}')
}

/// Returns whether a line ends with the end of a sentence; closing quotes and brackets may follow it.
pub(crate) fn ends_sentence(line: &str) -> bool {
    let end = |c: char| c.is_whitespace() || closes(c);
    line.trim_end_matches(end).chars().next_back().is_some_and(is_sentence_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_scripts_end_sentences() {
        for line in [
            "It rained.",
            "\u{201c}Why?\u{201d}",
            "(He left!)",
            "雨が降った。",
            "「行く。」",
            "वह गया।",
            "وہ گیا۔",
            "هل ذهب؟",
            "ទៅ។",
            "ሄደ።",
            "Он ушёл…",
            "Նա գնաց։",
            "བོད།",
            "သွား။",
        ] {
            assert!(ends_sentence(line), "{line}");
        }
        for line in ["", "It rained and", "A title", "He said:", "one, two,", "雨が", "\"Mill\"", "1984"] {
            assert!(!ends_sentence(line), "{line}");
        }
    }
}
