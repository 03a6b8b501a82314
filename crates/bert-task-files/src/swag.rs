//! Reads SWAG's files: a beginning and four endings to choose from, comma-separated, quoted as in RFC 4180.
//!
//! As in `run_swag.py` of `transformers`, the first text of a choice is `sent1`, the second `sent2` with one of the
//! endings.

use std::path::Path;

use bert_tasks::{Error, Example, Task};
use bert_text::{RowValues, TextFormat};

use super::lines::open_table;
use crate::glue_tsv::{check_column_count, column_index, label_of};
use crate::lines::{ExampleFile, LabelUse};

const ENDINGS: [&str; 4] = ["ending0", "ending1", "ending2", "ending3"];

/// Returns the examples of a file, as [`crate::read_examples`] does.
pub(crate) fn read_swag(task: &Task, path: &Path, labels: LabelUse) -> Result<ExampleFile<Example>, Error> {
    let mut table = open_table(path, TextFormat::Csv)?;
    let mut examples = Vec::new();
    let mut without_label = 0;
    if let Some(header) = table.header()? {
        let at = |name: &&str| {
            column_index(&header.names, name).map_err(|problem| problem.at_line(path, header.line))
        };
        let endings = ENDINGS.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let label = labels.are_read().then(|| at(&"label")).transpose()?;
        let sent1 = at(&"sent1")?;
        let sent2 = at(&"sent2")?;
        let example = |row: usize, fields: &[String]| {
            check_column_count(fields.len(), header.names.len(), "comma")?;
            let choice = |&at: &usize| format!("{} {}", fields[sent2], fields[at]).trim().to_string();
            Ok(Example {
                index: row.to_string(),
                text_a: fields[sent1].clone(),
                text_b: None,
                choices: endings.iter().map(choice).collect(),
                label: label.map(|at| label_of(task, &fields[at])).transpose()?,
            })
        };
        // The first row has the names of the columns, so it is not returned as an example.
        table.select(&[])?;
        while let Some(row) = table.next_row()? {
            let RowValues::Fields(fields) = row.values else { continue };
            let fields: Vec<String> = fields.into_iter().flatten().collect();
            let example = labels.unless_left_out(example(examples.len(), &fields));
            match example.map_err(|problem| problem.at_line(path, row.line))? {
                Some(example) => examples.push(example),
                None => without_label += 1,
            }
        }
    }
    ExampleFile { examples, without_label, misplaced: 0 }.non_empty(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bert_tasks::Label;

    const HEADER: &str = ",video-id,startphrase,sent1,sent2,ending0,ending1,ending2,ending3,label\n";

    fn read(text: &str, has_labels: bool) -> Result<Vec<Example>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("val.csv");
        std::fs::write(&path, text).unwrap();
        let folder_prefix = format!("{}/", folder.path().display());
        crate::read_file(&Task::Swag, &path, has_labels)
            .map_err(|error| error.to_string().replace(&folder_prefix, ""))
    }

    #[test]
    fn choices_join_sent2_and_each_ending() {
        let row =
            "0,v,x,A cook stands in a kitchen.,She,\"cuts, then fries an onion.\",swims.,flies.,sleeps.,0\n";
        let read = read(&format!("{HEADER}{row}"), true).unwrap();
        assert_eq!(read[0].text_a, "A cook stands in a kitchen.");
        assert_eq!(read[0].choices[..2], ["She cuts, then fries an onion.", "She swims."]);
        assert_eq!((read[0].choices.len(), read[0].label), (4, Some(Label::Class(0))));
    }

    #[test]
    fn errors_name_the_line() {
        let row = "0,v,x,a,b,c,d,e,f,";
        let error = |text: String, has_labels| read(&text, has_labels).unwrap_err();
        let labelled = error(format!("{HEADER}{row}4\n"), true);
        assert!(
            labelled.starts_with("val.csv:2: unknown label \"4\"; the labels of task swag are 0, 1, 2, 3"),
            "{labelled}"
        );
        let missing = error(format!("{HEADER}{row}\n"), true);
        assert!(missing.starts_with("val.csv:2: there is no label here; `.skip_unlabelled`"), "{missing}");
        assert!(error(format!("{HEADER}0,v\n"), true).starts_with("val.csv:2: 2 comma-separated columns"));
        assert!(error("sent1,sent2\n".into(), false).starts_with("val.csv:1: no column \"ending0\""));
        assert!(error(HEADER.into(), true).contains("no examples"));
        // Without labels, the column is optional.
        assert_eq!(read(&format!("{HEADER}{row}4\n"), false).unwrap()[0].label, None);
    }
}
