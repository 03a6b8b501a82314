//! `--help` of every program and command.

use std::path::Path;

use crate::common::Folder;

/// Width of the terminal in columns.
const COLUMNS: usize = 80;

/// Maximum number of lines of `-h`: one screen.
const MAX_SHORT_HELP: usize = 50;

/// Returns the programs and the commands of `bert`.
fn commands(folder: &Folder) -> Vec<String> {
    let help = folder.ok("bert --help").stdout;
    let listed = help.split_once("Data:\n").expect("a list of commands").1;
    let listed = listed.split("\n\n").next().expect("its lines");
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let commands = names.map(|name| format!("bert {name}"));
    ["bert", "make-pretrain-data", "pretrain", "finetune"]
        .map(String::from)
        .into_iter()
        .chain(commands)
        .collect()
}

/// Returns the help on a terminal of [`COLUMNS`] columns.
fn help(folder: &Folder, line: &str) -> String {
    let output =
        folder.command(line).env("COLUMNS", COLUMNS.to_string()).output().expect("the program starts");
    assert!(output.status.success(), "{line}");
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

#[test]
fn short_help_fits_on_a_screen() {
    let folder = Folder::new();
    for command in commands(&folder) {
        let [short, long] = ["-h", "--help"].map(|flag| help(&folder, &format!("{command} {flag}")));
        let lines = short.lines().count();
        assert!(lines <= MAX_SHORT_HELP, "{command} -h has {lines} lines\n{short}");
        let flags = |help: &str| -> Vec<String> {
            let words = help.split_whitespace().filter(|word| word.starts_with("--"));
            words.map(|word| word.trim_end_matches(['.', ',', ';', ')', '\'', ']']).to_string()).collect()
        };
        let all = flags(&long);
        for flag in flags(&short) {
            assert!(all.contains(&flag), "{command} --help lacks {flag}");
        }
    }
}

#[test]
fn every_command_is_listed_with_an_example() {
    let folder = Folder::new();
    for command in commands(&folder) {
        let help = help(&folder, &format!("{command} -h"));
        let examples = help.split_once("Examples:\n").map(|(_, examples)| examples).unwrap_or_default();
        assert!(examples.contains("  ") && !help.contains("Commands:"), "{command}\n{help}");
        // A main program is its own example.
        let name = command.replace("bert data", "make-pretrain-data");
        let name = name
            .strip_prefix("bert ")
            .filter(|name| ["pretrain", "finetune"].contains(name))
            .unwrap_or(&name);
        assert!(examples.contains(name), "{command}\n{examples}");
    }
}

#[test]
fn help_wraps_at_the_width_of_the_terminal() {
    let folder = Folder::new();
    let commands = commands(&folder);
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        for flag in ["-h", "--help"] {
            let help = help(&folder, &format!("{command} {flag}"));
            for line in help.lines() {
                let width = line.chars().count();
                assert!(width <= COLUMNS, "{command} {flag}: {width} columns: {line}");
            }
        }
    }
}

/// Compares `docs/commands.md` with the help of all programs. With the environment variable `BERT_UPDATE`, writes it.
/// `bert data`, `bert pretrain` and `bert finetune` have the help of the three programs and are left out.
#[test]
fn commands_page_has_the_present_help() {
    let folder = Folder::new();
    let mut page = String::from(
        "# Commands\n\nThe help of every program and command. `bert data`, `bert pretrain` and `bert finetune` are the three \
         programs as commands of `bert`. `BERT_UPDATE=1 cargo test --test integration commands_page` \
         writes this page.\n",
    );
    let repeated = ["bert data", "bert pretrain", "bert finetune"];
    for command in commands(&folder).iter().filter(|command| !repeated.contains(&command.as_str())) {
        let mut process = folder.command(&format!("{command} --help"));
        let output = process.env("COLUMNS", "100").output().expect("the program starts");
        let help = String::from_utf8(output.stdout).expect("help is UTF-8");
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {command}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    if std::env::var_os("BERT_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let committed = std::fs::read_to_string(&path).expect("docs/commands.md");
    let different = page.lines().zip(committed.lines()).find(|(now, then)| now != then);
    assert!(
        page == committed,
        "docs/commands.md is out of date, run the command in its second line: {different:?}"
    );
}

#[test]
fn help_groups_flags_under_headings() {
    let folder = Folder::new();
    for (program, headings) in [
        ("make-pretrain-data", ["Text:", "Tokenization:", "Instances:", "Masking:", "Shards:"]),
        ("pretrain", ["Initial weights:", "Training:", "Optimizer:", "Evaluation:", "Compute:"]),
        ("finetune", ["Training:", "Optimizer:", "Adapters:", "Trained layers:", "Compute:"]),
    ] {
        let [short, long] = ["-h", "--help"].map(|flag| folder.ok(&format!("{program} {flag}")).stdout);
        for heading in headings {
            for help in [&short, &long] {
                assert!(help.lines().any(|line| line == heading), "{program}: {heading}\n{help}");
            }
        }
        assert!(short.contains("Examples:\n") && long.contains("Examples:\n"), "{program}");
        assert!(long.contains("Exit codes:"), "{program}");
    }
}

#[test]
fn commands_of_bert_have_the_help_of_main_programs() {
    let folder = Folder::new();
    for (program, command) in
        [("make-pretrain-data", "data"), ("pretrain", "pretrain"), ("finetune", "finetune")]
    {
        let without_usage = |line: &str| -> Vec<String> {
            let help = folder.ok(line).stdout;
            help.lines().filter(|line| !line.starts_with("Usage: ")).map(String::from).collect()
        };
        for flag in ["-h", "--help"] {
            let expected = without_usage(&format!("{program} {flag}"));
            assert_eq!(without_usage(&format!("bert {command} {flag}")), expected, "{command} {flag}");
        }
        assert_eq!(
            without_usage(&format!("bert help {command}")),
            without_usage(&format!("{program} --help"))
        );
        let help = folder.ok(&format!("bert {command} --help")).stdout;
        assert!(help.contains(&format!("Usage: bert {command} ")), "{help}");
    }
}

#[test]
fn long_version_names_commit_features_and_processor() {
    let folder = Folder::new();
    for (program, name) in [
        ("bert", "bert"),
        ("make-pretrain-data", "make-pretrain-data"),
        ("pretrain", "pretrain"),
        ("finetune", "finetune"),
        ("bert data", "bert-data"),
    ] {
        let first = format!("{name} {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(folder.ok(&format!("{program} -V")).stdout, format!("{first}\n"));
        let long = folder.ok(&format!("{program} --version")).stdout;
        let lines: Vec<&str> = long.lines().collect();
        let [version, commit, features, processor] = lines[..] else { panic!("{long}") };
        assert_eq!(version, first);
        let commit = commit.strip_prefix("commit:    ").expect("a commit");
        assert!(commit == "unknown" || commit.chars().all(|digit| digit.is_ascii_hexdigit()), "{commit}");
        assert_eq!(features.contains("flex"), cfg!(feature = "flex"), "{features}");
        let units = bert_kernels::processor::instruction_set();
        assert_eq!(processor, format!("processor: {units}"));
    }
}
