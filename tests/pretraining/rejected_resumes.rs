//! Runs that `--resume` rejects: missing, with other settings, with rebuilt data.

use crate::common::{Folder, has_bf16};
use crate::pretraining::resume::RUN;

/// An option of the build, and the difference that its change makes.
const RULES: [(&str, &str); 8] = [
    ("--masked-lm-prob 0.3", "masked_lm_prob was 0.15, now 0.3"),
    ("--max-predictions-per-seq 4", "max_predictions_per_seq was 5, now 4"),
    ("--max-seq-length 24", "max_seq_length was 32, now 24"),
    ("--short-seq-prob 0.9", "short_seq_prob was 0.1, now 0.9"),
    ("--do-whole-word-mask", "do_whole_word_mask was false, now true"),
    ("--max-ngram 3", "max_ngram was 1, now 3"),
    ("--nsp off", "nsp was \"on\", now \"off\""),
    ("--random-word-skip-special", "random_word_skip_special was false, now true"),
];

/// Checks that each changed setting is named.
fn check_other_settings_are_rejected(line: &str, refused: &dyn Fn(&str, i32, &[&str])) {
    for (from, to, message) in [
        ("--seed 7", "--seed 8", "--seed was 7, now 8"),
        ("--learning-rate 3e-3", "--learning-rate 2e-3", "--learning-rate was 0.003, now 0.002"),
        ("--steps 4", "--steps 5", "--steps was 4, now 5"),
        ("--batch-size 6", "--batch-size 8", "--batch-size was 6, now 8"),
        ("--data data", "--data held --allow-overlap", "data was "),
        ("--seed 7", "--seed 7 --kernels plain", "--kernels was \"fused\", now \"plain\""),
    ] {
        let other = line.replace(from, to);
        assert_ne!(other, line);
        let way_out = "a new run from its weights: --init-checkpoint run --output";
        refused(&format!("{other} --output run --resume"), 4, &["another configuration", message, way_out]);
    }
}

#[test]
fn resume_rejects_finished_missing_or_different_runs() {
    let folder = Folder::with_data();
    let line = RUN.replace("--steps 40", "--steps 4");
    let refused = |line: &str, code: i32, message: &[&str]| {
        let before = folder.snapshot(".");
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        for message in message {
            assert!(ended.stderr.contains(message), "{message:?} is not in {}", ended.stderr);
        }
        assert!(before == folder.snapshot("."), "{line} changed something");
    };
    refused(&format!("{line} --output run --resume"), 1, &["no run to resume", "start one without --resume"]);
    folder.ok(&format!("{line} --output run"));
    refused(&format!("{line} --output run"), 1, &["already holds a run", "continue it with --resume"]);

    let before = folder.snapshot("run");
    let ended = folder.ok(&format!("{line} --output run --resume"));
    ended.stdout_has("4 steps done; checkpoint run/checkpoints/step-00000004");
    assert!(before == folder.snapshot("run"), "a finished run was changed");

    check_other_settings_are_rejected(&line, &refused);
    if has_bf16() {
        let other = format!("{line} --precision bf16 --output run --resume");
        refused(&other, 4, &["another configuration", "--precision was \"f32\", now \"bf16\""]);
    }
    folder.ok(&format!("{line} --precision f32 --output run --resume"));
    // Where and how often a run saves or evaluates does not affect its result.
    folder.ok(&format!("{line} --output run --resume --save-every 3 --keep-checkpoints 1"));
}

/// Checks that the loader's settings are part of the run, whether or not the shards contain them: a folder rebuilt with
/// other settings is refused, and the error names them.
#[test]
fn resume_rejects_rebuilt_data() {
    let folder = Folder::with_data();
    let layouts = [
        ("--layout documents", "--masking dynamic", "layout was \"documents\", now \"instances\""),
        ("--masking dynamic", "--masking static", "masking was \"dynamic\", now \"static\""),
        ("--masking static", "--masking dynamic", "masking was \"static\", now \"dynamic\""),
    ];
    for (layout, other, other_said) in layouts {
        let build = |layout: &str, rule: &str| {
            // A repeated flag is an error.
            let defaults = ["--max-seq-length 32", "--max-predictions-per-seq 5"];
            let others = defaults.iter().filter(|flag| flag.split(' ').next() != rule.split(' ').next());
            let flags: Vec<&str> = others.copied().chain([layout, rule]).collect();
            let line = "make-pretrain-data --input train.txt --vocab vocab.txt --output data --overwrite";
            folder.ok(&format!("{line} --num-shards 2 {}", flags.join(" ")));
        };
        build(layout, "");
        let run = layout.replace(' ', "-").replace("--", "run-");
        let line = format!("{} --output {run}", RUN.replace("--steps 40", "--steps 4"));
        folder.ok(&line);
        let before = folder.snapshot(&run);
        let refused = |message: &str| {
            folder.refused(&format!("{line} --resume"), 4, &format!("data_rules.{message}"));
            assert!(before == folder.snapshot(&run), "{layout}: {message}: the run was changed");
        };
        for (rule, message) in RULES {
            build(layout, rule);
            refused(message);
        }
        build(other, "");
        refused(other_said);
        build(layout, "");
        folder.ok(&format!("{line} --resume"));
    }
}
