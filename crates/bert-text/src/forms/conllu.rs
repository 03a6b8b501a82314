//! Reads CoNLL-U: the line `# text` of each sentence, or its words if this line is missing.

use super::text::{Converter, Text};

/// The sentence that is being read.
#[derive(Default)]
pub(super) struct Sentences {
    text: Option<String>,
    words: String,
    /// Number of the last word that was read or that a range such as `3-4` covers.
    covered: u32,
    /// Whether a space follows the last word.
    space: bool,
}

impl Sentences {
    fn token(&mut self, line: &str) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [id, form, ..] = columns.as_slice() else { return };
        let range = id.split_once('-');
        let number = range.map_or(*id, |(first, _)| first).parse().ok();
        // An empty node such as `8.1` is not a word of the text.
        let Some(number) = number.filter(|&number: &u32| number > self.covered) else { return };
        self.covered = range.and_then(|(_, last)| last.parse().ok()).unwrap_or(number);
        if self.space {
            self.words.push(' ');
        }
        self.words.push_str(form);
        self.space = !columns.last().is_some_and(|misc| misc.contains("SpaceAfter=No"));
    }

    fn end_sentence(&mut self, out: &mut Text) {
        let done = std::mem::take(self);
        out.push(&done.text.unwrap_or(done.words));
    }
}

impl Converter for Sentences {
    fn line(&mut self, line: &str, out: &mut Text) {
        if line.trim().is_empty() {
            self.end_sentence(out);
        } else if let Some(comment) = line.strip_prefix('#') {
            let comment = comment.trim_start();
            if let Some(text) = comment.strip_prefix("text =").or(comment.strip_prefix("text=")) {
                self.text = Some(text.trim().to_owned());
            } else if comment.starts_with("newdoc") {
                out.end_document();
            }
        } else {
            self.token(line);
        }
    }

    fn end(&mut self, out: &mut Text) {
        self.end_sentence(out);
    }
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    #[test]
    fn sentences_are_their_text_or_their_words() {
        let row = |id: &str, form: &str, misc: &str| format!("{id}\t{form}\t_\tX\t_\t_\t0\tdep\t_\t{misc}\n");
        let words = [
            row("1-2", "Zum", "_"),
            row("1", "Zu", "_"),
            row("2", "dem", "_"),
            row("3", "Haus", "SpaceAfter=No"),
            row("3.1", "E", "_"),
            row("4", "!", "_"),
        ];
        let treebank = format!(
            "# newdoc id = a\n# sent_id = 1\n# text = The  mill\u{a0}burnt.\n{}{}\n# newpar\n# sent_id = 2\n{}\n# newdoc\n# text = It rained.\n{}\n",
            row("1", "The", "_"),
            row("2", "mill", "_"),
            words.concat(),
            row("1", "It", "_")
        );
        assert_eq!(converted(&treebank), "The  mill\u{a0}burnt.\nZum Haus!\n\nIt rained.\n");
    }
}
