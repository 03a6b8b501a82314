//! Reads the rows of a table in CSV, TSV, JSON Lines or Parquet: texts with their labels, as text. The end of the
//! file's name says which format it is.

use std::path::Path;

use bert_data::parquet::text_rows::text_rows;
use serde_json::{Map, Value};

use super::super::error::TaskError;
use super::super::lines::for_each_line;
use super::csv::CsvReader;
use crate::tasks::spec::Columns;

/// The forms of a table and the endings of their names; the first of each is looked for in a folder.
pub(super) const ENDINGS: [(Form, &[&str]); 4] = [
    (Form::Csv, &["csv"]),
    (Form::Tsv, &["tsv"]),
    (Form::JsonLines, &["jsonl", "ndjson"]),
    (Form::Parquet, &["parquet"]),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Csv,
    Tsv,
    JsonLines,
    Parquet,
}

/// One row.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    /// Its line; of a Parquet file its number from 1.
    pub(super) line: usize,
    pub(super) text_a: String,
    pub(super) text_b: Option<String>,
    /// Where the column is there and has a value.
    pub(super) label: Option<String>,
}

/// All rows of a file; with `labelled` each must have a label.
pub(super) fn read_rows(path: &Path, columns: Columns, labelled: bool) -> Result<Vec<Row>, TaskError> {
    let mut table = Table { path, columns, labelled, rows: Vec::new() };
    let end = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match ENDINGS.iter().find(|(_, endings)| endings.contains(&end.as_str())) {
        Some((Form::Csv, _)) => table.csv()?,
        Some((Form::Tsv, _)) => table.tsv()?,
        Some((Form::JsonLines, _)) => table.json_lines()?,
        Some((Form::Parquet, _)) => table.parquet()?,
        None => return Err(TaskError::UnknownForm { path: path.into() }),
    }
    match table.rows.is_empty() {
        true => Err(TaskError::NoExamples { path: path.into() }),
        false => Ok(table.rows),
    }
}

struct Table<'a> {
    path: &'a Path,
    columns: Columns,
    labelled: bool,
    rows: Vec<Row>,
}

/// Places of the columns in a header.
#[derive(Clone, Copy)]
struct Places {
    columns: usize,
    text_a: usize,
    text_b: Option<usize>,
    label: Option<usize>,
}

impl Places {
    fn find(path: &Path, columns: Columns, labelled: bool, header: &[String]) -> Result<Self, TaskError> {
        let find = |name: &str| header.iter().position(|field| field == name);
        let missing =
            |column| TaskError::MissingColumn { path: path.into(), column, header: header.to_vec() };
        let need = |name| find(name).ok_or_else(|| missing(name));
        Ok(Places {
            columns: header.len(),
            text_a: need(columns.text_a)?,
            text_b: columns.text_b.map(need).transpose()?,
            label: if labelled { Some(need(columns.label)?) } else { find(columns.label) },
        })
    }
}

impl Table<'_> {
    fn csv(&mut self) -> Result<(), TaskError> {
        let (path, mut places) = (self.path, None);
        let mut reader = CsvReader::new(path);
        for_each_line(path, |line, text| match reader.line(line, text)? {
            Some((line, fields)) => self.record(&mut places, line, &fields, "comma"),
            None => Ok(()),
        })?;
        reader.end()
    }

    fn tsv(&mut self) -> Result<(), TaskError> {
        let mut places = None;
        for_each_line(self.path, |line, text| {
            let fields: Vec<String> = text.split('\t').map(str::to_string).collect();
            self.record(&mut places, line, &fields, "tab")
        })
    }

    /// The header, or a row under it.
    fn record(
        &mut self,
        places: &mut Option<Places>,
        line: usize,
        fields: &[String],
        separator: &'static str,
    ) -> Result<(), TaskError> {
        let Some(places) = *places else {
            *places = Some(Places::find(self.path, self.columns, self.labelled, fields)?);
            return Ok(());
        };
        if fields.len() != places.columns {
            let (path, found, columns) = (self.path.into(), fields.len(), places.columns);
            return Err(TaskError::WrongFields { path, line, found, separator, columns });
        }
        let value = |at: usize| Some(fields[at].as_str());
        self.row(line, value(places.text_a), places.text_b.and_then(value), places.label.and_then(value))
    }

    fn json_lines(&mut self) -> Result<(), TaskError> {
        for_each_line(self.path, |line, text| {
            let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
                TaskError::NotJson { path: self.path.into(), line, reason: error.to_string() }
            })?;
            let Columns { text_a, text_b, label } = self.columns;
            let text = |name: &str| match object.get(name) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.as_str())),
                Some(_) => Err(self.wrong(line, name, "no text", "a text")),
            };
            let label = match object.get(label) {
                None | Some(Value::Null) => None,
                Some(Value::String(label)) => Some(label.clone()),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
                Some(_) => return Err(self.wrong(line, label, "a list or an object", LABEL)),
            };
            let (text_a, text_b) = (text(text_a)?, text_b.map(text).transpose()?.flatten());
            self.row(line, text_a, text_b, label.as_deref())
        })
    }

    fn parquet(&mut self) -> Result<(), TaskError> {
        let (path, columns, labelled) = (self.path, self.columns, self.labelled);
        let choose = |names: &[String]| {
            let places = Places::find(path, columns, labelled, names)?;
            Ok([Some(places.text_a), places.text_b, places.label].into_iter().flatten().collect())
        };
        let texts = 1 + usize::from(columns.text_b.is_some());
        text_rows(path, choose, |row, values| {
            let text_b = values[1..texts].first().copied().flatten();
            self.row(row as usize, values[0], text_b, values.get(texts).copied().flatten())
        })
    }

    /// Takes a row whose values are found.
    fn row(
        &mut self,
        line: usize,
        text_a: Option<&str>,
        text_b: Option<&str>,
        label: Option<&str>,
    ) -> Result<(), TaskError> {
        let Columns { text_a: name_a, text_b: name_b, label: name } = self.columns;
        let text_a = match text_a {
            None => return Err(self.wrong(line, name_a, "missing", "a text")),
            Some(text) if text.trim().is_empty() => return Err(self.wrong(line, name_a, "empty", "a text")),
            Some(text) => text.to_string(),
        };
        if let (Some(name_b), None) = (name_b, text_b) {
            return Err(self.wrong(line, name_b, "missing", "a text"));
        }
        if self.labelled && label.is_none_or(|label| label.trim().is_empty()) {
            let found = if label.is_none() { "missing" } else { "empty" };
            return Err(self.wrong(line, name, found, LABEL));
        }
        let owned = |text: Option<&str>| text.map(str::to_string);
        self.rows.push(Row { line, text_a, text_b: owned(text_b), label: owned(label) });
        Ok(())
    }

    fn wrong(&self, line: usize, column: &str, found: &'static str, expected: &'static str) -> TaskError {
        TaskError::WrongValue { path: self.path.into(), line, column: column.to_string(), found, expected }
    }
}

const LABEL: &str = "a label";

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Columns = Columns { text_a: "text", text_b: Some("other"), label: "label" };
    const SINGLE: Columns = Columns { text_b: None, ..PAIR };

    fn rows(name: &str, text: &str, columns: Columns, labelled: bool) -> Result<Vec<Row>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_rows(&path, columns, labelled)
            .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    fn row(line: usize, text_a: &str, text_b: Option<&str>, label: Option<&str>) -> Row {
        let owned = |text: Option<&str>| text.map(str::to_string);
        Row { line, text_a: text_a.into(), text_b: owned(text_b), label: owned(label) }
    }

    #[test]
    fn the_same_rows_from_every_form_of_lines() {
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
    fn labels_may_be_missing_where_they_do_not_count() {
        assert_eq!(rows("a.csv", "text\na\n", SINGLE, false).unwrap(), [row(2, "a", None, None)]);
        let numbers =
            "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": true}\n{\"text\": \"c\"}\n";
        assert_eq!(
            rows("a.ndjson", numbers, SINGLE, false).unwrap(),
            [row(1, "a", None, Some("1")), row(2, "b", None, Some("true")), row(3, "c", None, None),]
        );
    }

    #[test]
    fn every_bad_row_has_its_line() {
        for (name, text, said) in [
            (
                "a.csv",
                "text,labels\na,1\n",
                "a.csv:1: no column \"label\" in the header (columns here: text, labels)",
            ),
            ("a.csv", "text,label\na,1\nb\n", "a.csv:3: 1 comma-separated fields, the header has 2"),
            ("a.tsv", "text\tlabel\na\t1\t2\n", "a.tsv:2: 3 tab-separated fields, the header has 2"),
            ("a.csv", "text,label\na,\n", "a.csv:2: \"label\" is empty, expected a label"),
            ("a.csv", "text,label\n ,1\n", "a.csv:2: \"text\" is empty, expected a text"),
            (
                "a.jsonl",
                "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}\n",
                "a.jsonl:2: \"label\" is missing, expected a label",
            ),
            ("a.jsonl", "{\"text\": 5, \"label\": 1}\n", "a.jsonl:1: \"text\" is no text, expected a text"),
            ("a.jsonl", "{\"label\": 1}\n", "a.jsonl:1: \"text\" is missing, expected a text"),
            (
                "a.jsonl",
                "{\"text\": \"a\", \"label\": [1]}\n",
                "a.jsonl:1: \"label\" is a list or an object, expected a label",
            ),
            ("a.csv", "text,label\n", "a.csv: no examples in this file"),
            ("a.xlsx", "", "a.xlsx: a table's name ends in .csv, .tsv, .jsonl, .ndjson or .parquet"),
        ] {
            assert_eq!(rows(name, text, SINGLE, true), Err(said.to_string()));
        }
        let error = rows("a.jsonl", "text\n", SINGLE, true).unwrap_err();
        assert!(error.starts_with("a.jsonl:1: not a JSON object: "), "{error}");
        let missing = rows("a.csv", "text,label\na,1\n", PAIR, true).unwrap_err();
        assert!(missing.contains("no column \"other\""), "{missing}");
    }
}
