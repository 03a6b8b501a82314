//! Names of inputs: links, lists, hidden names, patterns, tables, files that are not read.

use std::fs;
use std::path::{Path, PathBuf};

use bert_data::input::{expand, first_duplicate, note_of_left_out, refuse_output_inside};
use bert_data::{BuildConfig, Error, InputProblem};

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

fn problem(result: Result<impl std::fmt::Debug, Error>) -> InputProblem {
    match result.unwrap_err() {
        error @ Error::InputFile(_) if ![2, 3].contains(&error.exit_code()) => panic!("{error}"),
        Error::InputFile(error) => error.problem,
        other => panic!("{other}"),
    }
}

#[test]
fn hidden_names_are_skipped_unless_they_are_named() {
    let names = ["_a.txt", ".b.txt", "c.txt", "_SUCCESS", "_year=2020/d.txt", "_e/f.txt", ".g/h.txt"];
    let at = folder(&names);
    let path = at.path();
    assert_eq!(found(path, ""), ["_year=2020/d.txt", "c.txt"]);
    assert_eq!(found(path, "*"), ["c.txt"]);
    assert_eq!(found(path, "**"), ["_year=2020/d.txt", "c.txt"]);
    assert_eq!(found(path, "_*"), ["_SUCCESS", "_a.txt"]);
    assert_eq!(found(path, ".*"), [".b.txt"]);
    assert_eq!(found(path, "_e"), ["_e/f.txt"]);
    let note = note_of_left_out(&[path.to_owned()]).unwrap().unwrap();
    assert!(note.starts_with("2 input name(s)") && note.contains("_a.txt"), "{note}");
    assert_eq!(note_of_left_out(&[path.join("c.txt")]).unwrap(), None);
}

#[test]
fn names_that_exist_are_neither_lists_nor_patterns() {
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
    assert!(matches!(problem(list(&["f.txt", "none.txt"])), InputProblem::Missing));
}

#[test]
fn a_home_that_no_shell_replaced_is_named() {
    let said = expand(&["~/none.txt".into()]).unwrap_err();
    assert!(said.to_string().contains("write $HOME"), "{said}");
}

#[cfg(unix)]
mod of_unix {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn links_are_followed_and_loops_end() {
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
            assert!(matches!(problem(expand(&[path.join(input)])), InputProblem::LinkLoop), "{input}");
        }
    }

    #[test]
    fn entries_that_cannot_be_read_are_named() {
        for make in [
            |path: &Path| symlink("none", path).unwrap(),
            |path: &Path| symlink("b.txt", path).unwrap(),
            |path: &Path| drop(UnixListener::bind(path).unwrap()),
        ] {
            let at = folder(&["a.txt"]);
            make(&at.path().join("b.txt"));
            for input in ["", "*.txt", "b.txt"] {
                let problem = problem(expand(&[at.path().join(input)]));
                assert!(matches!(problem, InputProblem::DanglingLink | InputProblem::NotAFile), "{problem}");
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
fn tables_with_deleted_rows_are_refused() {
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
fn outputs_and_vocabularies_are_not_among_the_inputs() {
    let at = folder(&["t/a.txt", "o/x/b.txt"]);
    let (path, vocab) = (at.path(), small_vocabulary(at.path()));
    let inside = |input: &str, output: &str| refuse_output_inside(&[path.join(input)], &path.join(output));
    for (input, output) in
        [("t", "t/data"), ("t", "t"), ("", "new/data"), ("o/*/*.txt", "o"), ("t", "o/../t/x")]
    {
        assert!(matches!(problem(inside(input, output)), InputProblem::OutputInside(_)), "{input} {output}");
    }
    for (input, output) in [("t", "t-2"), ("t", "t/.data"), ("t/a.txt", "t/data"), ("o/*/*.txt", "o/data")] {
        inside(input, output).unwrap();
    }
    let urls = |input: &str, output: &str| refuse_output_inside(&[input.into()], Path::new(output));
    assert!(matches!(problem(urls("s3://b/text", "S3://b/text/data")), InputProblem::OutputInside(_)));
    urls("s3://b/text", "s3://b/text-2").unwrap();
    let build = |input: &Path, change: fn(BuildConfig) -> BuildConfig| {
        problem(run(&change(config(&[input], &vocab, &path.join("data")))))
    };
    assert!(matches!(
        build(path, |config| config),
        InputProblem::IsVocabulary | InputProblem::OutputInside(_)
    ));
    assert!(matches!(build(&vocab, |config| config), InputProblem::IsVocabulary));
    let scratch = |config: BuildConfig| BuildConfig { scratch: Some(config.input[0].join("s")), ..config };
    assert!(matches!(build(&path.join("t"), scratch), InputProblem::OutputInside(_)));
}

#[test]
fn files_named_again_are_refused() {
    let at = folder(&["t/a.txt"]);
    let vocab = small_vocabulary(at.path());
    let (file, folder): (PathBuf, PathBuf) = (at.path().join("t/a.txt"), at.path().join("t"));
    for inputs in [[&file, &file], [&folder, &folder], [&folder, &file]] {
        let inputs = inputs.map(PathBuf::as_path);
        let problem = problem(run(&config(&inputs, &vocab, &at.path().join("data"))));
        assert!(matches!(problem, InputProblem::Twice), "{inputs:?}");
    }
}
