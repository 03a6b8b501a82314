//! `--format` of the commands that print a table.

use std::collections::BTreeSet;

use crate::common::{Folder, entailment};

/// Rows of a table by column.
type Rows = Vec<Vec<String>>;

/// Reads comma-separated values with their header.
fn from_csv(text: &str) -> Rows {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().map(|row| row.expect("a row").iter().map(String::from).collect()).collect()
}

/// Reads the first Markdown table.
fn from_markdown(text: &str) -> Rows {
    let lines =
        text.lines().skip_while(|line| !line.starts_with("| ")).take_while(|line| line.starts_with("| "));
    let rows = lines.enumerate().filter(|(at, _)| *at != 1).map(|(_, line)| {
        let cells =
            line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")).expect("bars").split(" | ");
        cells.map(|cell| cell.trim().replace('\\', "")).collect()
    });
    rows.collect()
}

/// Reads the rows of a LaTeX table without special characters but `%`, `_`, `[` and `]`.
fn from_latex(text: &str) -> Rows {
    let first = text.split("\\end{tabular}").next().expect("a table");
    let rows = first.lines().filter_map(|line| line.strip_suffix(" \\\\"));
    rows.map(|row| {
        let plain =
            |cell: &str| cell.replace('\\', "").replace("{}", "").replace("{[}", "[").replace("{]}", "]");
        row.trim_start().split(" & ").map(plain).collect()
    })
    .collect()
}

/// Removes the columns that are a caption in the other forms, by the names of those that are not.
fn without_caption(csv: &Rows, names: &[String]) -> Rows {
    let kept = |at: &usize| names.contains(&csv[0][*at]);
    let columns: Vec<usize> = (0..csv[0].len()).filter(kept).collect();
    csv.iter().map(|row| columns.iter().map(|&at| row[at].clone()).collect()).collect()
}

/// Checks that a command prints the same table in three forms, and JSON; returns the table.
fn same_in_all_forms(folder: &Folder, line: &str, flag: &str) -> Rows {
    let of = |format: &str| folder.ok(&format!("{line} {flag} {format}")).stdout;
    let csv = from_csv(&of("csv"));
    assert!(csv.len() > 1 && csv[0].iter().collect::<BTreeSet<_>>().len() == csv[0].len(), "{line}: {csv:?}");
    let markdown = from_markdown(&of("markdown"));
    let shown = without_caption(&csv, &markdown[0]);
    assert_eq!(markdown, shown, "{line}");
    let latex = of("latex");
    assert!(latex.starts_with("\\begin{tabular}{") && latex.contains("\\end{tabular}\n"), "{latex}");
    assert_eq!(from_latex(&latex), shown, "{line}");
    let json: serde_json::Value = serde_json::from_str(&of("json")).expect("one JSON document");
    let same: serde_json::Value =
        serde_json::from_str(&folder.ok(&format!("{line} --json")).stdout).expect("JSON");
    assert_eq!(json, same, "{line}");
    assert_eq!(of("text"), folder.ok(line).stdout, "{line}");
    csv
}

/// Returns a folder with short fine-tunings of the built-in model: `a` with seeds 1 and 2, `b` with another rate.
fn tuned() -> Folder {
    let folder = Folder::new();
    for name in ["RTE", "WNLI"] {
        let label = |rows: String| rows.replace("not_entailment", "0").replace("entailment", "1");
        let task = |rows: String| if name == "RTE" { rows } else { label(rows) };
        folder.write(&format!("glue/{name}/train.tsv"), task(entailment(0, 16)));
        folder.write(&format!("glue/{name}/dev.tsv"), task(entailment(16, 8)));
    }
    let line = "finetune --task rte --data glue --num-train-epochs 1";
    folder.ok(&format!("{line} --seeds 1,2 --output a"));
    folder.ok(&format!("{line} --seeds 1,2 --learning-rate 1e-3 --output b"));
    folder
}

#[test]
fn tables_of_scores_are_the_same_in_all_forms() {
    let folder = tuned();
    let one = same_in_all_forms(&folder, "bert scores a", "--format");
    assert_eq!(one[0], ["seed", "accuracy (%)"]);
    let names: Vec<&str> = one[1..].iter().map(|row| row[0].split(' ').next().expect("a word")).collect();
    assert_eq!(names, ["1", "2", "mean", "sd", "median", "min", "max", "majority"]);
    let grid = same_in_all_forms(&folder, "bert scores a b", "--format");
    assert_eq!(grid[0], ["fine-tuning", "mean", "sd", "median", "max", "seeds", "degenerate", "settings"]);
    let named = from_csv(&folder.ok("bert scores b a --names B,A --format csv").stdout);
    assert_eq!((named[1][0].as_str(), named[2][0].as_str()), ("B", "A"), "in the order of the folders");
    assert_eq!(
        (named[1][1..].to_vec(), named[2][1..].to_vec()),
        (grid[2][1..].to_vec(), grid[1][1..].to_vec())
    );
    folder.refused("bert scores a b --names A", 2, "1 names for 2 configurations");
    let pair = same_in_all_forms(&folder, "bert scores a b --paired", "--format");
    assert_eq!(pair[0], ["side", "folders", "mean", "sd", "seeds", "low", "high", "p"]);
    assert_eq!(pair[3][0], "first minus second");
    let report = same_in_all_forms(&folder, "bert report a", "--format");
    assert_eq!(report[0], ["severity", "finding"]);
}

#[test]
fn tables_of_models_are_the_same_in_all_forms() {
    let folder = tuned();
    let probe = "bert probe --checkpoint a 'a river ||| a stream' --replace river=pipe";
    let flips = same_in_all_forms(&folder, probe, "--output-format");
    assert_eq!(
        (flips[0][0].as_str(), flips[1][3].as_str(), flips[1][4].as_str()),
        ("source", "river", "pipe")
    );
    let masks = same_in_all_forms(&folder, "bert fill-mask 'The river is [MASK].' --top-k 2", "--format");
    assert_eq!(
        (masks[0].as_slice(), masks.len()),
        (["position", "word", "probability"].map(String::from).as_slice(), 3)
    );
    let nearest =
        same_in_all_forms(&folder, "bert nearest --checkpoint tiny-en,a river --top-k 2", "--format");
    assert_eq!(nearest[0], ["query", "rank", "tiny-en", "cosine in tiny-en", "a", "cosine in a"]);
    folder.write("pairs.csv", "sentence_good,sentence_bad\nHe is here.,Him is here.\n");
    let pairs = same_in_all_forms(&folder, "bert minimal-pairs --input pairs.csv", "--format");
    assert_eq!(pairs[1][..2], ["pairs", "1"]);
    folder.add_built_in_data();
    let figures = same_in_all_forms(&folder, "bert evaluate --data of-tiny-en --top-k 5", "--format");
    assert!(figures.iter().any(|row| row[0] == "masked-LM top-5 accuracy (%)"), "{figures:?}");
}

#[test]
fn tables_of_data_and_recipes_are_the_same_in_all_forms() {
    let folder = Folder::with_data();
    let figures = same_in_all_forms(&folder, "bert inspect data --instances 0", "--format");
    assert_eq!(figures[0], ["figure", "value", "remark"]);
    assert!(figures.iter().any(|row| row[0] == "instances" && row[1].parse::<u64>().is_ok()), "{figures:?}");
    let recipes = same_in_all_forms(&folder, "bert recipes", "--format");
    assert!(recipes.iter().any(|row| row[..2] == ["laptop", "data, pretrain"]), "{recipes:?}");
    let flags =
        "--input train.txt --vocab vocab.txt --max-seq-length 32 --num-shards 2 --parts 2 --output parts";
    for part in [1, 2] {
        folder.ok(&format!("make-pretrain-data {flags} --part {part}"));
    }
    let merged = folder.ok("bert merge parts --format csv").stdout;
    assert_eq!(merged, folder.ok("bert inspect parts --format csv").stdout);
    for line in ["bert recipes laptop --format csv", "bert inspect data --index 0 --format csv"] {
        folder.refused(line, 2, "cannot be used with '--format <FORMAT>'");
    }
}

#[test]
fn tables_of_several_tasks_are_printed() {
    let folder = tuned();
    let flags = "--data glue --tasks rte,wnli";
    let glue =
        folder.ok(&format!("bert glue {flags} --output glue-out --format csv -- --num-train-epochs 1"));
    let rows = from_csv(&glue.stdout);
    assert_eq!(rows[0], ["task", "set", "metric", "mean", "sd", "majority"]);
    assert_eq!(rows[1..].iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["rte", "wnli"]);
    let both = format!("bert multitask {flags} --output both --format markdown -- --num-train-epochs 1");
    let rows = from_markdown(&folder.ok(&both).stdout);
    assert!(rows[0].ends_with(&["score".to_string()]) && !rows[0].contains(&"epoch".to_string()), "{rows:?}");
    assert_eq!(rows.len(), 3, "{rows:?}");
    folder.refused(
        "bert scores a --format pdf",
        2,
        "possible values: text, markdown, csv, latex, html, json",
    );
}
