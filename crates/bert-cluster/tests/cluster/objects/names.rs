//! Checks that object names are interpreted like file names.

use std::sync::Arc;

use bert_storage::objects;
use bert_text::{expand, reject_output_inside};
use object_store::memory::InMemory;

/// Creates a bucket with these objects; objects called `empty` are empty.
fn bucket(root: &str, names: &[&str]) {
    objects::mount(root, Arc::new(InMemory::new()));
    for name in names {
        let text = if name.contains("empty") { "" } else { "the cat\n" };
        objects::put(format!("{root}/{name}").as_ref(), text.into()).unwrap();
    }
}

fn found(url: &str) -> Result<Vec<String>, String> {
    let files = expand(&[url.into()]).map_err(|error| error.to_string())?;
    let name =
        |file: &std::path::PathBuf| file.to_str().unwrap().split('/').skip(3).collect::<Vec<_>>().join("/");
    Ok(files.iter().map(name).collect())
}

#[test]
fn object_names_match_like_file_names() {
    let names = [
        "a/x.txt",
        "a.txt",
        "a-2/x.txt",
        "_b.txt",
        ".c/d.txt",
        "_SUCCESS",
        "_year=1/e.txt",
        "empty.txt",
        "f, g.txt",
    ];
    bucket("s3://names", &names);
    let all = ["_year=1/e.txt", "a-2/x.txt", "a.txt", "a/x.txt", "empty.txt", "f, g.txt"];
    for (url, expected) in [
        ("s3://names", &all[..]),
        ("S3://names/", &all),
        ("s3://names/*.txt", &["a.txt", "empty.txt", "f, g.txt"]),
        ("s3://names/_*", &["_SUCCESS", "_b.txt"]),
        ("s3://names/**/x.txt", &["a-2/x.txt", "a/x.txt"]),
        ("s3://names/f, g.txt", &["f, g.txt"]),
        ("s3://names/a.txt,s3://names/a", &["a.txt", "a/x.txt"]),
    ] {
        assert_eq!(found(url).unwrap(), expected, "{url}");
    }
    assert!(found("s3://names/none").unwrap_err().contains("does not exist"));
}

#[test]
fn lakehouse_tables_in_a_bucket_are_rejected() {
    bucket(
        "s3://tables",
        &["t/a.parquet", "t/_delta_log/0.json", "u/data/a.parquet", "u/metadata/v1.metadata.json", "v/a"],
    );
    for url in ["s3://tables", "s3://tables/t", "s3://tables/t/*.parquet"] {
        assert!(found(url).unwrap_err().contains("this is a Delta table"), "{url}");
    }
    assert!(found("s3://tables/u").unwrap_err().contains("this is an Iceberg table"));
    assert_eq!(found("s3://tables/v").unwrap(), ["v/a"]);
    let inside = |output: &str| reject_output_inside(&["s3://tables/v".into()], output.as_ref());
    assert!(inside("s3://tables/v/out").is_err() && inside("s3://tables/out").is_ok());
}
