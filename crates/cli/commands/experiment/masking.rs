//! The experiment masking: what the data builder does to a text, stage by stage.

use bert_data::Nsp;
use bert_data::config::predictions::default_max_predictions;
use bert_data::inspect::stages::{InstanceStage, SegmentStage, StageRules, Stages};
use bert_data::instance::masking::MaskRules;
use bert_data::instance::pairs::PairRules;
use bert_inference::encoding::model_tokenizer::ModelTokenizer;
use maud::{Markup, html};

use super::args::Args;
use super::definition::Experiment;
use super::held_out_text::text as text_of;
use super::table::{Cell, Heading, Report, Results, Rows, number, text};
use super::train::check_output;
use crate::commands::model_folder;

/// Share of the documents with a short target length, as in the reference.
const SHORT_SEQ_PROB: f64 = 0.1;

/// Columns of the table: a row for each stage of each instance.
const HEADINGS: [Heading; 5] = [
    number("instance", "instance"),
    text("stage", "stage"),
    text("reference", "function of the reference"),
    number("tokens", "tokens"),
    text("result", "result"),
];

/// Returns the stages of the first instances of the text.
///
/// # Errors
/// When the text or the tokenizer cannot be read.
pub(super) fn run(args: &Args, experiment: &Experiment) -> anyhow::Result<Report> {
    check_output(args)?;
    let folder = model_folder(&args.checkpoint[0])?;
    let tokenizer = ModelTokenizer::open(&folder)?;
    let max_seq_length = usize::from(args.max_seq_length.unwrap_or(64));
    let vocabulary = &tokenizer.vocabulary;
    let masks = MaskRules {
        max_predictions_per_seq: default_max_predictions(max_seq_length, MaskRules::default().masked_lm_prob),
        ..MaskRules::default()
    };
    let rules = StageRules {
        tokenizer: &tokenizer.tokenizer,
        vocabulary,
        pairs: PairRules {
            max_seq_length,
            short_seq_prob: SHORT_SEQ_PROB,
            reference: false,
            nsp: Nsp::On,
            cls: vocabulary.cls_id(),
            sep: vocabulary.sep_id(),
        },
        masks,
        seed: args.seeds[0],
        pass: 0,
    };
    let stages = rules.stages(&text_of(args)?, args.instances.unwrap_or(4))?;
    let rows = stages.instances.iter().enumerate();
    let rows = rows.flat_map(|(number, one)| instance_rows(number + 1, &stages, one)).collect();
    let results = Results {
        experiment: experiment.name,
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        checkpoints: vec![args.checkpoint[0].display().to_string()],
        estimated_seconds: None,
        seconds: 0.0,
        rows: Rows { headings: HEADINGS.to_vec(), rows },
        notes: vec![
            format!("Rules: at most {max_seq_length} tokens, {:.0} % masks, seed {}.", 100.0 * masks.masked_lm_prob, rules.seed),
            "In a result, [MASK:x] hides x, [KEPT:x] shows it but must be predicted, and [RANDOM y:x] shows y.".to_string(),
        ],
        warnings: Vec::new(),
    };
    let body = html! {
        h2 { "Instances" }
        @for one in &stages.instances { p { (coloured(one)) } }
    };
    Ok(Report { results, body })
}

/// Returns the rows of an instance.
fn instance_rows(number: usize, stages: &Stages, one: &InstanceStage) -> Vec<Vec<Cell>> {
    let row = |stage: &str, reference: &str, result: String, tokens: usize| {
        vec![Cell::count(number), stage.into(), reference.into(), Cell::count(tokens), result.into()]
    };
    let all: usize = stages.documents[one.document].iter().map(|sentence| sentence.pieces.len()).sum();
    let short = if one.target < one.max_tokens { "a short length was drawn" } else { "the maximum" };
    let label = if one.is_random_next { "random next" } else { "actual next" };
    let cut = |part: &SegmentStage| part.cut_front + part.cut_back;
    let pieces = |part: &SegmentStage| {
        let sentences = &stages.documents[part.document][part.first_sentence..][..part.sentences];
        sentences.iter().map(|sentence| sentence.pieces.join(" ")).collect::<Vec<_>>().join(" | ")
    };
    let sentences = &stages.documents[one.document];
    let first = sentences.iter().take(one.a.first_sentence + 1).next_back();
    vec![
        row(
            "sentences",
            "create_training_instances",
            format!(
                "document {}: {} sentences; A begins with: {}",
                one.document + 1,
                sentences.len(),
                first.map_or("", |of| &of.text)
            ),
            all,
        ),
        row("target length", "create_instances_from_document", short.to_string(), one.target),
        row("segment A", "create_instances_from_document", pieces(&one.a), one.a.tokens),
        row(
            "segment B",
            "create_instances_from_document",
            format!("{label}, document {}: {}", one.b.document + 1, pieces(&one.b)),
            one.b.tokens,
        ),
        row(
            "truncation",
            "truncate_seq_pair",
            format!(
                "A loses {} at the front and {} at the back, B {} and {}",
                one.a.cut_front, one.a.cut_back, one.b.cut_front, one.b.cut_back
            ),
            one.a.tokens + one.b.tokens - cut(&one.a) - cut(&one.b),
        ),
        row("special tokens", "create_instances_from_document", one.tokens.join(" "), one.tokens.len()),
        row("masks", "create_masked_lm_predictions", masked(one).join(" "), one.masks.len()),
    ]
}

/// Returns the tokens with their masks.
fn masked(one: &InstanceStage) -> Vec<String> {
    let mut tokens = one.tokens.clone();
    for mask in &one.masks {
        let original = &mask.original;
        let written = &mask.written;
        tokens[mask.position] = match written.as_str() {
            "[MASK]" => format!("[MASK:{original}]"),
            same if same == original => format!("[KEPT:{original}]"),
            other => format!("[RANDOM {other}:{original}]"),
        };
    }
    tokens
}

/// Renders an instance with its masks in colour, segment B in another one.
fn coloured(one: &InstanceStage) -> Markup {
    html! {
        @for (position, token) in masked(one).iter().enumerate() {
            @let is_masked = one.masks.iter().any(|mask| mask.position == position);
            @let segment = if position < one.first_segment_tokens { "var(--a)" } else { "var(--b)" };
            @let color = if is_masked { "var(--warn)" } else { segment };
            span style={ "color:" (color) } { (token) } " "
        }
    }
}

#[cfg(test)]
mod tests {
    use bert_data::inspect::stages::MaskStage;

    use super::*;

    #[test]
    fn masks_show_both_tokens() {
        let segment = SegmentStage {
            document: 0,
            first_sentence: 0,
            sentences: 1,
            tokens: 3,
            cut_front: 0,
            cut_back: 0,
        };
        let mask = |position, original: &str, written: &str| MaskStage {
            position,
            original: original.into(),
            written: written.into(),
        };
        let one = InstanceStage {
            document: 0,
            max_tokens: 13,
            target: 13,
            a: segment.clone(),
            b: segment,
            is_random_next: false,
            tokens: ["[CLS]", "a", "b", "c", "[SEP]"].map(String::from).into(),
            first_segment_tokens: 5,
            to_predict: 3,
            masks: vec![mask(1, "a", "[MASK]"), mask(2, "b", "b"), mask(3, "c", "x")],
        };
        assert_eq!(masked(&one).join(" "), "[CLS] [MASK:a] [KEPT:b] [RANDOM x:c] [SEP]");
    }
}
