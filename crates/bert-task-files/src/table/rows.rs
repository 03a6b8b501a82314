//! Reads the rows of a table in CSV, TSV, JSON or Parquet: texts and labels, as text. The file extension determines the
//! format.
//!
//! Normalizes labels, so that `1` and `1.0`, or `True` and `true`, are the same class in CSV, JSON Lines and Parquet.

use std::path::Path;

use bert_tasks::{Columns, Error, json_type, missing_label};
use bert_text::{ColumnPlace, RowValues, TableReader, TextFormat, value_at};
use serde_json::{Map, Value};

use crate::glue_tsv::{ColumnIndices, check_column_count, table_column};
use crate::lines::{ExampleFile, LabelUse, is_missing, is_missing_class, open_table};

/// File extensions to search for in a folder.
pub(super) const TABLE_FORMATS: [&str; 6] = ["csv", "tsv", "jsonl", "ndjson", "json", "parquet"];

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
    /// The line of the row, or the number of the row from 1 in a Parquet file.
    pub line: u64,
    pub text_a: String,
    pub text_b: Option<String>,
    /// The normalized label ([`normalize_label`]), if the column exists and has a value.
    pub label: Option<String>,
    /// The label as written in the file.
    pub written: Option<String>,
}

/// The columns and the labels of the rows to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRules<'a> {
    pub columns: Columns<'a>,
    /// The kind of the labels, with the known classes.
    pub labels: TableLabels<'a>,
    /// Whether a row may lack a label.
    pub label_use: LabelUse,
}

impl RowRules<'_> {
    /// Returns the normalized label of a row. A known class is a label, even if it is also a mark for a missing label.
    ///
    /// # Errors
    /// Fails when the row has no label, or one that marks a missing label.
    pub(super) fn label(&self, written: &str) -> Result<String, Error> {
        let label = normalize_label(written);
        let is_known = |known: &[String]| known.iter().any(|class| normalize_label(class) == label);
        let missing = match self.labels {
            TableLabels::Classes(known) => is_missing_class(&label) && !is_known(known),
            TableLabels::Scores => is_missing(&label),
        };
        if missing {
            let may_be_class = self.labels != TableLabels::Scores;
            return Err(missing_label(&label, may_be_class));
        }
        Ok(label)
    }
}

/// Returns the names of a table's columns, or the keys of its first JSON object.
///
/// # Errors
/// Fails when the file name does not have the extension of a table, or when the beginning of the file cannot be read.
pub fn column_names(path: &Path) -> Result<Vec<String>, Error> {
    let mut reader = open(path)?;
    if let Some(header) = reader.header()? {
        return Ok(header.names);
    }
    Ok(match reader.next_row()?.map(|row| row.values) {
        Some(RowValues::Object(object)) => object.keys().cloned().collect(),
        _ => Vec::new(),
    })
}

/// Opens a table.
fn open(path: &Path) -> Result<TableReader, Error> {
    match TextFormat::from_path(path) {
        TextFormat::Text => Err(Error::usage(
            "the name of a table must end in .csv, .tsv, .jsonl, .ndjson, .json or .parquet",
        )
        .at(path)),
        format => open_table(path, format),
    }
}

/// Reads all rows of a file.
pub(super) fn read_rows(path: &Path, rules: RowRules<'_>) -> Result<ExampleFile<Row>, Error> {
    let mut reader = open(path)?;
    let rows = ExampleFile { examples: Vec::new(), without_label: 0, misplaced: 0 };
    let mut table = Table { rules, separator: reader.separator(), positions: None, rows };
    if let Some(header) = reader.header()? {
        let found = table.find_columns(&header.names);
        let (positions, places) = found.map_err(|problem| problem.at_line(path, header.line))?;
        reader.select(&places)?;
        table.positions = Some(positions);
    }
    while let Some(row) = reader.next_row()? {
        let added = match &row.values {
            RowValues::Fields(fields) => table.fields(row.line, fields),
            RowValues::Object(object) => table.object(row.line, object),
        };
        added.map_err(|problem| problem.at_line(path, row.line))?;
    }
    table.rows.non_empty(path)
}

struct Table<'a> {
    rules: RowRules<'a>,
    /// The word for the separator of the fields.
    separator: &'static str,
    /// The columns of a table with a header.
    positions: Option<ColumnIndices>,
    rows: ExampleFile<Row>,
}

impl Table<'_> {
    /// Finds the columns in the first row. Returns their indices, and all their places.
    fn find_columns(&self, header: &[String]) -> Result<(ColumnIndices, Vec<ColumnPlace>), Error> {
        let Columns { text_a, text_b, label } = self.rules.columns;
        let label = table_column(header, label);
        let text_a = table_column(header, text_a)?;
        let text_b = text_b.map(|name| table_column(header, name)).transpose()?;
        let label = if self.rules.label_use.are_read() { Some(label?) } else { label.ok() };
        let indices = ColumnIndices {
            columns: header.len(),
            index: None,
            text_a: text_a.index,
            text_b: text_b.map(|place| place.index),
            label: label.map(|place| place.index),
        };
        Ok((indices, [Some(text_a), text_b, label].into_iter().flatten().collect()))
    }

    /// Adds a row of separated values or of Parquet.
    fn fields(&mut self, line: u64, fields: &[Option<String>]) -> Result<(), Error> {
        let Some(positions) = self.positions else { return Ok(()) };
        check_column_count(fields.len(), positions.columns, self.separator)?;
        let value = |at: usize| fields[at].as_deref();
        let text_b = positions.text_b.and_then(value);
        let label = positions.label.and_then(value);
        self.row(line, value(positions.text_a), text_b, label)
    }

    /// Adds a JSON object.
    fn object(&mut self, line: u64, object: &Map<String, Value>) -> Result<(), Error> {
        let Columns { text_a, text_b, label } = self.rules.columns;
        let text = |name: &str| text_at(object, name);
        let label = match value_at(object, label) {
            None | Some(Value::Null) => None,
            Some(Value::String(label)) => Some(label.clone()),
            // Different whole numbers of this size are read as the same `f64`.
            Some(Value::Number(number)) if number.is_f64() && number.as_f64() >= Some(MAX_EXACT) => {
                return Err(wrong(label, "a number that is too large to be exact", "a text in quotes"));
            }
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Some(_) => return Err(wrong(label, "a list or an object", LABEL)),
        };
        let text_a = text(text_a)?;
        let text_b = text_b.map(text).transpose()?.flatten();
        self.row(line, text_a, text_b, label.as_deref())
    }

    /// Adds a row from its values.
    fn row(
        &mut self,
        line: u64,
        text_a: Option<&str>,
        text_b: Option<&str>,
        label: Option<&str>,
    ) -> Result<(), Error> {
        let Columns { text_a: name_a, text_b: name_b, .. } = self.rules.columns;
        let text_a = filled(text_a, name_a, "a text")?;
        if let (Some(name_b), None) = (name_b, text_b) {
            return Err(wrong(name_b, "missing", "a text"));
        }
        let found = self.rules.label(label.unwrap_or_default());
        let found = if self.rules.label_use.are_read() {
            let Some(found) = self.rules.label_use.unless_left_out(found)? else {
                self.rows.without_label += 1;
                return Ok(());
            };
            Some(found)
        } else {
            found.ok()
        };
        let owned = |text: Option<&str>| text.map(str::to_string);
        let text_a = text_a.to_string();
        let text_b = owned(text_b);
        self.rows.examples.push(Row { line, text_a, text_b, label: found, written: owned(label) });
        Ok(())
    }
}

/// Returns a value that must be present and not blank.
fn filled<'a>(value: Option<&'a str>, column: &str, expected: &'static str) -> Result<&'a str, Error> {
    match value {
        None => Err(wrong(column, "missing", expected)),
        Some(text) if text.trim().is_empty() => Err(wrong(column, "empty", expected)),
        Some(text) => Ok(text),
    }
}

/// Returns the text of a key of a JSON object, `None` if the key is missing or null.
pub(crate) fn text_at<'v>(object: &'v Map<String, Value>, key: &str) -> Result<Option<&'v str>, Error> {
    match value_at(object, key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(key, json_type(other), "a text")),
    }
}

/// Returns the error for a value that is missing or of another kind.
pub(crate) fn wrong(column: &str, found: &'static str, expected: &'static str) -> Error {
    Error::data(format!("\"{column}\" is {found}, expected {expected}"))
}

const LABEL: &str = "a label";
/// Numbers of JSON from this value on may be rounded.
const MAX_EXACT: f64 = (1u64 << 53) as f64;

/// Maximum number of digits; more do not fit an `f64` exactly, and such a label is left unchanged.
const MAX_DIGITS: usize = 15;

/// Returns the normalized label. Surrounding white space is removed, Booleans are converted to lower case, and plain
/// decimal numbers lose a plus sign and redundant zeros. Numbers with a leading zero (`007`) are codes and are left
/// unchanged.
pub(super) fn normalize_label(label: &str) -> String {
    let label = label.trim();
    for truth in ["true", "false"] {
        if label.eq_ignore_ascii_case(truth) {
            return truth.to_string();
        }
    }
    decimal(label).map_or_else(|| label.to_string(), |number| number.to_string())
}

/// Returns the value of a plain decimal number; `None` for a code such as `007` or any other text.
fn decimal(label: &str) -> Option<f64> {
    let digits = label.strip_prefix(['+', '-']).unwrap_or(label);
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let is_code = whole.is_empty() || (whole.len() > 1 && whole.starts_with('0'));
    let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if is_code || !are_digits || whole.len() + fraction.len() > MAX_DIGITS {
        return None;
    }
    // Adding zero turns -0 into 0.
    label.parse().ok().map(|value: f64| value + 0.0)
}

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
        let label_use = if labelled { LabelUse::Required } else { LabelUse::Ignored };
        read_rows(&path, RowRules { columns, labels, label_use })
            .map(|file| file.examples)
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

    const NO_LABEL: &str = ":2: there is no label here; `.skip_unlabelled` leaves such examples out";

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
        check_error("a.csv", "text,label\na,\n", NO_LABEL);
        check_error("a.csv", "text,label\n ,1\n", ":2: \"text\" is empty, expected a text");
        let twice = ":1: two columns are named \"text\"; rename one of them";
        check_error("a.csv", "text,label,text\na,1,b\n", twice);
        check_error("a.csv", "text,label\n", ": this file has no examples");
        let format = ": the name of a table must end in .csv, .tsv, .jsonl, .ndjson, .json or .parquet";
        check_error("a.xlsx", "", format);
        let missing = rows("a.csv", "text,label\na,1\n", PAIR, true).unwrap_err();
        assert!(missing.contains("no column \"other\""), "{missing}");
    }

    #[test]
    fn missing_labels_are_never_classes() {
        let read = |name: &str, text: &str, labels, skips| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let label_use = LabelUse::for_labelled(skips);
            let rules = RowRules { columns: SINGLE, labels, label_use };
            let rows = read_rows(&path, rules).map_err(|error| error.to_string());
            rows.map(|rows| rows.examples.into_iter().map(|row| row.label.unwrap()).collect::<Vec<_>>())
        };
        let classes = TableLabels::Classes(&[]);
        for missing in ["-1", "-1.0", "nan", "NA", "n/a", "None", "null", "<NA>", "N/A"] {
            let text = format!("text,label\na,0\nb,{missing}\nc,1\n");
            let error = read("a.csv", &text, classes, false).unwrap_err();
            assert!(error.contains("a.csv:3: the label") && error.contains("`.skip_unlabelled`"), "{error}");
            assert_eq!(read("a.csv", &text, classes, true).unwrap(), ["0", "1"]);
        }
        let json = "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\", \"label\": null}\n{\"text\": \"c\", \"label\": -1}\n";
        assert_eq!(read("a.jsonl", json, classes, true).unwrap(), ["0"]);
        assert!(read("a.jsonl", json, classes, false).unwrap_err().ends_with(NO_LABEL));
        // A given class is a class, and a score may be negative.
        let moods = ["-1", "0", "1"].map(String::from);
        let text = "text,label\na,0\nb,-1\nc,\n";
        assert_eq!(read("a.csv", text, TableLabels::Classes(&moods), true).unwrap(), ["0", "-1"]);
        assert_eq!(read("a.csv", text, TableLabels::Scores, true).unwrap(), ["0", "-1"]);
    }

    #[test]
    fn invalid_json_rows_are_errors() {
        let second = "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}\n";
        check_error("a.jsonl", second, NO_LABEL);
        let large = ":1: \"label\" is a number that is too large to be exact, expected a text in quotes";
        check_error("a.jsonl", &format!("{{\"text\": \"a\", \"label\": {}}}\n", "1".repeat(42)), large);
        let number = ":1: \"text\" is a number, expected a text";
        check_error("a.jsonl", "{\"text\": 5, \"label\": 1}\n", number);
        check_error("a.jsonl", "{\"label\": 1}\n", ":1: \"text\" is missing, expected a text");
        let list = ":1: \"label\" is a list or an object, expected a label";
        check_error("a.jsonl", "{\"text\": \"a\", \"label\": [1]}\n", list);
        let error = rows("a.jsonl", "text\n", SINGLE, true).unwrap_err();
        assert!(error.starts_with("a.jsonl:1: not a JSON object: "), "{error}");
    }

    #[test]
    fn equal_values_have_one_spelling() {
        for (form, written) in [
            ("true", &["True", "TRUE", " true "][..]),
            ("1", &["1.0", "+1", "1.000", "1\u{a0}"]),
            ("0", &["-0", "0.0", "-0.00"]),
            ("-2.5", &["-2.50", " -2.5"]),
            ("0.1", &["0.10"]),
        ] {
            for label in written {
                assert_eq!(normalize_label(label), form, "{label:?}");
            }
        }
        // Codes and words are not numbers.
        for label in ["007", "1e3", "1.", ".5", "nan", "inf", "12345678901234567890", "1,5", "Yes", "größer"]
        {
            assert_eq!(normalize_label(label), label);
        }
    }
}
