//! Reads text with a separator such as `<|endoftext|>` between documents; blank lines are inside of documents.

use super::text::{Converter, Text};

const SEPARATORS: [&str; 6] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_document|>",
    "<|endofdocument|>",
    "<|eot_id|>",
    "<|startoftext|>",
];

/// Returns whether a line has a separator of documents.
pub(super) fn contains_separator(line: &str) -> bool {
    line.contains("<|") && SEPARATORS.iter().any(|separator| line.contains(separator))
}

/// Converter of such text.
pub(super) struct Delimited;

impl Converter for Delimited {
    fn line(&mut self, line: &str, out: &mut Text) {
        let mut rest = line;
        while rest.contains("<|") {
            let found = SEPARATORS.iter().filter_map(|mark| rest.find(mark).map(|at| (at, mark.len()))).min();
            let Some((at, length)) = found else { break };
            out.push(&rest[..at]);
            out.end_document();
            rest = &rest[at + length..];
        }
        out.push(rest);
    }

    fn end(&mut self, _: &mut Text) {}
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    #[test]
    fn separators_end_documents() {
        let text = "The mill burnt.\n\nIt rained.\n<|endoftext|>\nHe left.<|endoftext|>The end.\n";
        assert_eq!(converted(text), "The mill burnt.\nIt rained.\n\nHe left.\n\nThe end.\n");
    }
}
