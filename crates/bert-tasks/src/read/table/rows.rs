//! Reads the rows of a table in CSV, TSV, JSON Lines or Parquet: texts and labels, as text. The file extension
//! determines the format.

use std::path::Path;

use bert_data::parquet::text_rows::text_rows;
use bert_storage::Locate;
use serde_json::{Map, Value};

use super::super::lines::{for_each_line, non_empty};
use super::csv::for_each_record;
use super::normalize_label::normalize_label;
use crate::read::glue_tsv::{ColumnIndices, check_column_count, column_index};
use crate::task::error::{TaskError, TaskProblem, json_type};
use crate::task::spec::Columns;

/// File extensions to search for in a folder.
pub(super) const TABLE_FORMATS: [&str; 4] = ["csv", "tsv", "jsonl", "parquet"];

/// The kind of a table's labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TableLabels<'a> {
    /// Classes; if empty, the labels of the training file, sorted.
    Classes(&'a [String]),
    /// Scores.
    Scores,
}

/// One row.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    /// Its line, or its number from 1 in a Parquet file.
    pub line: u64,
    pub text_a: String,
    pub text_b: Option<String>,
    /// The normalized label ([`normalize_label`]), if the column exists and has a value.
    pub label: Option<String>,
    /// The label as written in the file.
    pub written: Option<String>,
}

/// Names and labels of the rows to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRules<'a> {
    pub columns: Columns<'a>,
    /// The kind of the labels, with the known classes.
    pub labels: TableLabels<'a>,
    /// Whether each row must have a label.
    pub labelled: bool,
    /// Whether rows without a label are left out.
    pub skip_unlabelled: bool,
}

impl RowRules<'_> {
    /// Returns whether a label marks a row without one: the words of pandas, and -1, which `datasets` writes for classes. A
    /// known class is a label.
    pub(super) fn is_missing(&self, label: &str) -> bool {
        match self.labels {
            TableLabels::Classes(known) => {
                let is_known = known.iter().any(|class| normalize_label(class) == label);
                !is_known && (label == "-1" || MISSING.contains(&label))
            }
            TableLabels::Scores => MISSING.contains(&label),
        }
    }
}

/// Words that pandas and `datasets` write for a missing value.
const MISSING: [&str; 11] =
    ["nan", "NaN", "NAN", "None", "null", "Null", "NULL", "<NA>", "N/A", "#N/A", "NaT"];

/// Reads all rows of a file.
pub(super) fn read_rows(path: &Path, rules: RowRules<'_>) -> Result<Vec<Row>, TaskError> {
    let mut table = Table { rules, positions: None, rows: Vec::new() };
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "csv" => for_each_record(path, |line, fields| table.record(line, fields, "comma"))?,
        "tsv" => for_each_line(path, |line, text| {
            let fields: Vec<&str> = text.split('\t').collect();
            table.record(line, &fields, "tab")
        })?,
        "jsonl" | "ndjson" => for_each_line(path, |line, text| table.object(line, text))?,
        "parquet" => table.parquet(path)?,
        _ => return Err(TaskProblem::UnknownTableFormat.located(path).into()),
    }
    non_empty(table.rows, path)
}

struct Table<'a> {
    rules: RowRules<'a>,
    /// Set by the header.
    positions: Option<ColumnIndices>,
    rows: Vec<Row>,
}

/// Returns the column indices in a header.
fn find_columns(
    columns: Columns<'_>,
    labelled: bool,
    header: &[impl AsRef<str>],
) -> Result<ColumnIndices, TaskProblem> {
    let label = column_index(header, columns.label);
    Ok(ColumnIndices {
        columns: header.len(),
        index: None,
        text_a: column_index(header, columns.text_a)?,
        text_b: columns.text_b.map(|name| column_index(header, name)).transpose()?,
        label: if labelled { Some(label?) } else { label.ok() },
    })
}

impl Table<'_> {
    /// Reads the header, or a row below it.
    fn record(
        &mut self,
        line: u64,
        fields: &[impl AsRef<str>],
        separator: &'static str,
    ) -> Result<(), TaskProblem> {
        let Some(positions) = self.positions else {
            self.positions = Some(find_columns(self.rules.columns, self.rules.labelled, fields)?);
            return Ok(());
        };
        check_column_count(fields.len(), positions.columns, separator)?;
        let value = |at: usize| Some(fields[at].as_ref());
        let text_b = positions.text_b.and_then(value);
        let label = positions.label.and_then(value);
        self.row(line, value(positions.text_a), text_b, label)
    }

    fn object(&mut self, line: u64, text: &str) -> Result<(), TaskProblem> {
        let object: Map<String, Value> = serde_json::from_str(text)?;
        let Columns { text_a, text_b, label } = self.rules.columns;
        let text = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(wrong(name, json_type(other), "a text")),
        };
        let label = match object.get(label) {
            None | Some(Value::Null) => None,
            Some(Value::String(label)) => Some(label.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Some(_) => return Err(wrong(label, "a list or an object", LABEL)),
        };
        let text_a = text(text_a)?;
        let text_b = text_b.map(text).transpose()?.flatten();
        self.row(line, text_a, text_b, label.as_deref())
    }

    fn parquet(&mut self, path: &Path) -> Result<(), TaskError> {
        let RowRules { columns, labelled, .. } = self.rules;
        let choose = |names: &[String]| {
            let found = find_columns(columns, labelled, names).map_err(|problem| problem.at_line(path, 1))?;
            Ok([Some(found.text_a), found.text_b, found.label].into_iter().flatten().collect())
        };
        let texts = 1 + usize::from(columns.text_b.is_some());
        text_rows(path, choose, |row, values| {
            let text_b = values[1..texts].first().copied().flatten();
            let added = self.row(row, values[0], text_b, values.get(texts).copied().flatten());
            added.map_err(|problem| problem.at_line(path, row).into())
        })
    }

    /// Adds a row from its values.
    fn row(
        &mut self,
        line: u64,
        text_a: Option<&str>,
        text_b: Option<&str>,
        label: Option<&str>,
    ) -> Result<(), TaskProblem> {
        let Columns { text_a: name_a, text_b: name_b, label: name } = self.rules.columns;
        let text_a = filled(text_a, name_a, "a text")?;
        if let (Some(name_b), None) = (name_b, text_b) {
            return Err(wrong(name_b, "missing", "a text"));
        }
        let found = match label {
            Some(label) if self.rules.is_missing(&normalize_label(label)) => {
                Err(TaskProblem::MissingLabel(label.trim().to_string()))
            }
            _ => filled(label, name, LABEL).map(normalize_label),
        };
        let found = match found {
            Ok(label) => Some(label),
            Err(_) if !self.rules.labelled => None,
            Err(_) if self.rules.skip_unlabelled => return Ok(()),
            Err(problem) => return Err(problem),
        };
        let owned = |text: Option<&str>| text.map(str::to_string);
        let text_a = text_a.to_string();
        let text_b = owned(text_b);
        self.rows.push(Row { line, text_a, text_b, label: found, written: owned(label) });
        Ok(())
    }
}

/// Returns a value that must be present and not blank.
fn filled<'a>(value: Option<&'a str>, column: &str, expected: &'static str) -> Result<&'a str, TaskProblem> {
    match value {
        None => Err(wrong(column, "missing", expected)),
        Some(text) if text.trim().is_empty() => Err(wrong(column, "empty", expected)),
        Some(text) => Ok(text),
    }
}

fn wrong(column: &str, found: &'static str, expected: &'static str) -> TaskProblem {
    TaskProblem::WrongValue { column: column.to_string(), found, expected }
}

const LABEL: &str = "a label";

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Columns<'static> = Columns { text_a: "text", text_b: Some("other"), label: "label" };
    const SINGLE: Columns<'static> = Columns { text_b: None, ..PAIR };

    fn rows(name: &str, text: &str, columns: Columns<'_>, labelled: bool) -> Result<Vec<Row>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let labels = TableLabels::Classes(&[]);
        read_rows(&path, RowRules { columns, labels, labelled, skip_unlabelled: false })
            .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    fn row(line: u64, text_a: &str, text_b: Option<&str>, label: Option<&str>) -> Row {
        let owned = |text: Option<&str>| text.map(str::to_string);
        Row { line, text_a: text_a.into(), text_b: owned(text_b), label: owned(label), written: owned(label) }
    }

    #[test]
    fn every_text_format_gives_the_same_rows() {
        let tables = [
            ("a.csv", "label,id,text,other\nyes,1,\"a, \"\"b\"\"\",c\nno,2,d,e\n"),
            ("a.TSV", "text\tlabel\tother\na, \"b\"\tyes\tc\nd\tno\te\n"),
            (
                "a.jsonl",
                "{\"text\": \"a, \\\"b\\\"\", \"other\": \"c\", \"label\": \"yes\"}\n\
                 {\"label\": \"no\", \"other\": \"e\", \"text\": \"d\", \"x\": [1]}\n",
            ),
        ];
        for (name, text) in tables {
            let found = rows(name, text, PAIR, true).unwrap();
            let texts: Vec<_> = found
                .iter()
                .map(|row| (row.text_a.as_str(), row.text_b.as_deref(), row.label.as_deref()))
                .collect();
            assert_eq!(texts, [("a, \"b\"", Some("c"), Some("yes")), ("d", Some("e"), Some("no"))], "{name}");
        }
    }

    #[test]
    fn labels_are_optional_for_prediction() {
        assert_eq!(rows("a.csv", "text\na\n", SINGLE, false).unwrap(), [row(2, "a", None, None)]);
        let numbers =
            "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": true}\n{\"text\": \"c\"}\n";
        assert_eq!(
            rows("a.ndjson", numbers, SINGLE, false).unwrap(),
            [row(1, "a", None, Some("1")), row(2, "b", None, Some("true")), row(3, "c", None, None),]
        );
    }

    fn check_error(name: &str, text: &str, message: &str) {
        assert_eq!(rows(name, text, SINGLE, true), Err(format!("{name}{message}")));
    }

    #[test]
    fn invalid_separated_rows_are_errors() {
        let missing =
            ":1: no column \"label\" in the header (columns here: text, labels; did you mean `labels`?)";
        check_error("a.csv", "text,labels\na,1\n", missing);
        let few = ":3: 1 comma-separated columns, expected 2 as in the first row";
        check_error("a.csv", "text,label\na,1\nb\n", few);
        let many = ":2: 3 tab-separated columns, expected 2 as in the first row";
        check_error("a.tsv", "text\tlabel\na\t1\t2\n", many);
        check_error("a.csv", "text,label\na,\n", ":2: \"label\" is empty, expected a label");
        check_error("a.csv", "text,label\n ,1\n", ":2: \"text\" is empty, expected a text");
        let twice = ":1: two columns are named \"text\"; rename one of them";
        check_error("a.csv", "text,label,text\na,1,b\n", twice);
        check_error("a.csv", "text,label\n", ": this file has no examples");
        let format = ": the name of a table must end in .csv, .tsv, .jsonl, .ndjson or .parquet";
        check_error("a.xlsx", "", format);
        let missing = rows("a.csv", "text,label\na,1\n", PAIR, true).unwrap_err();
        assert!(missing.contains("no column \"other\""), "{missing}");
    }

    #[test]
    fn missing_labels_are_never_classes() {
        let read = |name: &str, text: &str, labels, skip_unlabelled| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let rules = RowRules { columns: SINGLE, labels, labelled: true, skip_unlabelled };
            let rows = read_rows(&path, rules).map_err(|error| error.to_string());
            rows.map(|rows| rows.into_iter().map(|row| row.label.unwrap()).collect::<Vec<_>>())
        };
        let classes = TableLabels::Classes(&[]);
        for missing in ["-1", "-1.0", "nan", "NaN", "None", "null", "<NA>", "N/A"] {
            let text = format!("text,label\na,0\nb,{missing}\nc,1\n");
            let error = read("a.csv", &text, classes, false).unwrap_err();
            assert!(error.contains("a.csv:3: the label") && error.contains("--skip-unlabelled"), "{error}");
            assert_eq!(read("a.csv", &text, classes, true).unwrap(), ["0", "1"]);
        }
        let json = "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\", \"label\": null}\n{\"text\": \"c\", \"label\": -1}\n";
        assert_eq!(read("a.jsonl", json, classes, true).unwrap(), ["0"]);
        assert!(
            read("a.jsonl", json, classes, false)
                .unwrap_err()
                .ends_with(":2: \"label\" is missing, expected a label")
        );
        // A given class is a class, and a score may be negative.
        let moods = ["-1", "0", "1"].map(String::from);
        let text = "text,label\na,0\nb,-1\nc,\n";
        assert_eq!(read("a.csv", text, TableLabels::Classes(&moods), true).unwrap(), ["0", "-1"]);
        assert_eq!(read("a.csv", text, TableLabels::Scores, true).unwrap(), ["0", "-1"]);
    }

    #[test]
    fn invalid_json_rows_are_errors() {
        let second = "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}\n";
        check_error("a.jsonl", second, ":2: \"label\" is missing, expected a label");
        let number = ":1: \"text\" is a number, expected a text";
        check_error("a.jsonl", "{\"text\": 5, \"label\": 1}\n", number);
        check_error("a.jsonl", "{\"label\": 1}\n", ":1: \"text\" is missing, expected a text");
        let list = ":1: \"label\" is a list or an object, expected a label";
        check_error("a.jsonl", "{\"text\": \"a\", \"label\": [1]}\n", list);
        let error = rows("a.jsonl", "text\n", SINGLE, true).unwrap_err();
        assert!(error.starts_with("a.jsonl:1: not a JSON object: "), "{error}");
    }
}
