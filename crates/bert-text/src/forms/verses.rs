//! Reads Bibles with one verse per line after its number: a document for each chapter.
//!
//! [`Delimited`] reads text with a separator such as `<|endoftext|>` between documents; blank lines are inside
//! documents.

use super::columns::is_comment;
use super::text::{Converter, Text};
use super::wrapped::Paragraphs;

/// The chapter that is being read.
#[derive(Default)]
pub(super) struct Verses {
    chapter: String,
}

/// Returns the chapter and the text of a line such as `40001001`, tab, text, or `GEN 1:1`, tab, text.
pub(super) fn verse(line: &str) -> Option<(&str, &str)> {
    let (number, text) = line.split_once('\t')?;
    let number = number.trim();
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if number.len() == 8 && is_digits(number) {
        return Some((&number[..5], text));
    }
    let (chapter, verse) = number.rsplit_once([':', '.'])?;
    let last = chapter.rsplit([' ', '.']).next()?;
    let has_book = chapter.len() > last.len() && chapter.contains(char::is_alphabetic);
    (has_book && is_digits(last) && is_digits(verse)).then_some((chapter, text))
}

impl Converter for Verses {
    fn line(&mut self, line: &str, out: &mut Text) {
        match verse(line) {
            Some((chapter, text)) => {
                if chapter != self.chapter {
                    out.end_document();
                    chapter.clone_into(&mut self.chapter);
                }
                out.push(text);
            }
            None if is_comment(line) => {}
            None => out.push(line),
        }
    }

    fn end(&mut self, _: &mut Text) {}
}

const SEPARATORS: [&str; 6] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_document|>",
    "<|endofdocument|>",
    "<|eot_id|>",
    "<|startoftext|>",
];

/// Returns whether a line has a separator of documents.
pub(super) fn are_delimited(lines: &[&str]) -> bool {
    let has =
        |line: &&str| line.contains("<|") && SEPARATORS.iter().any(|separator| line.contains(separator));
    lines.iter().any(has)
}

/// Converter of text with separators between documents.
pub(super) struct Delimited {
    /// The converter of the lines between separators, if they break inside sentences.
    wrapped: Option<Paragraphs>,
}

impl Delimited {
    /// Returns the converter of a file that begins with these lines, which are joined to paragraphs if `is_wrapped` is set.
    pub(super) fn new(lines: &[&str], is_wrapped: bool) -> Self {
        Self { wrapped: is_wrapped.then(|| Paragraphs::inside_documents(lines)) }
    }

    fn text(&mut self, line: &str, out: &mut Text) {
        match &mut self.wrapped {
            Some(paragraphs) => paragraphs.line(line, out),
            None => out.push(line),
        }
    }
}

impl Converter for Delimited {
    fn line(&mut self, line: &str, out: &mut Text) {
        let mut rest = line;
        while rest.contains("<|") {
            let found = SEPARATORS.iter().filter_map(|mark| rest.find(mark).map(|at| (at, mark.len()))).min();
            let Some((at, length)) = found else { break };
            if !rest[..at].trim().is_empty() {
                self.text(&rest[..at], out);
            }
            if let Some(paragraphs) = &mut self.wrapped {
                paragraphs.end_paragraph(out);
            }
            out.end_document();
            rest = &rest[at + length..];
        }
        if !rest.is_empty() || line.is_empty() {
            self.text(rest, out);
        }
    }

    fn end(&mut self, out: &mut Text) {
        if let Some(paragraphs) = &mut self.wrapped {
            paragraphs.end(out);
            out.counts.is_delimited = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    #[test]
    fn chapters_are_documents() {
        let numbered = "# language_name: English\n40001001\tThe mill burnt.\n40001002\tIt rained.\n40001003\t\n40002001\tHe left.\n40002002\tThey came.\n";
        let named = numbered.replace("40001", "GEN 1:").replace("40002", "GEN 2:");
        for text in [numbered, &named] {
            assert_eq!(converted(text), "The mill burnt.\nIt rained.\n\nHe left.\nThey came.\n");
        }
    }

    #[test]
    fn wrapped_lines_between_separators_are_joined() {
        let paragraph = "The miller opened the sluice before dawn, because the\nriver had risen during the night and nobody knew how\n\
            long the old gate would hold. Water ran over the\nmeadow.\n";
        let text = format!("{}\n", paragraph.trim().replace('\n', " "));
        let file = format!("{paragraph}\n{paragraph}<|endoftext|>\n").repeat(6);
        assert_eq!(converted(&file), format!("{text}{text}\n").repeat(6));
    }

    #[test]
    fn separators_end_documents() {
        let text = "The mill burnt.\n\nIt rained.\n<|endoftext|>\nHe left.<|endoftext|>The end.\n";
        assert_eq!(converted(text), "The mill burnt.\nIt rained.\n\nHe left.\n\nThe end.\n");
    }
}
