//! Finds the form of a file in its first lines.

use super::columns::{columns, is_comment, is_tagged};
use super::line_breaks::are_joined;
use super::mail::are_mails;
use super::verses::are_delimited;
use crate::Format;
use crate::reading::Reading;

/// Minimum number of lines from which a form is recognized by the share of lines with a property.
const ENOUGH: usize = 5;

/// Returns the form of the file that begins with these complete lines, or `None` for lines of sentences or paragraphs.
pub(crate) fn recognize(lines: &[&str], reading: Reading<'_>) -> Option<Format> {
    let filled: Vec<&str> = lines.iter().copied().filter(|line| !line.trim().is_empty()).collect();
    let first = filled.first().map(|line| line.trim())?;
    if are_cues(&filled) {
        return Some(Format::Subtitles);
    }
    if first.starts_with("PMID-") || first.starts_with("TY  - ") {
        return Some(Format::Medline);
    }
    if are_mails(lines) {
        return Some(Format::Mail);
    }
    let rows: Vec<&str> = filled.iter().copied().filter(|line| !is_comment(line)).collect();
    if are_nearly_all(&rows, is_conllu) {
        return Some(Format::Conllu);
    }
    if are_nearly_all(&rows, |line| super::verses::verse(line).is_some()) {
        return Some(Format::Verses);
    }
    if is_vertical(&filled) {
        return Some(Format::Vertical);
    }
    if word_column(lines).is_some() {
        return Some(Format::Conll);
    }
    if reading.reference {
        return None;
    }
    if are_joined(lines, reading.line_breaks) {
        return Some(Format::Wrapped);
    }
    are_delimited(lines).then_some(Format::Delimited)
}

/// Returns whether there are at least [`ENOUGH`] lines, of which at least 95 % have a property.
fn are_nearly_all(lines: &[&str], has: impl Fn(&str) -> bool) -> bool {
    lines.len() >= ENOUGH && 20 * lines.iter().filter(|line| has(line)).count() >= 19 * lines.len()
}

/// Returns whether the first lines are the beginning of SubRip or WebVTT subtitles.
fn are_cues(filled: &[&str]) -> bool {
    let first = filled[0].trim();
    let head = &filled[..filled.len().min(3)];
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit());
    first == "WEBVTT"
        || first.starts_with("WEBVTT ")
        || (is_number || super::subtitles::is_time(first))
            && head.iter().any(|line| super::subtitles::is_time(line))
}

/// Returns whether a line is a token of CoNLL-U: ten columns, the first a number.
fn is_conllu(line: &str) -> bool {
    let mut columns = line.split('\t');
    let is_id = columns.next().is_some_and(|id| {
        id.starts_with(|c: char| c.is_ascii_digit())
            && id.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '.'))
    });
    is_id && columns.count() == 9
}

/// Returns whether lines are tags of sentences and documents with one token per line in between.
pub(crate) fn is_vertical(filled: &[&str]) -> bool {
    let is_tag = |line: &&&str| line.starts_with('<') && line.trim_end().ends_with('>');
    let tags = filled.iter().filter(is_tag).count();
    let has = |name: &str| filled.iter().any(|line| line.starts_with(name));
    let sentences = has("<s>") || has("<s ") || has("<p>") || has("<doc") || has("<text");
    let tokens: Vec<&str> = filled.iter().filter(|line| !is_tag(line)).copied().collect();
    let is_token = |line: &str| !line.split('\t').next().unwrap_or_default().trim().contains(' ');
    tags >= 2
        && sentences
        && 2 * tokens.len() > tags
        && are_nearly_all(&tokens, is_token)
        && (2 * tokens.iter().filter(|line| line.contains('\t')).count() > tokens.len()
            || has_marks_alone(&tokens))
}

/// Returns whether some lines are a mark of punctuation alone, as in files with one token per line.
fn has_marks_alone(tokens: &[&str]) -> bool {
    let is_mark = |line: &&&str| {
        let word = line.split(['\t', ' ']).next().unwrap_or_default();
        !word.is_empty() && word.chars().count() <= 2 && !word.chars().any(char::is_alphanumeric)
    };
    40 * tokens.iter().filter(is_mark).count() >= tokens.len()
}

/// Returns the index of the column of the words, and the number of columns, in a file with one token per line and a blank
/// line after each sentence.
pub(super) fn word_column(lines: &[&str]) -> Option<(usize, usize)> {
    let is_row =
        |line: &&str| !line.trim().is_empty() && !is_comment(line) && !line.starts_with("-DOCSTART-");
    let rows: Vec<&str> = lines.iter().copied().filter(is_row).collect();
    let first = *rows.first()?;
    let count = columns(first).len();
    let sentences = lines.iter().filter(|line| line.trim().is_empty()).count();
    let has_sentences = sentences * 100 >= rows.len() && sentences > 0;
    if rows.len() < 2 * ENOUGH || !has_sentences || !are_nearly_all(&rows, |row| columns(row).len() == count)
    {
        return None;
    }
    let has_tags = are_nearly_all(&rows, |row| is_tagged(row, count));
    let is_ontonotes = lines.iter().any(|line| line.starts_with("#begin document"));
    let counts_words =
        count >= 4 && are_nearly_all(&rows, |row| row.starts_with(|c: char| c.is_ascii_digit()));
    let column = match count {
        0 => None,
        1 => has_marks_alone(&rows).then_some(0),
        _ if is_ontonotes && count > 4 => Some(3),
        _ if counts_words => Some(1),
        _ => (has_tags || has_marks_alone(&rows) && repeats_last(&rows)).then_some(0),
    };
    column.map(|column| (column, count))
}

/// Returns whether the last column has few values, as labels do.
fn repeats_last(rows: &[&str]) -> bool {
    let values: std::collections::HashSet<&str> = rows.iter().filter_map(|row| columns(row).pop()).collect();
    5 * values.len() <= rows.len()
}
