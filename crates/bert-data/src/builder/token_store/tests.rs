//! Tests of the token store.

use std::ops::Range;

use super::*;
use bert_storage::{Disk, FileSystem};
use bert_testing::disks::{Fault, Faulty};

use crate::builder::build_prepared;
use crate::builder::merge::{merge, merge_with_scratch};
use crate::builder::output::OutputState;
use crate::builder::output::scratch::folder_in;
use crate::builder::parts::build_prepared_part;
use crate::builder::prepare::{SEGMENT, prepare};
use crate::builder::token_store::segments::{MAX_SEGMENTS, segments_of, share_of};
use crate::config::test_text::{content, lettered};
use crate::config::{BuildConfig, Layout};

#[test]
fn segments_are_of_similar_size_and_not_too_many() {
    let mib = 1 << 20;
    let grouped = |sizes: &[u64]| segments_of(sizes, share_of(sizes, SEGMENT), Vec::new());
    let ends =
        |sizes: &[u64]| -> Vec<usize> { grouped(sizes).iter().map(|segment| segment.files.end).collect() };
    assert!(ends(&[]).is_empty());
    assert_eq!(ends(&[3 * mib, 3, 7]), [3]);
    assert_eq!(ends(&[90 * mib, mib, 15 * mib, mib]), [1, 3, 4]);
    for (files, size) in [(10_000, 4 * mib), (1_000_000, 4 << 10), (300, 4 << 30)] {
        let segments = grouped(&vec![size; files]);
        assert!(segments.len() as u64 <= MAX_SEGMENTS, "{}", segments.len());
        assert!(segments.len() > 100, "{}", segments.len());
        assert!(segments.iter().flat_map(|segment| segment.files.clone()).eq(0..files));
    }
}

/// Runs a build with segments of at least `segment` bytes and returns its progress reports.
fn build(files: &dyn FileSystem, config: &BuildConfig, segment: u64) -> Result<Vec<BuildProgress>> {
    let mut prepared = prepare(config)?;
    prepared.segment = segment;
    let mut events = Vec::new();
    let mut progress = |at| events.push(at);
    match config.part {
        None => drop(build_prepared(files, &prepared, &mut progress)?),
        Some(_) => drop(build_prepared_part(files, &prepared, &mut progress)?),
    }
    Ok(events)
}

/// Writes eleven input files, one of them without text, and returns a build of them.
fn eleven_files(folder: &Path, layout: Layout) -> BuildConfig {
    let config = lettered(folder, 0);
    let input = (0..11usize).map(|file| {
        let path = folder.join(format!("{file:02}.txt"));
        let line = if file == 4 { "" } else { "a b c d e.\nf g h i j k.\nl m n.\n\n" };
        std::fs::write(&path, line.repeat(3 + file) + &"g h.\n".repeat(usize::from(file != 4))).unwrap();
        path
    });
    BuildConfig { input: input.collect(), layout, num_shards: Some(3), dupe_factor: 10, ..config }
}

#[test]
fn segments_and_parts_change_no_byte() {
    for layout in [Layout::Instances, Layout::Documents] {
        let folder = tempfile::tempdir().unwrap();
        let config = eleven_files(folder.path(), layout);
        let to = |name: &str| BuildConfig { output: Some(folder.path().join(name)), ..config.clone() };
        build(&Disk, &to("whole"), SEGMENT).unwrap();
        let whole = content(&folder.path().join("whole"));
        for segment in [1, 300, 700] {
            let name = format!("segments-{segment}");
            build(&Disk, &to(&name), segment).unwrap();
            assert!(content(&folder.path().join(&name)) == whole, "{segment} bytes");
        }
        let part = |index| BuildConfig { part: Some(index), parts: Some(4), ..to("parts") };
        for index in [2, 4, 1] {
            let error = build(&Disk, &part(index), 1).unwrap_err();
            assert_eq!(error.exit_code(), 75, "{error}");
        }
        // The last part finds the text of all parts.
        for index in [3, 1, 2, 4] {
            build(&Disk, &part(index), 1).unwrap();
        }
        let error = build(&Disk, &part(2), 700).unwrap_err();
        assert!(error.to_string().contains("a finished part of different text"), "{error}");
        build(&Disk, &part(2), 1).unwrap();
        merge(&folder.path().join("parts"), &mut |_| {}).unwrap();
        assert!(content(&folder.path().join("parts")) == whole, "parts");
    }
}

#[test]
fn the_text_may_be_on_another_disk() {
    let folder = tempfile::tempdir().unwrap();
    let config = eleven_files(folder.path(), Layout::Instances);
    build(&Disk, &config, SEGMENT).unwrap();
    let whole = content(config.output.as_ref().unwrap());
    let scratch = folder.path().join("scratch");
    let to = |name: &str| {
        let output = Some(folder.path().join(name));
        let scratch = Some(scratch.clone());
        BuildConfig { output, scratch, ..config.clone() }
    };
    let names = |folder: &Path| -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let scratch_of = |name: &str| folder_in(&scratch, &folder.path().join(name)).unwrap();
    let stopped = Faulty::new(Fault::Full, 60);
    build(&stopped, &to("other"), 300).unwrap_err();
    assert!(names(&scratch_of("other").join(".build")).contains(&"documents-00000".to_owned()));
    assert!(!names(&folder.path().join("other/.build")).contains(&"documents-00000".to_owned()));
    let events = build(&Disk, &to("other"), 300).unwrap();
    assert_eq!(events[0].stage, BuildStage::ReusedText);
    assert!(content(&folder.path().join("other")) == whole);
    assert_eq!(names(&scratch), [""; 0]);
    let part = |index| BuildConfig { part: Some(index), parts: Some(2), ..to("parts") };
    assert_eq!(build(&Disk, &part(1), 300).unwrap_err().exit_code(), 75);
    build(&Disk, &part(2), 300).unwrap();
    build(&Disk, &part(1), 300).unwrap();
    std::fs::write(scratch_of("parts").join("notes.txt"), "mine").unwrap();
    merge_with_scratch(&folder.path().join("parts"), Some(&scratch), &mut |_| {}).unwrap();
    assert!(content(&folder.path().join("parts")) == whole);
    assert_eq!(names(&scratch_of("parts")), ["notes.txt"]);
}

/// Builds that share a scratch folder neither use nor remove each other's text.
#[test]
fn builds_may_share_a_scratch_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = eleven_files(folder.path(), Layout::Instances);
    let scratch = folder.path().join("scratch");
    let to = |name: &str, input: Range<usize>| {
        let output = Some(folder.path().join(name));
        let input = config.input[input].to_vec();
        BuildConfig { output, input, scratch: Some(scratch.clone()), ..config.clone() }
    };
    build(&Faulty::new(Fault::Full, 60), &to("first", 0..11), 300).unwrap_err();
    build(&Faulty::new(Fault::Full, 60), &to("second", 0..8), 300).unwrap_err();
    let part = |index| BuildConfig { part: Some(index), parts: Some(2), ..to("parts", 0..11) };
    assert_eq!(build(&Disk, &part(1), 300).unwrap_err().exit_code(), 75);
    let merged = BuildConfig { part: Some(1), parts: Some(2), ..to("merged", 0..1) };
    build(&Disk, &merged, 300).unwrap();
    build(&Disk, &BuildConfig { part: Some(2), ..merged }, 300).unwrap();
    merge_with_scratch(&folder.path().join("merged"), Some(&scratch), &mut |_| {}).unwrap();
    for config in [to("second", 0..8), to("first", 0..11)] {
        let events = build(&Disk, &config, 300).unwrap();
        assert_eq!(events[0].stage, BuildStage::ReusedText);
    }
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 1, "the text of the part is left");
    build(&Disk, &part(2), 300).unwrap();
}

/// Writes one file with 200 documents of different lengths, as lines of text or of JSON.
fn large_file(folder: &Path, layout: Layout, json: bool) -> BuildConfig {
    let mut text = String::new();
    for document in 0..200usize {
        let lines = ["a b c d e.", "f g h i j k.", "l m n."].iter().cycle().take(1 + document % 23);
        match json {
            true => {
                let lines: Vec<&str> = lines.copied().collect();
                text += &format!("{{\"text\": \"{}\"}}\n", lines.join("\\n"));
            }
            false => {
                lines.for_each(|line| text += &format!("{line}\n"));
                text += if document % 9 == 0 { "\n \t\n" } else { "\n" };
            }
        }
    }
    let path = folder.join("large.txt");
    std::fs::write(&path, text).unwrap();
    BuildConfig { input: vec![path], layout, num_shards: Some(2), dupe_factor: 10, ..lettered(folder, 0) }
}

#[test]
fn parts_of_one_file_change_no_byte() {
    for (layout, json) in [(Layout::Instances, false), (Layout::Documents, true)] {
        let folder = tempfile::tempdir().unwrap();
        let config = large_file(folder.path(), layout, json);
        let to = |name: &str| BuildConfig { output: Some(folder.path().join(name)), ..config.clone() };
        build(&Disk, &to("whole"), SEGMENT).unwrap();
        let whole = content(&folder.path().join("whole"));
        for segment in [1024, 3000, 9000] {
            let name = format!("segments-{segment}");
            let mut prepared = prepare(&config).unwrap();
            prepared.segment = segment;
            let division = Division::new(&prepared).unwrap();
            assert!(division.segments.len() > 1, "{segment} bytes");
            build(&Disk, &to(&name), segment).unwrap();
            assert!(content(&folder.path().join(&name)) == whole, "{segment} bytes");
        }
        let part = |index| BuildConfig { part: Some(index), parts: Some(3), ..to("parts") };
        for index in [1, 2] {
            build(&Disk, &part(index), 2048).unwrap_err();
        }
        for index in [3, 1, 2] {
            build(&Disk, &part(index), 2048).unwrap();
        }
        merge(&folder.path().join("parts"), &mut |_| {}).unwrap();
        assert!(content(&folder.path().join("parts")) == whole, "parts");
    }
}

#[test]
fn errors_in_ranges_have_lines_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = large_file(folder.path(), Layout::Instances, false);
    let mut text = std::fs::read(&config.input[0]).unwrap();
    let line = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
    text.extend(b"Caf\xe9\n");
    std::fs::write(&config.input[0], text).unwrap();
    let strict =
        BuildConfig { strict_utf8: true, output: Some(folder.path().join("strict")), ..config.clone() };
    for segment in [SEGMENT, 2048] {
        let error = build(&Disk, &strict, segment).unwrap_err();
        assert!(error.to_string().contains(&format!("large.txt:{line}: invalid UTF-8")), "{error}");
    }
    build(&Disk, &config, 2048).unwrap();
    assert!(content(config.output.as_ref().unwrap()).iter().any(|(name, _)| name == "manifest.json"));
}

/// The share of bad lines counts for the whole file, not for a range.
#[test]
fn bad_lines_are_counted_over_all_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let config = large_file(folder.path(), Layout::Instances, false);
    let text = std::fs::read(&config.input[0]).unwrap();
    let to = |name: &str| BuildConfig { output: Some(folder.path().join(name)), ..config.clone() };
    for (bad, accepted) in [(100, true), (300, false)] {
        let middle = text.len() / 2;
        let bad = b"\xff\n".repeat(bad);
        std::fs::write(&config.input[0], [&text[..middle], b"\n", &bad, &text[middle..]].concat()).unwrap();
        let results = [SEGMENT, 1024].map(|segment| {
            let name = format!("{}-{segment}", bad.len());
            build(&Disk, &to(&name), segment).map(|_| content(&folder.path().join(name)))
        });
        match results {
            [Ok(whole), Ok(divided)] => assert!(accepted && whole == divided),
            [Err(whole), Err(divided)] => {
                assert!(!accepted && whole.to_string() == divided.to_string(), "{whole}, {divided}");
            }
            _ => panic!("the result depends on the division"),
        }
    }
}

#[test]
fn ranges_of_different_text_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = large_file(folder.path(), Layout::Instances, false);
    let part = |index| BuildConfig { part: Some(index), parts: Some(2), ..config.clone() };
    build(&Disk, &part(1), 9000).unwrap_err();
    // Change a byte at the end of the text of the first range, after its last block.
    let mut prepared = prepare(&config).unwrap();
    prepared.segment = 9000;
    let cut = Division::new(&prepared).unwrap().segments[0].range.unwrap().end;
    let mut text = std::fs::read(&config.input[0]).unwrap();
    let at = cut.block as usize + text[cut.block as usize..].iter().position(|&byte| byte == b'.').unwrap();
    assert!((at as u64) < cut.text);
    text[at] = b'a';
    std::fs::write(&config.input[0], text).unwrap();
    let error = build(&Disk, &part(2), 9000).unwrap_err();
    assert!(error.to_string().contains("large.txt: this input changed while it was read"), "{error}");
    assert_eq!(error.exit_code(), 3);
    // The first part notices the change and tokenizes its text again, so it succeeds.
    let error = build(&Disk, &part(1), 9000).err();
    assert!(error.is_none(), "{error:?}");
}

/// A single failed read never makes a file count as absent, so the next build still finds the tokenized text.
#[test]
fn a_failed_read_loses_no_work() {
    let folder = tempfile::tempdir().unwrap();
    let config = eleven_files(folder.path(), Layout::Instances);
    build(&Disk, &config, 300).unwrap();
    let whole = content(config.output.as_ref().unwrap());
    for nth in 1.. {
        let config = BuildConfig { output: Some(folder.path().join(nth.to_string())), ..config.clone() };
        build(&Faulty::new(Fault::Full, 60), &config, 300).unwrap_err();
        let files = Faulty::new(Fault::Read, nth);
        let stopped = build(&files, &config, 300).is_err();
        if !files.triggered() {
            assert!(nth > 20, "{nth} reads");
            break;
        }
        let events = build(&Disk, &config, 300).unwrap();
        let first = events.first().map(|at| at.stage);
        assert!(!stopped || first != Some(BuildStage::Reading), "read {nth}: the text was lost");
        assert!(content(config.output.as_ref().unwrap()) == whole, "read {nth}");
    }
}

#[test]
fn a_growing_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = eleven_files(folder.path(), Layout::Instances);
    let prepared = prepare(&config).unwrap();
    let OutputState::Open(output) = prepared.open(&Disk).unwrap() else { panic!("a new folder") };
    let division = Division::new(&prepared).unwrap();
    let mut text = std::fs::read(&config.input[3]).unwrap();
    text.extend(b"o p q.\n");
    std::fs::write(&config.input[3], text).unwrap();
    let error = division.tokenize(&prepared, &output.work, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("03.txt: this input had "), "{error}");
    assert_eq!(error.exit_code(), 3);
}

/// A build that is stopped anywhere during tokenization continues after the last finished segment.
#[test]
fn finished_segments_are_reused() {
    let folder = tempfile::tempdir().unwrap();
    let config = eleven_files(folder.path(), Layout::Instances);
    build(&Disk, &config, 1).unwrap();
    let whole = content(config.output.as_ref().unwrap());
    let mut reused_documents = Vec::new();
    for operation in (0..120).step_by(3) {
        let config =
            BuildConfig { output: Some(folder.path().join(operation.to_string())), ..config.clone() };
        if build(&Faulty::new(Fault::Full, operation), &config, 1).is_ok() {
            break;
        }
        let events = build(&Disk, &config, 1).unwrap();
        let reused = events.iter().find(|at| at.stage == BuildStage::ReusedText);
        reused_documents.push(reused.map_or(0, |at| at.done));
        assert!(content(config.output.as_ref().unwrap()) == whole, "{operation}");
    }
    assert!(reused_documents.is_sorted(), "{reused_documents:?}");
    reused_documents.dedup();
    assert!(reused_documents.len() > 8 && reused_documents[0] == 0, "{reused_documents:?}");
}

/// A damaged segment is repaired by tokenizing only that segment again.
#[test]
fn a_damaged_segment_is_tokenized_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = eleven_files(folder.path(), Layout::Instances);
    let part = BuildConfig { part: Some(1), parts: Some(2), ..config };
    assert_eq!(build(&Disk, &part, 1).unwrap_err().exit_code(), 75);
    let damaged = part.output.as_ref().unwrap().join(".build-00001-of-00002/documents-00002");
    let good = std::fs::read(&damaged).unwrap();
    let mut bytes = good.clone();
    bytes[3] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let mut prepared = prepare(&part).unwrap();
    prepared.segment = 1;
    let OutputState::Open(output) = prepared.open(&Disk).unwrap() else { panic!("not finished") };
    let mut read = 0;
    let mut events = |at: BuildProgress| read += u64::from(at.stage == BuildStage::Reading);
    Division::new(&prepared).unwrap().tokenize(&prepared, &output.work, &mut events).unwrap();
    assert_eq!((read, std::fs::read(&damaged).unwrap()), (1, good));
}
