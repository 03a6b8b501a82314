//! Reads files with one token per line: CoNLL with a blank line after each sentence, and vertical text with tags.

use super::text::{Converter, Text};

/// Returns whether a line is a comment in a file with columns.
pub(super) fn is_comment(line: &str) -> bool {
    line.starts_with("# ") || line.starts_with("#begin ") || line.starts_with("#end ") || line == "#"
}

/// Returns the columns of a line: separated by tabs, else by spaces.
pub(super) fn columns(line: &str) -> Vec<&str> {
    let line = line.trim_end();
    if line.contains('\t') { line.split('\t').collect() } else { line.split_whitespace().collect() }
}

/// Returns whether a line has this number of columns, of which the last is a tag of an entity: the token `#` looks like
/// a comment.
pub(super) fn is_tagged(line: &str, count: usize) -> bool {
    let columns = columns(line);
    columns.len() == count && columns.last().is_some_and(|word| is_tag(word))
}

/// Returns whether a word is a tag of an entity.
fn is_tag(word: &str) -> bool {
    word == "O" || ["B-", "I-", "E-", "S-", "L-", "U-"].iter().any(|begin| word.starts_with(begin))
}

/// The sentence that is being read.
pub(super) struct Columns {
    /// Index of the column of the words; `None` for vertical text.
    column: Option<usize>,
    /// Number of columns of a token.
    count: usize,
    sentence: String,
    /// Whether the next word follows without a space (`<g/>`).
    glued: bool,
}

impl Columns {
    /// Returns the converter of a file whose tokens have `count` columns, of which `column` is the word.
    pub(super) fn new(column: Option<usize>, count: usize) -> Self {
        Self { column, count, sentence: String::new(), glued: false }
    }

    fn word(&mut self, word: &str) {
        if !self.sentence.is_empty() && !std::mem::take(&mut self.glued) {
            self.sentence.push(' ');
        }
        self.sentence.push_str(word);
    }

    fn end_sentence(&mut self, out: &mut Text) {
        out.push(&self.sentence);
        self.sentence.clear();
    }

    /// Processes a tag of vertical text.
    fn tag(&mut self, tag: &str, out: &mut Text) {
        let name: String =
            tag.trim_start_matches(['<', '/']).chars().take_while(|c| c.is_alphanumeric()).collect();
        match name.as_str() {
            "g" => self.glued = true,
            "s" | "p" | "head" => self.end_sentence(out),
            "doc" | "text" | "file" | "article" => {
                self.end_sentence(out);
                out.end_document();
            }
            _ => {}
        }
    }
}

impl Converter for Columns {
    fn line(&mut self, line: &str, out: &mut Text) {
        let line = line.trim_end();
        if line.is_empty() {
            if self.column.is_some() {
                self.end_sentence(out);
            }
        } else if self.column.is_none() && line.starts_with('<') && line.ends_with('>') {
            self.tag(line, out);
        } else if self.column.is_some() && is_comment(line) && !is_tagged(line, self.count)
            || line.starts_with("-DOCSTART-")
        {
            let begins =
                line.starts_with("-DOCSTART-") || line.starts_with("#begin ") || line.starts_with("# newdoc");
            if begins {
                self.end_sentence(out);
                out.end_document();
            }
        } else if let Some(word) = columns(line).get(self.column.unwrap_or(0)).copied() {
            self.word(word);
        }
    }

    fn end(&mut self, out: &mut Text) {
        self.end_sentence(out);
    }
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    /// A function that returns the line for the number and the text of a word.
    type Row = fn(usize, &str) -> String;

    fn tagged(sentence: &str, row: impl Fn(usize, &str) -> String) -> String {
        sentence.split(' ').enumerate().map(|(at, word)| row(at + 1, word) + "\n").collect::<String>() + "\n"
    }

    #[test]
    fn words_of_columns_become_sentences() {
        let sentences = ["The mill of Harwick burnt .", "It rained , and nobody came .", "He left ."];
        let text = sentences.join("\n") + "\n";
        let rows: [Row; 4] = [
            |_, word| format!("{word} O"),
            |_, word| format!("{word} NN B-NP I-LOC"),
            |at, word| format!("{at}\t{word}\t_\tNN\tNN\t_\t0\tdep"),
            |_, word| word.to_owned(),
        ];
        for row in rows {
            let file: String = sentences.iter().map(|sentence| tagged(sentence, row)).collect();
            assert_eq!(converted(&file), text);
        }
        let documents = sentences.map(|sentence| {
            format!("-DOCSTART- -X- -X- O\n\n{}", tagged(sentence, |_, word| format!("{word} NN I-NP O")))
        });
        assert_eq!(converted(&documents.concat()), sentences.join("\n\n") + "\n");
    }

    #[test]
    fn a_number_sign_is_a_token() {
        let tags = "The O\nmill O\nof O\nHarwick B-LOC\nburnt O\n. O\n\nLook O\n# O\nflood O\nin O\nHarwick B-LOC\n. O\n";
        assert_eq!(converted(tags), "The mill of Harwick burnt .\nLook # flood in Harwick .\n");
        let comments = format!("# text = a flood of type O\n{tags}");
        assert_eq!(converted(&comments), converted(tags));
    }

    #[test]
    fn vertical_text_has_sentences_and_documents() {
        let file = "<doc id=\"1\">\n<p>\n<s>\nThe\tDT\tthe\nmill\tNN\tmill\nburnt\tVBD\tburn\n<g/>\n.\tSENT\t.\n</s>\n<s>\nIt\tPP\tit\n\
            rained\tVBD\train\n.\tSENT\t.\n</s>\n</p>\n</doc>\n<doc id=\"2\">\n<s>\nHe\tPP\the\nleft\tVBD\tleave\n</s>\n</doc>\n";
        assert_eq!(converted(file), "The mill burnt.\nIt rained .\n\nHe left\n\n");
    }
}
