//! Names of inputs: links, lists, hidden names, patterns, tables, files that are not read.

use std::fs;
use std::path::{Path, PathBuf};

use bert_data::{BuildConfig, Error, VocabConfig, train_vocabulary};
use bert_text::{expand, first_duplicate, reject_output_inside, skipped_names_note, skipped_tables_warning};

use crate::support::{config, run, small_vocabulary};

fn text(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "the cat\nsat\n\nthe dog\nran\n").unwrap();
}

/// Returns a folder with these files.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    names.iter().for_each(|name| text(&folder.path().join(name)));
    folder
}

fn found(folder: &Path, input: &str) -> Vec<String> {
    let files = expand(&[folder.join(input)]).unwrap();
    files.iter().map(|file| file.strip_prefix(folder).unwrap().to_string_lossy().into_owned()).collect()
}

fn problem(result: Result<impl std::fmt::Debug, Error>) -> String {
    let error = result.unwrap_err();
    assert!([2, 3].contains(&error.exit_code()) && error.path().is_some(), "{error}");
    error.text().to_string()
}

#[test]
fn hidden_files_are_skipped_unless_named() {
    let names = ["_a.txt", ".b.txt", "c.txt", "_SUCCESS", "_year=2020/d.txt", "_e/f.txt", ".g/h.txt"];
    let at = folder(&names);
    let path = at.path();
    assert_eq!(found(path, ""), ["_year=2020/d.txt", "c.txt"]);
    assert_eq!(found(path, "*"), ["c.txt"]);
    assert_eq!(found(path, "**"), ["_year=2020/d.txt", "c.txt"]);
    assert_eq!(found(path, "_*"), ["_SUCCESS", "_a.txt"]);
    assert_eq!(found(path, ".*"), [".b.txt"]);
    assert_eq!(found(path, "_e"), ["_e/f.txt"]);
    let note = skipped_names_note(&[path.to_owned()]).unwrap().unwrap();
    assert!(note.starts_with("2 input name(s)") && note.contains("_a.txt"), "{note}");
    assert_eq!(skipped_names_note(&[path.join("c.txt")]).unwrap(), None);
}

#[test]
fn existing_names_are_not_patterns() {
    let at = folder(&["a, b.txt", "a", "c,d/e.txt", "x [v2] (1).txt", "y[1]/z.txt", "f.txt"]);
    let path = at.path();
    for (input, expected) in [
        ("a, b.txt", &["a, b.txt"][..]),
        ("c,d", &["c,d/e.txt"]),
        ("c,d/*.txt", &["c,d/e.txt"]),
        ("a,*.txt", &["a, b.txt"]),
        ("x [v2]*.txt", &["x [v2] (1).txt"]),
        ("y[1]/*.txt", &["y[1]/z.txt"]),
    ] {
        assert_eq!(found(path, input), expected, "{input}");
    }
    let list = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| path.join(name).to_str().unwrap().to_owned()).collect();
        expand(&[names.join(",").into()]).map(|files| files.len())
    };
    assert_eq!(list(&["f.txt", "a, b.txt", "c,d", "a"]).unwrap(), 4);
    assert_eq!(list(&["f.txt", "?"]).unwrap(), 2);
    assert!(problem(list(&["f.txt", "none.txt"])).to_string().contains("this input does not exist"));
    // The time grows with the number of names, not with its square.
    let many = vec!["f.txt"; 20_000];
    let begun = std::time::Instant::now();
    assert_eq!(list(&many).unwrap(), many.len());
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn unexpanded_tilde_is_reported() {
    let message = expand(&["~/none.txt".into()]).unwrap_err();
    assert!(message.to_string().contains("write $HOME"), "{message}");
}

#[cfg(unix)]
mod of_unix {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn symbolic_links_are_followed_and_loops_detected() {
        let at = folder(&["text/a.txt", "disk/books/b.txt", "disk/c.txt"]);
        let path = at.path();
        symlink(path.join("disk/books"), path.join("text/books")).unwrap();
        symlink(path.join("disk/c.txt"), path.join("text/c.txt")).unwrap();
        for input in ["text", "text/**"] {
            assert_eq!(found(path, input), ["text/a.txt", "text/books/b.txt", "text/c.txt"]);
        }
        symlink(path.join("disk"), path.join("text/disk")).unwrap();
        let files = expand(&[path.join("text")]).unwrap();
        assert_eq!((files.len(), first_duplicate(&files).is_some()), (5, true));
        symlink(path.join("text"), path.join("disk/back")).unwrap();
        for input in ["text", "text/**/*.txt"] {
            assert!(
                problem(expand(&[path.join(input)]))
                    .to_string()
                    .contains("this link points to a folder that contains"),
                "{input}"
            );
        }
    }

    #[test]
    fn unreadable_entries_are_reported() {
        for make in [
            |path: &Path| symlink("none", path).unwrap(),
            |path: &Path| symlink("b.txt", path).unwrap(),
            |path: &Path| drop(UnixListener::bind(path).unwrap()),
        ] {
            let at = folder(&["a.txt"]);
            make(&at.path().join("b.txt"));
            for input in ["", "*.txt", "b.txt"] {
                let problem = problem(expand(&[at.path().join(input)]));
                assert!(
                    ["this link points to a missing file", "this input is neither a"]
                        .iter()
                        .any(|text| problem.starts_with(text)),
                    "{problem}"
                );
            }
            assert_eq!(found(at.path(), "a.*"), ["a.txt"]);
        }
    }

    #[test]
    fn names_that_are_not_utf8_match_patterns() {
        let at = folder(&["two\nlines.txt", " -x .txt"]);
        let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
        text(&at.path().join(name));
        for input in ["", "*.txt", "*"] {
            assert_eq!(found(at.path(), input), [" -x .txt", "caf\u{fffd}.txt", "two\nlines.txt"]);
        }
        assert_eq!(expand(&[at.path().join("caf?.txt")]).unwrap(), [at.path().join(name)]);
    }
}

#[test]
fn lakehouse_tables_with_deletions_are_rejected() {
    for (log, format) in [
        ("_delta_log/00000000000000000000.json", "a Delta table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
    ] {
        let at = folder(&[
            "t/data/year=2020/a.parquet",
            "t/year=2020/a.parquet",
            "t/a.parquet",
            &format!("t/{log}"),
        ]);
        let inner = if log.starts_with("meta") { "t/data/year=2020" } else { "t/year=2020" };
        for input in ["", "t", "t/*.parquet", "t/a.parquet", inner, &format!("{inner}/a.parquet")] {
            let error = expand(&[at.path().join(input)]).unwrap_err();
            assert!(error.to_string().contains(&format!("this is {format}: ")), "{input}: {error}");
        }
    }
    let at = folder(&["metadata/a.metadata.json", "data/a.txt"]);
    assert_eq!(found(at.path(), "").len(), 2);
}

#[test]
fn output_and_vocabulary_cannot_be_inputs() {
    let at = folder(&["t/a.txt", "o/x/b.txt"]);
    let (path, vocab) = (at.path(), small_vocabulary(at.path()));
    let inside = |input: &str, output: &str| reject_output_inside(&[path.join(input)], &path.join(output));
    for (input, output) in
        [("t", "t/data"), ("t", "t"), ("", "new/data"), ("o/*/*.txt", "o"), ("t", "o/../t/x")]
    {
        assert!(
            problem(inside(input, output)).contains("contain each other, so the output would be"),
            "{input} {output}"
        );
    }
    for (input, output) in [("t", "t-2"), ("t", "t/.data"), ("t/a.txt", "t/data"), ("o/*/*.txt", "o/data")] {
        inside(input, output).unwrap();
    }
    let urls = |input: &str, output: &str| reject_output_inside(&[input.into()], Path::new(output));
    assert!(
        problem(urls("s3://b/text", "S3://b/text/data"))
            .contains("contain each other, so the output would be")
    );
    urls("s3://b/text", "s3://b/text-2").unwrap();
    let build = |input: &Path, change: fn(BuildConfig) -> BuildConfig| {
        problem(run(&change(config(&[input], &vocab, &path.join("data")))))
    };
    let whole = build(path, |config| config);
    assert!(
        whole.starts_with("this file is the vocabulary") || whole.contains("contain each other"),
        "{whole}"
    );
    assert!(build(&vocab, |config| config).starts_with("this file is the vocabulary, but it is also"));
    let scratch = |config: BuildConfig| BuildConfig { scratch: Some(config.input[0].join("s")), ..config };
    assert!(build(&path.join("t"), scratch).contains("contain each other, so the output would be"));
}

#[test]
fn duplicate_inputs_are_rejected() {
    let at = folder(&["t/a.txt"]);
    let vocab = small_vocabulary(at.path());
    let (file, folder): (PathBuf, PathBuf) = (at.path().join("t/a.txt"), at.path().join("t"));
    for inputs in [[&file, &file], [&folder, &folder], [&folder, &file]] {
        let inputs = inputs.map(PathBuf::as_path);
        let problem = problem(run(&config(&inputs, &vocab, &at.path().join("data"))));
        assert!(problem.contains("this input is given twice, or a link points"), "{inputs:?}");
    }
}

/// Returns a folder `t` with text, tables without a column `text`, and one with it.
fn folder_with_tables() -> tempfile::TempDir {
    let at = folder(&["t/a.txt", "t/e/f.txt"]);
    let table = "id\tlabel\n1\tthe cat\n2\tthe dog\n";
    fs::write(at.path().join("t/b.tsv"), table).unwrap();
    fs::write(at.path().join("t/e/c.CSV.zst"), zstd::encode_all("id,body\n1,sun\n".as_bytes(), 1).unwrap())
        .unwrap();
    fs::write(at.path().join("t/d.csv"), "id,text\n1,The sun is hot. The mat ran.\n").unwrap();
    at
}

#[test]
fn tables_without_the_text_column_are_skipped_in_folders() {
    let at = folder_with_tables();
    let (path, vocab) = (at.path(), small_vocabulary(at.path()));
    let folder = path.join("t");
    assert_eq!(found(path, "t").len(), 5, "expand lists all files");
    let warning = skipped_tables_warning(std::slice::from_ref(&folder), "text").unwrap().unwrap();
    assert!(warning.starts_with("2 CSV or TSV file(s)"), "{warning}");
    assert!(warning.contains("t/b.tsv first") && warning.contains("--text-column"), "{warning}");
    let read = |inputs: &[&Path], output: &str| {
        let manifest = run(&config(inputs, &vocab, &path.join(output))).unwrap().manifest;
        let name = |path: &str| Path::new(path).strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
        manifest.inputs.iter().map(|input| name(&input.path)).collect::<Vec<_>>()
    };
    assert_eq!(read(&[&folder], "data"), ["a.txt", "d.csv", "e/f.txt"]);
    let vocabulary = VocabConfig { vocab_size: 60, ..VocabConfig::default() };
    let train = |inputs: &[PathBuf]| train_vocabulary(inputs, &vocabulary, &mut |_, _| {}).unwrap().tokens;
    let named = ["a.txt", "d.csv", "e/f.txt"].map(|name| folder.join(name));
    assert_eq!(train(std::slice::from_ref(&folder)), train(&named));
}

#[test]
fn tables_that_are_named_or_matched_are_rejected() {
    let at = folder_with_tables();
    let (path, vocab) = (at.path(), small_vocabulary(at.path()));
    fs::create_dir(path.join("tables")).unwrap();
    fs::copy(path.join("t/b.tsv"), path.join("tables/b.tsv")).unwrap();
    let vocabulary = VocabConfig { vocab_size: 60, ..VocabConfig::default() };
    for names in [&["t/b.tsv"][..], &["t/*.tsv"], &["t/**"], &["t/*"], &["tables"], &["t/e", "tables"]] {
        let inputs: Vec<PathBuf> = names.iter().map(|name| path.join(name)).collect();
        let paths: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let build = run(&config(&paths, &vocab, &path.join("data"))).map(drop);
        let train = train_vocabulary(&inputs, &vocabulary, &mut |_, _| {}).map(drop);
        for error in [build.unwrap_err(), train.unwrap_err()] {
            assert!(error.to_string().contains("b.tsv: column \"text\" is missing"), "{names:?}: {error}");
            assert_eq!(error.exit_code(), 3);
        }
    }
}

#[test]
fn no_table_is_skipped_with_a_text_column() {
    let at = folder_with_tables();
    let (path, vocab) = (at.path(), small_vocabulary(at.path()));
    let folder = path.join("t");
    assert_eq!(skipped_tables_warning(std::slice::from_ref(&folder), "label").unwrap(), None);
    let label =
        BuildConfig { text_column: "label".to_owned(), ..config(&[&folder], &vocab, &path.join("data")) };
    let error = run(&label).unwrap_err();
    assert!(error.to_string().contains("d.csv: column \"label\" is missing"), "{error}");
    for other in ["t/d.csv", "t/e/c.CSV.zst"] {
        fs::remove_file(path.join(other)).unwrap();
    }
    let inputs = run(&label).unwrap().manifest.inputs;
    assert_eq!(inputs.iter().map(|input| input.lines).collect::<Vec<_>>(), [5, 2, 5]);
}
