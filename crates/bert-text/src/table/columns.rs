//! Finds a column of a table by its name in the first row, or by its number.

use serde_json::{Map, Value};

use crate::recognize::are_column_names;

/// A column that was found in the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPlace {
    /// Index of the column, from 0.
    pub index: usize,
    /// Whether the first row has the name of this column; otherwise it is a row of values.
    pub first_row_is_header: bool,
}

/// The result of looking for a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnLookup {
    /// The column exists once.
    Found(ColumnPlace),
    /// Two columns have the name.
    Twice,
    /// No column has the name.
    Missing,
}

/// Returns the names in a first row: its fields without surrounding white space.
pub(super) fn column_names(fields: impl Iterator<Item = String>) -> Vec<String> {
    fields.map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect()
}

/// Finds a column by its name in the first row, or else by its number from 1.
pub fn find_column<S: AsRef<str>>(first_row: &[S], column: &str) -> ColumnLookup {
    let mut named = (0..first_row.len()).filter(|&at| first_row[at].as_ref() == column);
    if let Some(index) = named.next() {
        let place = ColumnPlace { index, first_row_is_header: true };
        return named.next().map_or(ColumnLookup::Found(place), |_| ColumnLookup::Twice);
    }
    match column.parse::<usize>() {
        Ok(number) if (1..=first_row.len()).contains(&number) => {
            let index = number - 1;
            // A field of one word is the name of the column, even if the column is given by its number.
            let first_row_is_header = are_column_names(first_row) && !first_row[index].as_ref().contains(' ');
            ColumnLookup::Found(ColumnPlace { index, first_row_is_header })
        }
        _ => ColumnLookup::Missing,
    }
}

/// Returns the value of a key of a JSON object, or the value at a path such as `doc.text`.
pub fn value_at<'v>(object: &'v Map<String, Value>, column: &str) -> Option<&'v Value> {
    let inside = |(key, value): (&String, &'v Value)| {
        value_at(value.as_object()?, column.strip_prefix(key.as_str())?.strip_prefix('.')?)
    };
    object.get(column).or_else(|| object.iter().find_map(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: usize, first_row_is_header: bool) -> ColumnLookup {
        ColumnLookup::Found(ColumnPlace { index, first_row_is_header })
    }

    #[test]
    fn columns_have_names_or_numbers() {
        assert_eq!(find_column(&["id", "text"], "text"), found(1, true));
        assert_eq!(find_column(&["id", "text"], "2"), found(1, true));
        assert_eq!(find_column(&["7", "It rains."], "2"), found(1, false));
        assert_eq!(find_column(&["2", "1"], "1"), found(1, true));
        assert_eq!(find_column(&["text", "text"], "text"), ColumnLookup::Twice);
        for missing in ["body", "0", "3", "-1"] {
            assert_eq!(find_column(&["id", "text"], missing), ColumnLookup::Missing);
        }
    }

    #[test]
    fn paths_lead_inside_of_objects() {
        let row: Map<String, Value> =
            serde_json::from_str(r#"{"doc": {"a.b": {"c": 1}}, "doc.text": 2, "x": 3}"#).unwrap();
        let at = |column: &str| value_at(&row, column).and_then(Value::as_u64);
        assert_eq!(
            [at("x"), at("doc.text"), at("doc.a.b.c"), at("doc.a")],
            [Some(3), Some(2), Some(1), None]
        );
    }
}
