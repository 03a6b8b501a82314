//! Shards of other programs.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, ListBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{ArrayRef, Int8Array, Int32Array, ListArray, RecordBatch};
use bert_data::{Error, read_shard};

use crate::builder::errors::{World, assert_says};
use crate::support::run;

/// Returns the error for a shard with the given columns, written by the plain Parquet writer.
fn foreign(path: &Path, columns: Vec<(&str, ArrayRef)>) -> Error {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    read_shard(path).unwrap_err()
}

type Lists = Vec<Option<Vec<Option<i32>>>>;

fn int32(rows: &[&[i32]]) -> Lists {
    rows.iter().map(|row| Some(row.iter().copied().map(Some).collect())).collect()
}

fn columns(
    ids: Lists,
    segments: &[&[i8]],
    positions: Lists,
    labels: Lists,
    next: &[i8],
) -> Vec<(&'static str, ArrayRef)> {
    let segments = segments.iter().map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
    let list =
        |rows: Lists| -> ArrayRef { Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows)) };
    vec![
        ("input_ids", list(ids)),
        ("segment_ids", Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>(segments))),
        ("masked_lm_positions", list(positions)),
        ("masked_lm_ids", list(labels)),
        ("next_sentence_label", Arc::new(Int8Array::from(next.to_vec()))),
    ]
}

/// Two rows without fault.
const IDS: &[&[i32]] = &[&[2, 7, 3, 8, 3], &[2, 7, 3, 8, 3]];
const SEGMENTS: &[&[i8]] = &[&[0, 0, 0, 1, 1], &[0, 0, 0, 1, 1]];

fn masks() -> Lists {
    int32(&[&[1], &[1]])
}

#[test]
fn foreign_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    assert_says(
        &foreign(&path, vec![("text", one.clone())]),
        3,
        &["foreign.parquet", "\"input_ids\"", "missing"],
    );
    assert_says(&foreign(&path, vec![("input_ids", one.clone())]), 3, &["int32", "list<int32>"]);
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 1]));
    let mut flags = ListBuilder::new(BooleanBuilder::new());
    (0..2).for_each(|_| flags.append_value([Some(true); 5]));
    let flags: ArrayRef = Arc::new(flags.finish());
    // Only the column of word marks may follow, with its name and its type.
    for (name, values) in [("weight", &numbers), ("continues_word", &numbers), ("flags", &flags)] {
        let mut extra = columns(int32(IDS), SEGMENTS, masks(), masks(), &[0, 1]);
        extra.push((name, values.clone()));
        assert_says(&foreign(&path, extra), 3, &[&format!("{name:?}"), "no further column"]);
    }
}

#[test]
fn wrong_rows_of_foreign_shards_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let row = |columns| foreign(&folder.path().join("foreign.parquet"), columns).text().to_string();
    let bad_ids = |ids: &[&[i32]]| columns(int32(ids), SEGMENTS, masks(), masks(), &[0, 1]);
    assert_eq!(row(bad_ids(&[IDS[0], &[2, 7, 3]])), "row 1: 5 segment_ids for 3 input_ids");
    assert_eq!(row(bad_ids(&[IDS[0], &[]])), "row 1: the row has no tokens");
    let negative = format!("token id -7 is outside the vocabulary of {}", i32::MAX as usize);
    assert_eq!(row(bad_ids(&[IDS[0], &[2, -7, 3, 8, 3]])), format!("row 1: {negative}"));
    let bad_segments = columns(int32(IDS), &[SEGMENTS[0], &[0, 0, 0, 2, 1]], masks(), masks(), &[0, 1]);
    assert_eq!(row(bad_segments), "row 1: segment_ids has the value 2");
    let bad_label = columns(int32(IDS), SEGMENTS, masks(), masks(), &[0, 5]);
    assert_eq!(row(bad_label), "row 1: next_sentence_label has the value 5");
    let bad_count = columns(int32(IDS), SEGMENTS, masks(), int32(&[&[1], &[1, 2]]), &[0, 1]);
    assert_eq!(row(bad_count), "row 1: 2 masked_lm_ids for 1 masked_lm_positions");
    for position in [5, -1] {
        let outside = columns(int32(IDS), SEGMENTS, int32(&[&[position], &[1]]), masks(), &[0, 1]);
        assert_eq!(
            row(outside),
            format!(
                "row 0: masked_lm_positions has {position}, which is outside the 5 tokens or not ascending"
            )
        );
    }
    let twice = columns(int32(IDS), SEGMENTS, int32(&[&[1], &[1, 1]]), int32(&[&[1], &[1, 1]]), &[0, 1]);
    assert_eq!(
        row(twice),
        "row 1: masked_lm_positions has 1, which is outside the 5 tokens or not ascending"
    );
    let mut ids = int32(IDS);
    ids[1] = None;
    assert_eq!(row(columns(ids, SEGMENTS, masks(), masks(), &[0, 1])), "row 1: column input_ids has a null");
    let mut ids = int32(IDS);
    ids[1] = Some(vec![None; 5]);
    assert_eq!(row(columns(ids, SEGMENTS, masks(), masks(), &[0, 1])), "row 1: column input_ids has a null");
}

#[test]
fn rows_that_do_not_fit_a_model_are_found() {
    let world = World::new();
    let manifest = run(&world.config).unwrap().manifest;
    let path = manifest.shard_path(&world.data(), 0);
    let rows = read_shard(&path).unwrap();
    rows.check(&path, manifest.vocabulary.size, 128, 20).unwrap();
    let problem =
        |vocabulary, length, masks| rows.check(&path, vocabulary, length, masks).unwrap_err().to_string();
    assert!(problem(8, 128, 20).contains("is outside the vocabulary of"));
    assert!(problem(1000, 8, 20).contains("tokens, more than max_seq_length"));
    assert!(problem(1000, 128, 0).contains("(max_predictions_per_seq, or 0 with dynamic"));
}
