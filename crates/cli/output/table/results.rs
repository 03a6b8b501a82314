//! The tables of the results of the library.

use bert_data::{DataReport, Estimate, Inspection, LengthRange, Manifest};
use bert_finetuning::{FinetuneReport, MultitaskReport, TaskEpoch};
use bert_reports::{Collection, Comparison, GlueTable, Group, SeedPair, Side};
use bert_tasks::{Metric, SeedSummary, Statistics, SummaryRow, Task};
use bert_training::{Evaluation, PretrainEstimate, PretrainOutcome};

use super::{Column, Table, Tabular, p_value};

/// Returns the figures of an evaluation with their names.
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

impl Tabular for PretrainOutcome {
    fn table(&self) -> Table {
        let mut figures = vec![
            ("steps".to_string(), self.steps.to_string()),
            ("skipped steps".to_string(), self.skipped_steps.to_string()),
        ];
        figures.extend(
            self.metrics
                .iter()
                .map(|last| ("loss of the last step".to_string(), format!("{:.4}", last.loss))),
        );
        figures.extend(self.diverged.iter().map(|step| ("diverged at step".to_string(), step.to_string())));
        figures.extend(self.best.iter().map(|best| ("best step".to_string(), best.step.to_string())));
        let best = self.best.as_ref().map(|best| &best.evaluation);
        for (name, evaluation) in
            [("held-out", self.evaluation.as_ref()), ("best", best), ("average", self.average.as_ref())]
        {
            let named = evaluation.map(evaluation_figures).unwrap_or_default();
            figures.extend(named.into_iter().map(|(figure, value)| (format!("{name}: {figure}"), value)));
        }
        Table::from_figures(figures)
    }
}

impl Tabular for PretrainEstimate {
    fn table(&self) -> Table {
        Table::from_lines(&self.to_string())
    }
}

impl Tabular for Estimate {
    fn table(&self) -> Table {
        let text = self.to_string();
        let figures: String = text
            .lines()
            .filter(|line| !line.starts_with("warning: "))
            .map(|line| format!("{line}\n"))
            .collect();
        Table { warnings: self.warnings.clone(), ..Table::from_lines(&figures) }
    }
}

/// Returns the cell of a missing value.
fn none() -> String {
    "-".to_string()
}

impl Tabular for DataReport {
    fn table(&self) -> Table {
        let row = |(name, value, remark): (&str, String, String)| {
            vec![name.trim_start().to_string(), value, remark]
        };
        let length = |range: &LengthRange| {
            vec![format!("length {} to {}", range.from, range.to), range.instances.to_string(), String::new()]
        };
        let figures = self.figures(|count| count.to_string()).into_iter().map(row);
        Table {
            columns: vec![Column::text("figure"), Column::number("value"), Column::text("remark")],
            rows: figures.chain(self.length_histogram.iter().map(length)).collect(),
            warnings: self.warnings.clone(),
            ..Table::default()
        }
    }
}

impl Tabular for Manifest {
    fn table(&self) -> Table {
        self.report.table()
    }
}

impl Tabular for Inspection {
    fn table(&self) -> Table {
        self.manifest.table()
    }
}

impl Tabular for SeedSummary {
    fn table(&self) -> Table {
        let metrics = self.headings().into_iter().map(Column::number);
        let row = |SummaryRow { name, cells, note }: SummaryRow| {
            let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
            [vec![format!("{name}{note}")], cells].concat()
        };
        let examples = format!("{} examples", self.examples);
        let (primary, statistics) = self.main();
        let mean = statistics.map(|found| {
            let mean = primary.with_unit(found.mean);
            format!("The mean {primary} over {} seeds is {mean}.", self.runs.len())
        });
        let interval = self.interval.as_ref().map(|interval| interval.describe(self.runs.len()));
        Table {
            columns: [Column::text("seed")].into_iter().chain(metrics).collect(),
            title: format!("Scores on {}", self.task),
            verdict: mean.unwrap_or_default(),
            rows: self.rows().into_iter().map(row).collect(),
            notes: [examples].into_iter().chain(interval).collect(),
            warnings: self.warnings(),
            ..Table::default()
        }
    }
}

impl Tabular for FinetuneReport {
    /// Returns the tables of dev and the other sets as one, with a column for the set.
    fn table(&self) -> Table {
        let others = [("dev, mismatched", &self.dev_mismatched), ("test", &self.test)];
        let others = others.into_iter().filter_map(|(name, summary)| Some((name, summary.as_ref()?)));
        let mut all = Table { warnings: self.warnings.clone(), ..self.dev.table() };
        all.rows.clear();
        all.notes.clear();
        for (name, summary) in [("dev", &self.dev)].into_iter().chain(others) {
            let part = summary.table();
            all.columns = [Column::text("set")].into_iter().chain(part.columns).collect();
            all.rows.extend(part.rows.into_iter().map(|row| [vec![name.to_string()], row].concat()));
            all.notes.extend(part.notes.into_iter().map(|note| format!("{name}: {note}")));
        }
        all
    }
}

impl Tabular for Collection {
    fn table(&self) -> Table {
        let [first, ..] = self.groups.as_slice() else { return Table::default() };
        if self.groups.len() == 1 {
            return first.dev.table();
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
        let best = self.groups.iter().filter_map(mean).max_by(|a, b| a.1.total_cmp(&b.1));
        let best =
            best.map(|(name, mean)| format!("{name} has the highest mean: {}.", metric.with_unit(mean)));
        let sampling = first.dev.binomial_standard_error;
        let sampling = sampling
            .map(|error| format!("sampling error of one accuracy: {:.1} % (binomial)", 100.0 * error));
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
            rows: self.groups.iter().map(row).collect(),
            notes: sampling.into_iter().chain([optimistic]).collect(),
            ..Table::default()
        }
    }
}

/// Returns the title of a table of scores.
fn about_dev(task: &Task, examples: usize, metric: Metric) -> String {
    format!("{task} on dev, {examples} examples: {}", metric.heading())
}

impl Tabular for Comparison {
    /// Returns a row for each side and one for the difference, with its interval and p-value.
    fn table(&self) -> Table {
        let test = &self.test;
        let metric = self.test.metric;
        let cell = |value: f64| metric.cell(Some(value + 0.0));
        let side = |name: &str, side: &Side| {
            let folders: Vec<String> = side.folders.iter().map(|path| path.display().to_string()).collect();
            let figures =
                [cell(side.statistics.mean), metric.cell(side.statistics.sd), side.seeds.len().to_string()];
            let named = [name.to_string(), folders.join(" ")].into_iter();
            named.chain(figures).chain([none(), none(), none()]).collect()
        };
        let difference =
            ["first minus second".to_string(), String::new(), cell(test.difference), none(), none()];
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
            title: about_dev(&self.task, self.examples, metric),
            verdict: format!("{shown} ({}).", metric.difference(test.difference)),
            columns: texts.into_iter().chain(numbers).collect(),
            rows: vec![
                side("first", &self.first),
                side("second", &self.second),
                difference.into_iter().chain(interval).collect(),
            ],
            notes: vec![note],
            second: (!self.mcnemar.is_empty()).then(|| Box::new(mcnemar_table(&self.mcnemar))),
            ..Table::default()
        }
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

impl Tabular for GlueTable {
    fn table(&self) -> Table {
        let percent = |value: Option<f64>| value.map_or_else(none, |value| format!("{:.1}", 100.0 * value));
        let mut rows = Vec::new();
        for row in &self.rows {
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
            self.average.map(|mean| format!("The mean of the tasks without wnli is {:.1}.", 100.0 * mean));
        let scores = self.rows.iter().filter_map(|row| Some(format!("{} {}", row.task, row.published?)));
        let scores = scores.collect::<Vec<_>>().join(", ");
        let published = self.published.filter(|_| !scores.is_empty());
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
}

impl Tabular for MultitaskReport {
    /// Returns a row for each epoch, task and metric.
    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (epoch, tasks) in self.epochs.iter().enumerate() {
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
}
