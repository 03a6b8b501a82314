//! Shards of documents that are damaged or of other programs.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, ListArray, RecordBatch};
use bert_data::{BuildConfig, DataSet, Error, Manifest, StoredRows, read_all_documents, verify};

use crate::dataset::documents::{world, write_plain};
use crate::support::{documents_of, run};

type Lists = Vec<Option<Vec<Option<i32>>>>;

fn lists(rows: &[&[i32]]) -> Lists {
    rows.iter().map(|row| Some(row.iter().copied().map(Some).collect())).collect()
}

/// Returns the error for a shard of documents with other content.
fn foreign(manifest: &Manifest, path: &Path, columns: Vec<(&str, Lists)>) -> Error {
    let columns = columns.into_iter().map(|(name, rows)| {
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows));
        (name, list)
    });
    write_plain(path, &RecordBatch::try_from_iter(columns).unwrap());
    documents_of(manifest, path, 100).unwrap_err()
}

#[test]
fn foreign_shards_name_the_column_or_row() {
    let world = world();
    let manifest = &run(&world.config).unwrap().manifest;
    let path = world.at("foreign.parquet");
    let error = foreign(manifest, &path, vec![("input_ids", lists(&[&[7]]))]);
    assert!(error.to_string().contains("\"sentence_lengths\"") && error.exit_code() == 3, "{error}");
    let problem = |ids: &[&[i32]], lengths: &[&[i32]]| {
        let columns = vec![("input_ids", lists(ids)), ("sentence_lengths", lists(lengths))];
        foreign(manifest, &path, columns).text().to_string()
    };
    let good: &[i32] = &[7, 8, 9];
    assert_eq!(problem(&[good, &[]], &[&[1, 2], &[]]), "row 1: the row has no tokens");
    for id in [100, -1] {
        let outside = format!("token id {id} is outside the vocabulary of 100");
        assert_eq!(problem(&[good, &[7, id, 9]], &[&[3], &[3]]), format!("row 1: {outside}"));
    }
    assert_eq!(problem(&[good], &[&[1, 0, 2]]), "row 0: sentence_lengths has the value 0");
    assert_eq!(problem(&[good], &[&[5, -2]]), "row 0: sentence_lengths has the value -2");
    assert_eq!(
        problem(&[good, good], &[&[3], &[1, 1]]),
        "row 1: sentence_lengths add up to 2, but there are 3 input_ids"
    );
    assert_eq!(problem(&[good], &[&[]]), "row 0: sentence_lengths add up to 0, but there are 3 input_ids");
}

#[test]
fn null_sentence_lengths_are_rejected() {
    let world = world();
    let manifest = &run(&world.config).unwrap().manifest;
    let lengths = vec![Some(vec![Some(3)]), Some(vec![Some(3), None])];
    let columns = vec![("input_ids", lists(&[&[7, 8, 9], &[7, 8, 9]])), ("sentence_lengths", lengths)];
    let error = foreign(manifest, &world.at("foreign.parquet"), columns);
    assert!(error.to_string().contains("has a null"), "{error}");
}

#[test]
fn damaged_document_shards_are_found() {
    let world = world();
    let outcome = run(&BuildConfig { num_shards: Some(2), ..world.config.clone() }).unwrap();
    let (manifest, folder) = (&outcome.manifest, &outcome.output);
    let under = |manifest: &Manifest| DataSet::new(folder, manifest.clone(), world.vocabulary());
    let path = manifest.shard_path(folder, 1);
    let bytes = std::fs::read(&path).unwrap();
    for place in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, &damaged).unwrap();
        let error = read_all_documents(&under(manifest)).unwrap_err();
        assert!(error.to_string().contains(", but the manifest says"), "{error}");
        // Even with a manifest that matches the damaged file, reading gives an error or other documents, never a panic.
        let size = manifest.vocabulary.size;
        if let Err(error) = documents_of(manifest, &path, size) {
            assert_eq!(error.exit_code(), 3, "{error}");
        }
    }
    assert!(!verify(folder, true).unwrap().is_good());
    // Shards that are valid by themselves, but do not match the counts.
    std::fs::write(&path, &bytes).unwrap();
    let mut other = manifest.clone();
    other.report.tokens += 1;
    let error = read_all_documents(&under(&other)).unwrap_err();
    assert!(error.to_string().contains("the tokens of all shards"), "{error}");
    let mut rows = manifest.clone();
    rows.shards[1].rows += 1;
    assert!(read_all_documents(&under(&rows)).unwrap_err().to_string().contains("the shard's rows"));
    // More instances than the documents give are an error, not an endless search.
    let mut more = manifest.clone();
    more.instances += 1;
    let mut rows = StoredRows::new(&under(&more));
    let error = rows.row(manifest.instances).unwrap_err();
    assert!(error.to_string().contains("the instances of one pass"), "{error}");
}
