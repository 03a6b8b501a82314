//! Reads records of MEDLINE (PubMed) and RIS: title and abstract, one document per record.

use super::text::{Converter, Text};

/// The record that is being read.
#[derive(Default)]
pub(super) struct Records {
    field: String,
    title: String,
    text: String,
    is_record: bool,
}

/// Splits a line such as `AB  - Text` into the name of the field and its text. The name is padded to four characters.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, text) = line.split_at_checked(4)?;
    let text = text.strip_prefix('-').filter(|text| text.is_empty() || text.starts_with(' '))?;
    let name = name.trim_end();
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    (is_name && line.starts_with(|c: char| c.is_ascii_uppercase())).then_some((name, text.trim()))
}

impl Records {
    fn end_record(&mut self, out: &mut Text) {
        let done = std::mem::take(self);
        if done.text.is_empty() {
            out.counts.left_out += u64::from(done.is_record);
            return;
        }
        out.push(&done.title);
        out.push(&done.text);
        out.end_document();
    }
}

impl Converter for Records {
    fn line(&mut self, line: &str, out: &mut Text) {
        let continued = line.starts_with("  ");
        let (name, text) = match field(line) {
            Some((name, text)) if !continued => {
                if matches!(name, "PMID" | "TY" | "ER") {
                    self.end_record(out);
                }
                self.is_record |= name != "ER";
                name.clone_into(&mut self.field);
                (name.to_owned(), text)
            }
            _ => (self.field.clone(), line.trim()),
        };
        let into = match name.as_str() {
            "TI" | "T1" => &mut self.title,
            "AB" | "N2" => &mut self.text,
            _ => return,
        };
        if !into.is_empty() && !text.is_empty() {
            into.push(' ');
        }
        into.push_str(text);
    }

    fn end(&mut self, out: &mut Text) {
        self.end_record(out);
    }
}

#[cfg(test)]
mod tests {
    use crate::forms::converted;

    #[test]
    fn titles_and_abstracts_are_documents() {
        let medline = "\nPMID- 1\nOWN - NLM\nTI  - The mill of\n      Harwick.\nAB  - BACKGROUND: It burnt. AB - is no\n      field here.\nFAU - Miller, A\n\n\
            PMID- 2\nTI  - Without an abstract.\n\nPMID- 3\nTI  - Floods.\nAB  - It rained.\n";
        let text =
            "The mill of Harwick.\nBACKGROUND: It burnt. AB - is no field here.\n\nFloods.\nIt rained.\n\n";
        assert_eq!(converted(medline), text);
        let ris = "TY  - JOUR\nT1  - Floods.\nN2  - It rained.\nER  - \n\nTY  - JOUR\nTI  - Mills.\nAB  - One burnt.\nER  -\n";
        assert_eq!(converted(ris), "Floods.\nIt rained.\n\nMills.\nOne burnt.\n\n");
    }

    #[test]
    fn words_with_hyphens_are_not_fields() {
        let record = "TY  - JOUR\nTI  - The mill\nAB  - It closed in spring.\nCOVID-19 patients were treated.\nT2-weighted images were made.\nKW  - mill\nER  - \n";
        let text = "The mill\nIt closed in spring. COVID-19 patients were treated. T2-weighted images were made.\n\n";
        assert_eq!(converted(record), text);
    }
}
