//! Messages of the data programs before and after hours of work: warnings with figures, the fraction of `[UNK]`, disk
//! space.

use crate::common::{Folder, number};

const FLAGS: &str = "--max-seq-length 32 --max-predictions-per-seq 5 --num-shards 3";

#[test]
fn casing_mismatch_prints_a_warning() {
    let folder = Folder::with_data();
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --do-lower-case false --output cased.txt");
    let cased = format!("make-pretrain-data --input train.txt --vocab cased.txt {FLAGS}");
    let uncased =
        format!("make-pretrain-data --input train.txt --vocab vocab.txt --do-lower-case false {FLAGS}");
    for (line, message) in [
        (&cased, "--do-lower-case is on, but the vocabulary is cased: "),
        (&uncased, "--do-lower-case is off, but the vocabulary is uncased: "),
    ] {
        for how in [
            "--output wrong --overwrite",
            "--dry-run",
            "--dry-run --json",
            "--output part --part 1 --parts 2",
        ] {
            let ended = folder.ok(&format!("{line} {how}"));
            let all = format!("{}{}", ended.stderr, ended.stdout);
            assert!(all.to_lowercase().contains(&format!("warning: {message}")), "{line} {how}\n{all}");
        }
        // The warning comes before the work, not only in the final report.
        let ended = folder.ok(&format!("{line} --output wrong --overwrite --quiet"));
        assert!(ended.stderr.starts_with(&format!("warning: {message}")), "{}", ended.stderr);
        let report = folder.checksummed("wrong/manifest.json");
        let warning = report["report"]["warnings"][0].as_str().expect("a warning");
        assert!(warning.starts_with(message) && warning.contains(" % of "), "{warning}");
        std::fs::remove_dir_all(folder.at("part")).expect("removed");
    }
    for right in [
        format!("{cased} --do-lower-case false --output cased"),
        format!("make-pretrain-data --input train.txt --vocab vocab.txt {FLAGS} --output uncased"),
    ] {
        let ended = folder.ok(&right);
        assert!(!ended.stderr.contains("warning: --do-lower-case"), "{}", ended.stderr);
    }
}

#[test]
fn make_vocab_reports_the_unk_fraction() {
    let folder = Folder::with_data();
    let make = |flags: &str| {
        folder.ok(&format!("bert make-vocab --input train.txt --output v.txt --overwrite {flags}"))
    };
    let whole = make("--vocab-size 400").stdout;
    assert!(
        whole.starts_with("[UNK] is 0.0000 % of this text: 0 of ") && whole.contains("; 0 of "),
        "{whole}"
    );
    let cut = make("--vocab-size 400 --limit-alphabet 12").stdout;
    let report = {
        folder.ok(&format!(
            "make-pretrain-data --input train.txt --vocab v.txt {FLAGS} --dupe-factor 1 --output cut"
        ));
        folder.checksummed("cut/manifest.json")
    };
    let count = |what: &str| number(&report, &format!("/report/{what}")) as u64;
    let same = format!("{} of {} tokens; ", count("unknown_tokens"), count("tokens"));
    assert!(count("unknown_tokens") > 100 && cut.contains(&same), "{cut}\n{same}");
}

#[test]
fn dry_run_reports_the_scratch_space() {
    let folder = Folder::with_data();
    let line = format!("make-pretrain-data --input train.txt --vocab vocab.txt {FLAGS} --dry-run");
    let instances = folder.ok(&format!("{line} --json")).json();
    let documents = folder.ok(&format!("{line} --layout documents --json")).json();
    assert!(number(&instances, "/scratch") > number(&instances, "/bytes"));
    // Each token once, with its boundaries.
    assert!(
        number(&documents, "/scratch") > number(&documents, "/bytes") + 2.0 * number(&documents, "/tokens")
    );
    assert!(number(&documents, "/bytes") < number(&instances, "/bytes") / 3.0, "ten passes against none");
    let shown = folder.ok(&line).stdout;
    assert!(shown.contains("during the build, about"), "{shown}");
}
