//! Checks that a data set made in parts, as by a job array, equals the one made by a single program.

use crate::common::{Folder, articles};

const FLAGS: &str = "--input train.txt --vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 \
                     --num-shards 3 --dupe-factor 4";

#[test]
fn concurrent_parts_merge_to_the_whole_data_set() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 8));
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
    folder.ok(&format!("make-pretrain-data {FLAGS} --output whole"));
    let part = |index: usize| format!("make-pretrain-data {FLAGS} --output parts --part {index} --parts 4");
    // A part that starts before the text is tokenized reports this and what to do next.
    folder.refused(&part(2), 75, "1 of 1 shares of the text are not tokenized yet");
    let tokenize = |index: usize| format!("{} --tokenize-only", part(index));
    let running: Vec<_> = [1, 2, 3, 4].map(|index| folder.start(&tokenize(index))).into_iter().collect();
    for child in running {
        assert!(child.wait_with_output().expect("its end").status.success());
    }
    let running: Vec<_> = [1, 3, 4].map(|index| folder.start(&part(index))).into_iter().collect();
    for child in running {
        assert!(child.wait_with_output().expect("its end").status.success());
    }
    folder.refused("bert merge parts", 3, "part 2 is missing: make it with --part 2 --parts 4");
    // This part has other paths for the same text, as on a machine with another mount point.
    folder.write("mounted/text.txt", articles(0, 8));
    folder.write("elsewhere/vocab.txt", folder.read("vocab.txt"));
    let vocab = folder.at("elsewhere/vocab.txt");
    let named =
        FLAGS.replace("train.txt", "mounted/text.txt").replace("vocab.txt", vocab.to_str().expect("Unicode"));
    let ended = folder.ok(&part(2).replace(FLAGS, &named));
    ended.stdout_has("part 2 of 4: 1 shard, ");
    let ended = folder.ok(&part(4));
    ended.stderr_has("already complete");
    folder.ok("bert merge parts");
    folder.ok("bert verify parts");
    assert!(folder.snapshot("whole") == folder.snapshot("parts"), "the union differs from the whole");
    let ended = folder.run("make-pretrain-data --input train.txt --vocab vocab.txt --output x --part 1");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn parts_with_scratch_print_the_merge_command() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 4));
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
    folder.ok(&format!("make-pretrain-data {FLAGS} --output whole"));
    let part = |index: usize| {
        format!("make-pretrain-data {FLAGS} --output parts --scratch fast --part {index} --parts 2")
    };
    folder.ok(&format!("{} --tokenize-only", part(2)));
    // Another build shares the folder and waits for its second part.
    let other = format!("make-pretrain-data {FLAGS} --output other --scratch fast --part 1 --parts 2");
    folder.ok(&format!("{other} --tokenize-only"));
    folder.ok(&part(1));
    let message = folder.ok(&part(2)).stdout;
    let merge = message.lines().last().and_then(|line| line.strip_prefix("next, when all parts are done: "));
    assert_eq!(merge, Some("bert merge parts --scratch fast"), "{message}");
    folder.ok(merge.expect("compared"));
    assert!(folder.snapshot("whole") == folder.snapshot("parts"), "the union differs from the whole");
    let left = folder.snapshot("fast");
    assert!(
        left.keys().any(|name| name.ends_with("/documents-00000")),
        "the text of the other build is gone"
    );
    assert!(left.keys().all(|name| name.starts_with("other-")), "{:?}", left.keys());
    // Every command may be repeated, as by a scheduler that restarts jobs.
    let again = folder.ok(&format!("{} --quiet", part(1)));
    assert_eq!(again.stderr, "", "--quiet");
    folder.ok("bert merge parts --scratch fast");
    let again = folder.ok(&format!("make-pretrain-data {FLAGS} --output whole"));
    again.stderr_has("already complete");
    let ended = folder.run("bert merge parts --scratch none");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
}

#[test]
fn engine_rejects_unsupported_options() {
    let folder = Folder::new();
    folder.write("train.txt", "one.\n");
    let line = "make-pretrain-data --input train.txt --vocab vocab.txt --output data --engine datafusion";
    for (flags, message) in
        [("--tasks 1", "--tasks"), ("--overwrite", "--overwrite cannot be used with --engine")]
    {
        let ended = folder.run(&format!("{line} {flags}"));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(message) && !ended.stderr.contains("--part"), "{}", ended.stderr);
    }
}

#[test]
fn engines_make_whole_data_sets() {
    let folder = Folder::new();
    let line =
        "make-pretrain-data --input train.txt --vocab vocab.txt --output data --engine ballista://host:1";
    let ended = folder.run(&format!("{line} --tokenize-only"));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let message = "the argument '--engine <ENGINE>' cannot be used with";
    let other = "the argument '--tokenize-only' cannot be used with";
    assert!(ended.stderr.contains(message) || ended.stderr.contains(other), "{}", ended.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn full_stdout_is_reported() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 4));
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
    let mut command = folder.command(&format!("make-pretrain-data {FLAGS} --output data"));
    let full = std::fs::File::create("/dev/full").expect("a device that is full");
    let ended = command.stdout(full).output().expect("the program starts");
    let message = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{message}");
    assert!(message.contains("the work is complete") && message.contains("standard output"), "{message}");
    folder.ok("bert verify data");
}

#[cfg(unix)]
#[test]
fn sigusr1_does_not_stop_a_build() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 40));
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
    let mut child = folder.start(
        &format!("make-pretrain-data {FLAGS} --dupe-factor 60 --output data").replace("--dupe-factor 4", ""),
    );
    while child.try_wait().expect("its state").is_none() {
        if folder.at("data/.build").exists() {
            let kill = format!("kill -USR1 {}", child.id());
            assert!(std::process::Command::new("sh").args(["-c", &kill]).status().is_ok());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(child.wait().expect("its end").success());
}

#[test]
fn memory_budget_does_not_change_the_output() {
    let folder = Folder::new();
    folder.write("train.txt", articles(0, 4));
    folder.ok("bert make-vocab --input train.txt --vocab-size 400 --output vocab.txt");
    folder.ok(&format!("make-pretrain-data {FLAGS} --output large"));
    folder.ok(&format!("make-pretrain-data {FLAGS} --memory-budget 64M --threads 2 --output small"));
    assert!(folder.snapshot("large") == folder.snapshot("small"));
    folder.refused(
        &format!("make-pretrain-data {FLAGS} --memory-budget 1M --output x"),
        2,
        "--memory-budget is 1M, but",
    );
    let ended = folder.run(&format!("make-pretrain-data {FLAGS} --memory-budget lots --output x"));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}
