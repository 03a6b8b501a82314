//! Makes tables of the results of the libraries.

use bert_data::{DataReport, Estimate, LengthRange};
use bert_finetuning::{FinetuneReport, MultitaskReport, TaskEpoch};
use bert_reports::{Collection, Comparison, GlueTable, Group, SeedPair, Side};
use bert_tasks::{Metric, SeedSummary, Statistics, SummaryRow, Task};
use bert_training::{Evaluation, PretrainOutcome};

use super::{Column, Table, p_value};

/// Returns the names and values of an evaluation: number of instances, losses and accuracies.
pub fn evaluation_figures(evaluation: &Evaluation) -> Vec<(String, String)> {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let nats = |loss: f64| format!("{loss:.4}");
    let mut figures = vec![("instances", evaluation.instances.to_string())];
    if evaluation.predictions > 0 {
        figures.extend([
            ("masked-LM loss (nats)", nats(evaluation.masked_lm_loss)),
            ("masked-LM loss (nats per character)", nats(evaluation.masked_lm_nats_per_character)),
            ("masked-LM accuracy (%)", percent(evaluation.masked_lm_accuracy)),
        ]);
    }
    if evaluation.has_next_sentence() {
        figures.extend([
            ("next-sentence loss (nats)", nats(evaluation.next_sentence_loss)),
            ("next-sentence accuracy (%)", percent(evaluation.next_sentence_accuracy)),
        ]);
    }
    figures.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Returns the table of a pre-training run: its steps, losses and accuracies.
pub fn outcome_table(outcome: &PretrainOutcome) -> Table {
    let mut figures = vec![
        ("steps".to_string(), outcome.steps.to_string()),
        ("skipped steps".to_string(), outcome.skipped_steps.to_string()),
    ];
    figures.extend(
        outcome.metrics.iter().map(|last| ("loss of the last step".to_string(), format!("{:.4}", last.loss))),
    );
    figures.extend(outcome.diverged.iter().map(|step| ("diverged at step".to_string(), step.to_string())));
    figures.extend(outcome.best.iter().map(|best| ("best step".to_string(), best.step.to_string())));
    let best = outcome.best.as_ref().map(|best| &best.evaluation);
    for (name, evaluation) in
        [("held-out", outcome.evaluation.as_ref()), ("best", best), ("average", outcome.average.as_ref())]
    {
        let named = evaluation.map(evaluation_figures).unwrap_or_default();
        figures.extend(named.into_iter().map(|(figure, value)| (format!("{name}: {figure}"), value)));
    }
    Table::from_figures(figures)
}

/// Returns the table of the estimate of a build.
pub fn estimate_table(estimate: &Estimate) -> Table {
    let text = estimate.to_string();
    let figures: String =
        text.lines().filter(|line| !line.starts_with("warning: ")).map(|line| format!("{line}\n")).collect();
    Table { warnings: estimate.warnings.clone(), ..Table::from_lines(&figures) }
}

/// Returns the cell of a missing value.
fn none() -> String {
    "-".to_string()
}

/// Returns the table of the counts of a data set.
pub fn data_report_table(report: &DataReport) -> Table {
    let row =
        |(name, value, remark): (&str, String, String)| vec![name.trim_start().to_string(), value, remark];
    let length = |range: &LengthRange| {
        vec![format!("length {} to {}", range.from, range.to), range.instances.to_string(), String::new()]
    };
    let figures = report.figures(|count| count.to_string()).into_iter().map(row);
    Table {
        columns: vec![Column::text("figure"), Column::number("value"), Column::text("remark")],
        rows: figures.chain(report.length_histogram.iter().map(length)).collect(),
        warnings: report.warnings.clone(),
        ..Table::default()
    }
}

/// Returns the table of the scores of a fine-tuning on one set, by seed.
pub fn seed_summary_table(summary: &SeedSummary) -> Table {
    let metrics = summary.headings().into_iter().map(Column::number);
    let row = |SummaryRow { name, cells, note }: SummaryRow| {
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        [vec![format!("{name}{note}")], cells].concat()
    };
    let examples = format!("{} examples", summary.examples);
    let (primary, statistics) = summary.main();
    let mean = statistics.map(|found| {
        let mean = primary.with_unit(found.mean);
        format!("The mean {primary} over {} seeds is {mean}.", summary.runs.len())
    });
    let interval = summary.interval.as_ref().map(|interval| interval.describe(summary.runs.len()));
    Table {
        columns: [Column::text("seed")].into_iter().chain(metrics).collect(),
        title: format!("Scores on {}", summary.task),
        verdict: mean.unwrap_or_default(),
        rows: summary.rows().into_iter().map(row).collect(),
        notes: [examples].into_iter().chain(interval).collect(),
        warnings: summary.warnings(),
        ..Table::default()
    }
}

/// Returns the tables of dev and the other sets as one, with a column for the set.
pub fn finetune_table(report: &FinetuneReport) -> Table {
    let others = [("dev, mismatched", &report.dev_mismatched), ("test", &report.test)];
    let others = others.into_iter().filter_map(|(name, summary)| Some((name, summary.as_ref()?)));
    let mut all = Table { warnings: report.warnings.clone(), ..seed_summary_table(&report.dev) };
    all.rows.clear();
    all.notes.clear();
    for (name, summary) in [("dev", &report.dev)].into_iter().chain(others) {
        let part = seed_summary_table(summary);
        all.columns = [Column::text("set")].into_iter().chain(part.columns).collect();
        all.rows.extend(part.rows.into_iter().map(|row| [vec![name.to_string()], row].concat()));
        all.notes.extend(part.notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    all
}

/// Returns the table of the scores of several fine-tunings, or of the seeds of a single one.
pub fn collection_table(collection: &Collection) -> Table {
    let [first, ..] = collection.groups.as_slice() else { return Table::default() };
    if collection.groups.len() == 1 {
        return seed_summary_table(&first.dev);
    }
    let metric = first.dev.task.spec().primary;
    let row = |group: &Group| {
        let (_, statistics) = group.dev.main();
        let value = |of: fn(Statistics) -> Option<f64>| metric.cell(statistics.and_then(of));
        let figures =
            [value(|s| Some(s.mean)), value(|s| s.sd), value(|s| Some(s.median)), value(|s| Some(s.max))];
        let counts = [group.dev.runs.len(), group.dev.degenerate_runs].map(|count| count.to_string());
        let name = std::iter::once(group.name.clone());
        name.chain(figures).chain(counts).chain([group.settings_text()]).collect()
    };
    let mean = |group: &Group| {
        let (_, statistics) = group.dev.main();
        Some((group.name.clone(), statistics?.mean))
    };
    let best = collection.groups.iter().filter_map(mean).max_by(|a, b| a.1.total_cmp(&b.1));
    let best = best.map(|(name, mean)| format!("{name} has the highest mean: {}.", metric.with_unit(mean)));
    let sampling = first.dev.binomial_standard_error;
    let sampling =
        sampling.map(|error| format!("sampling error of one accuracy: {:.1} % (binomial)", 100.0 * error));
    let optimistic = "the best of many configurations is optimistic".to_string();
    let numbers = [("mean", 0), ("sd", 1), ("median", 3), ("max", 3)];
    let numbers = numbers.map(|(name, priority)| Column::number(name).with_priority(priority));
    let counts = ["seeds", "degenerate"].map(|name| Column::count(name).with_priority(4));
    Table {
        title: about_dev(&first.dev.task, first.dev.examples, metric),
        verdict: best.unwrap_or_default(),
        columns: [Column::text("fine-tuning")]
            .into_iter()
            .chain(numbers)
            .chain(counts)
            .chain([Column::text("settings").with_priority(2)])
            .collect(),
        rows: collection.groups.iter().map(row).collect(),
        notes: sampling.into_iter().chain([optimistic]).collect(),
        ..Table::default()
    }
}

/// Returns the title of a table of scores.
fn about_dev(task: &Task, examples: usize, metric: Metric) -> String {
    format!("{task} on dev, {examples} examples: {}", metric.heading())
}

/// Returns the table of a comparison: a row for each side, and one for the difference with its interval and p-value.
pub fn comparison_table(comparison: &Comparison) -> Table {
    let test = &comparison.test;
    let metric = comparison.test.metric;
    let cell = |value: f64| metric.cell(Some(value + 0.0));
    let side = |name: &str, side: &Side| {
        let folders: Vec<String> = side.folders.iter().map(|path| path.display().to_string()).collect();
        let figures =
            [cell(side.statistics.mean), metric.cell(side.statistics.sd), side.seeds.len().to_string()];
        let named = [name.to_string(), folders.join(" ")].into_iter();
        named.chain(figures).chain([none(), none(), none()]).collect()
    };
    let difference = ["first minus second".to_string(), String::new(), cell(test.difference), none(), none()];
    let interval = [cell(test.low), cell(test.high), p_value(test.p)];
    let method = test.method();
    let freedom = format!("{:.1} degrees of freedom", test.degrees_of_freedom);
    let note = format!("{:.0} % interval and p of a {method} ({freedom})", 100.0 * test.level);
    let shown = match (test.low > 0.0, test.high < 0.0) {
        (true, _) => "The first is better",
        (_, true) => "The second is better",
        _ => "No difference is shown",
    };
    let numbers = [("mean", 0), ("sd", 2), ("seeds", 3), ("low", 0), ("high", 0), ("p", 0)];
    let numbers = numbers.map(|(name, priority)| Column::number(name).with_priority(priority));
    let texts = [Column::text("side"), Column::text("folders").with_priority(1)];
    Table {
        title: about_dev(&comparison.task, comparison.examples, metric),
        verdict: format!("{shown} ({}).", metric.difference(test.difference)),
        columns: texts.into_iter().chain(numbers).collect(),
        rows: vec![
            side("first", &comparison.first),
            side("second", &comparison.second),
            difference.into_iter().chain(interval).collect(),
        ],
        notes: vec![note],
        second: (!comparison.mcnemar.is_empty()).then(|| Box::new(mcnemar_table(&comparison.mcnemar))),
        ..Table::default()
    }
}

/// Returns the table of McNemar's test of each pair of runs.
fn mcnemar_table(pairs: &[SeedPair]) -> Table {
    let row = |SeedPair { first_seed, second_seed, test }: &SeedPair| {
        let counts = [test.only_first, test.only_second].map(|count| count.to_string());
        let [first, second] = counts;
        vec![format!("{first_seed} and {second_seed}"), first, second, p_value(test.p)]
    };
    Table {
        title: "McNemar's exact test: examples that only one of two runs predicts correctly".into(),
        columns: ["seeds", "only first", "only second", "p"].map(Column::number).into(),
        rows: pairs.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns the table of the GLUE scores: a row for each task, set and metric.
pub fn glue_table(glue: &GlueTable) -> Table {
    let percent = |value: Option<f64>| value.map_or_else(none, |value| format!("{:.1}", 100.0 * value));
    let mut rows = Vec::new();
    for row in &glue.rows {
        let sets = [("dev", Some(&row.dev)), ("dev, mismatched", row.dev_mismatched.as_ref())];
        for (set, summary) in sets.into_iter().filter_map(|(set, summary)| Some((set, summary?))) {
            for metric in &summary.metrics {
                let Statistics { mean, sd, .. } = metric.statistics;
                let majority = summary.majority_baseline.get(metric.metric);
                let set = if row.is_sample { format!("{set} (sample)") } else { set.to_string() };
                let names = [row.task.spec().name.to_string(), set, metric.metric.to_string()];
                let figures = [percent(Some(mean)), percent(sd), percent(majority)];
                rows.push(names.into_iter().chain(figures).collect());
            }
        }
    }
    let average =
        glue.average.map(|mean| format!("The mean of the tasks without wnli is {:.1}.", 100.0 * mean));
    let scores = glue.rows.iter().filter_map(|row| Some(format!("{} {}", row.task, row.published?)));
    let scores = scores.collect::<Vec<_>>().join(", ");
    let published = glue.published.filter(|_| !scores.is_empty());
    let published = published.map(|name| format!("published, {name}, on test: {scores}"));
    let names = ["task", "set", "metric"].map(Column::text);
    Table {
        columns: names.into_iter().chain(["mean", "sd", "majority"].map(Column::number)).collect(),
        title: "GLUE".into(),
        verdict: average.unwrap_or_default(),
        rows,
        notes: published.into_iter().collect(),
        ..Table::default()
    }
}

/// Returns the table of a multi-task run: a row for each epoch, task and metric.
pub fn multitask_table(report: &MultitaskReport) -> Table {
    let mut rows = Vec::new();
    for (epoch, tasks) in report.epochs.iter().enumerate() {
        for TaskEpoch { task, steps, train_loss, dev, .. } in tasks {
            let loss = train_loss.map_or_else(none, |loss| format!("{loss:.4}"));
            let cells = [(epoch + 1).to_string(), task.to_string(), steps.to_string(), loss];
            rows.extend(dev.iter().map(|(metric, score)| {
                let score = [metric.heading(), metric.cell(Some(score))];
                cells.iter().cloned().chain(score).collect()
            }));
        }
    }
    Table {
        columns: vec![
            Column::count("epoch"),
            Column::text("task"),
            Column::count("steps"),
            Column::number("train loss"),
            Column::text("metric on dev"),
            Column::number("score"),
        ],
        rows,
        ..Table::default()
    }
}
