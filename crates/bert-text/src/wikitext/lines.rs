//! Tidies the lines of a page after its markup is removed: list markers, headings, remains of removed text.

use crate::forms::line_breaks::ends_sentence;

/// Returns the lines of text: paragraphs, and the list items that are sentences. Headings, rules, lines without letters
/// and sections without a paragraph are removed. Such sections list books, links or names.
pub(super) fn tidy_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Start of the section in `out`, and whether it has a paragraph.
    let mut section = 0;
    let mut has_paragraph = false;
    for line in text.split('\n').map(str::trim) {
        if is_heading(line) {
            if !has_paragraph {
                out.truncate(section);
            }
            (section, has_paragraph) = (out.len(), false);
            continue;
        }
        // Such a line is a cell of a table that a template began.
        let is_cell = line.starts_with('|') || line.starts_with('!') && !ends_sentence(line);
        if line.is_empty() || is_cell {
            continue;
        }
        let start = out.len();
        append_tidy(line.trim_start_matches(['*', '#', ';', ':', ' ', '\t']), &mut out);
        let is_item = line.starts_with(['*', '#', ';']);
        if out[start..].chars().any(char::is_alphanumeric) && (!is_item || is_sentence(&out[start..])) {
            out.push('\n');
            has_paragraph |= !is_item;
        } else {
            out.truncate(start);
        }
    }
    if !has_paragraph {
        out.truncate(section);
    }
    out
}
/// Returns whether a line is a heading, such as `== History ==`.
fn is_heading(line: &str) -> bool {
    line.len() > 2 && line.starts_with('=') && line.ends_with('=')
}

/// Appends a line with single spaces, without empty brackets and without spaces before punctuation, which removed
/// references and templates leave.
fn append_tidy(line: &str, out: &mut String) {
    let start = out.len();
    // Positions in `out` of brackets that have had no letter since.
    let mut open: Vec<usize> = Vec::new();
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            c if is_invisible(c) => {}
            c if c.is_whitespace() => {
                if out.len() > start && !out.ends_with([' ', '(', '（']) {
                    out.push(' ');
                }
            }
            '(' | '（' => {
                open.push(out.len());
                out.push(c);
            }
            ')' | '）' => {
                let empty = open.pop();
                out.truncate(empty.unwrap_or(out.len()));
                trim_blanks(out, start);
                if empty.is_none() {
                    out.push(c);
                } else if out.len() > start {
                    out.push(' ');
                }
            }
            ',' | '.' | ';' => {
                // The space before `.22 calibre` stays.
                if characters.peek().is_none_or(|next| next.is_whitespace() || *next == ')') {
                    trim_blanks(out, start);
                }
                // `(; born 1950)` begins with a removed template.
                let is_first = c != '.' && out[start..].ends_with(['(', '（']);
                // Two commas enclose a removed part.
                let is_second = c == ',' && out.ends_with(',');
                if !is_first && !is_second && out.len() > start {
                    out.push(c);
                }
            }
            c => {
                if c.is_alphanumeric() {
                    open.clear();
                }
                out.push(c);
            }
        }
    }
    trim_blanks(out, start);
}

fn trim_blanks(out: &mut String, start: usize) {
    let end = out[start..].trim_end_matches(' ').len();
    out.truncate(start + end);
}

/// Returns whether a character has neither width nor meaning: soft hyphens, byte-order marks, marks of direction.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{feff}' | '\u{200e}' | '\u{200f}')
}

/// Returns whether a list item is text: it ends like a sentence, or with a comma, a semicolon or a colon.
fn is_sentence(item: &str) -> bool {
    let end = item.trim_end_matches(['"', '\'', ')', ']', '”', '’', '»', '“', '）', '」', '』']);
    end.ends_with([
        '.', '!', '?', ';', ',', ':', '。', '！', '？', '；', '．', '…', '।', '۔', '؟', '።', '։', '။',
    ])
}
