//! Makes the model card of a fine-tuned model from its report.

use bert_inference::hub_model::hub_name;
use bert_inference::present_folder;
use bert_tasks::{Kind, Metric, Task};
use serde_json::Value;

use crate::config::HeadKind;
use crate::files::folder::MODEL;
use crate::files::model_card::{Card, CardDataset, CardScore, python_usage, stated_in};
use crate::output::report::FinetuneReport;

/// Returns the card of the fine-tuned model of a report.
pub fn card_of_finetuning(report: &FinetuneReport) -> Card {
    let task = report.dev.task.spec();
    let (pipeline, class) = match task.kind {
        Kind::Classification if task.name == "swag" => ("multiple-choice", "BertForMultipleChoice"),
        Kind::Classification | Kind::Regression { .. } => {
            ("text-classification", "BertForSequenceClassification")
        }
        Kind::Spans { .. } => ("question-answering", "BertForQuestionAnswering"),
        Kind::Tags => ("token-classification", "BertForTokenClassification"),
    };
    let adapters = &report.config.adapters;
    let is_own_head = report.config.head.is_some_and(|head| head != HeadKind::Linear);
    let is_adapter = (adapters.adapter.is_some() && !adapters.merge_lora) || !adapters.fusion.is_empty();
    let usage = if is_adapter {
        "# an adapter without its encoder: load it with the library `adapters` or PEFT\n".to_string()
    } else if is_own_head {
        "# transformers has no class for this head: use `bert predict --checkpoint`\n".to_string()
    } else {
        python_usage(class)
    };
    let base = present_folder(&report.start).filter(|_| !report.config.random_init);
    let base = base.map(|folder| stated_in(&folder)).unwrap_or_default();
    let file_name = || report.start.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut start = hub_name(&report.start).map_or_else(file_name, |name| name.to_string());
    let mut limits = limits(report);
    if report.config.random_init {
        start = format!("random weights in the shape of {start}");
    }
    if let Some(license) = &base.license {
        limits.push(format!("The licence of the model that it started from, {start}, is {license}."));
    }
    Card {
        name: format!("bert-{}", task.name),
        path: MODEL.to_string(),
        library: (!is_own_head).then_some("transformers"),
        model: format!("a BERT fine-tuned on {}", task.name),
        task: (!is_own_head).then_some(pipeline),
        stated: base,
        dataset: dataset(report),
        scores: scores(report),
        text: Vec::new(),
        usage,
        limits,
        settings: settings(report, start),
    }
}

/// Returns the training settings.
fn settings(report: &FinetuneReport, start: String) -> Vec<(&'static str, String)> {
    let number = |value: &dyn std::fmt::Debug| format!("{value:?}");
    let seeds: Vec<String> = report.runs.iter().map(|run| run.seed.to_string()).collect();
    let config = &report.config;
    let adapter = config.adapters.adapter.map(|kind| number(&kind).to_lowercase());
    let layers = if config.freeze_encoder { Some(0) } else { config.trainable_layers };
    let text = |value: &Value| value.as_str().map(str::to_string);
    let optional = [
        ("trained together with", text(&report.identity["together"])),
        ("adapter", adapter),
        ("trainable_layers", layers.map(|layers| layers.to_string())),
    ];
    let mut settings = vec![
        ("start", start),
        ("training examples", report.train_examples.to_string()),
        ("seeds", seeds.join(", ")),
        ("learning_rate", number(&report.resolved.learning_rate)),
        ("train_batch_size", number(&report.resolved.train_batch_size)),
        ("num_train_epochs", number(&report.resolved.num_train_epochs)),
        ("max_seq_length", number(&report.resolved.max_seq_length)),
        ("commit", report.commit.clone()),
    ];
    settings.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    settings
}

/// A dev set of GLUE: its task, the name of the task on the Hub, and its digest.
type GlueSet = (Task, &'static str, &'static str);

/// Digests of the dev sets of GLUE ([`FinetuneReport::dev_digest`]), which are on the Hub. A card of other data for
/// the same task names no data set of the Hub. A card of MNLI, QQP or STS-B names none either, because their digests
/// were not measured.
const GLUE_DEV: [GlueSet; 6] = [
    (Task::Cola, "cola", "83bb2adaabfb76e8fd0a88a435bf2b4a0a0c23231d55f448b35e92bb245fa235"),
    (Task::Mrpc, "mrpc", "27eb24b18d99880f11cf10aec3ade97c23e0e29112a605d1b582f984913b2723"),
    (Task::Rte, "rte", "8abc48955939cbb9a97d3889d83b352cd49c717398a2a905faaf821d2ccaf074"),
    (Task::Sst2, "sst2", "6901363fd16a6428775ca9142e9db52fcfbf2415eb89754dde130d5944145f05"),
    (Task::Wnli, "wnli", "90d1ceaecf118bc26b1e0128e1cebbf63a0c921720d4e8912c08633519d6eb7b"),
    (Task::Qnli, "qnli", "4355a73f9186a96bcebacaa3284a7674e1f4547b1d86b05e1c29aacac97ac2c6"),
];

/// Returns the data of the scores. Data sets of the Hub get their identifiers on the Hub.
fn dataset(report: &FinetuneReport) -> CardDataset {
    let name = report.dev.task.spec().name;
    let glue =
        GLUE_DEV.iter().find(|(task, _, digest)| *task == report.dev.task && *digest == report.dev_digest);
    CardDataset {
        name: format!("dev of {name}, {} examples", report.dev.examples),
        id: glue.map_or("own-data", |_| "glue").to_string(),
        config: glue.map(|(_, config, _)| (*config).to_string()),
        split: glue.map(|_| "validation"),
    }
}

/// Returns the scores of the saved model, each with the mean of all seeds.
fn scores(report: &FinetuneReport) -> Vec<CardScore> {
    let Some(best) = report.best_run() else { return Vec::new() };
    let score = |metric: Metric| {
        let summary = report.dev.metrics.iter().find(|summary| summary.metric == metric)?;
        let mean = summary.statistics.mean;
        let mut name = format!("{metric} of this model (seed {})", best.seed);
        if report.runs.len() > 1 {
            name += &format!("; mean of {} seeds {mean:.4}", report.runs.len());
        }
        if let Some(interval) = report.dev.interval.filter(|interval| interval.metric == metric) {
            name += &format!(", 95 % interval of the mean {:.4} to {:.4}", interval.low, interval.high);
        }
        if let Some(majority) = report.dev.majority_baseline.get(metric) {
            name += &format!("; baseline {majority:.4} ({})", report.dev.baseline_answer());
        }
        name += &format!("; {}", report.selection.short());
        let metric_name = metric.to_string().to_lowercase().replace([' ', '-'], "_");
        Some(CardScore { metric: metric_name, value: best.dev.get(metric)?, name })
    };
    report.dev.metrics.iter().filter_map(|summary| score(summary.metric)).collect()
}

fn limits(report: &FinetuneReport) -> Vec<String> {
    let mut limits = vec![format!("Texts are truncated to {} word pieces.", report.resolved.max_seq_length)];
    if report.runs.len() > 1 {
        let best = "The folder has the model of the best seed, so its own score is higher than the mean.";
        let kept = if report.seed_models.is_empty() {
            ""
        } else {
            " The models of all seeds are in the folders seed-N/model of the fine-tuning."
        };
        limits.push(format!("{best}{kept}"));
    }
    let selection = &report.selection;
    if selection.best_on.as_deref() == Some("dev") {
        let last = selection.last_epoch.map(|last| format!(" With the last epochs the mean is {last:.4}."));
        limits.push(format!(
            "The scored epoch of each run is the {}, so the score is a maximum over epochs.{}",
            selection.short(),
            last.unwrap_or_default()
        ));
    }
    limits.push("The examples may contain biases, which were not examined.".to_string());
    limits.extend(report.warnings.iter().cloned());
    limits
}
