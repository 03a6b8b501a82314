//! The experiment masking: the stages in which the data builder turns a text into instances.

use bert_data::stages::{InstanceStage, SegmentStage, StageRules, Stages};
use bert_data::{MaskRules, Nsp, PairRules, default_max_predictions};
use bert_inference::{Error, ModelFiles};
use maud::{Markup, html};

use super::args::Args;
use super::definition::Experiment;
use super::held_out_text::text;
use super::table::{Cell, Heading, Report, Results, Rows};
use super::train::check_output;
use crate::commands::model_folder;
use crate::output::table::Column;

/// Share of the documents with a short target length, as in the reference.
const SHORT_SEQ_PROB: f64 = 0.1;

/// Returns the columns of the table: a row for each stage of each instance.
fn headings() -> Vec<Heading> {
    vec![
        ("instance", Column::count("instance")),
        ("stage", Column::text("stage")),
        ("tokens", Column::count("tokens").with_priority(1)),
        ("result", Column::text("result")),
        ("reference", Column::text("function of the reference").with_priority(2)),
    ]
}

/// Returns a report of the stages of the first instances of the text.
///
/// # Errors
/// Fails when the text or the tokenizer cannot be read.
pub(super) fn run(args: &Args, experiment: &Experiment) -> anyhow::Result<Report> {
    check_output(args)?;
    let folder = model_folder(&args.checkpoint[0])?;
    let tokenizer = ModelFiles::open(&folder)?.tokenizer;
    let max_seq_length = usize::from(args.max_seq_length.unwrap_or(64));
    let vocabulary = &tokenizer.vocabulary;
    let masks = MaskRules {
        max_predictions_per_seq: default_max_predictions(max_seq_length, MaskRules::default().masked_lm_prob),
        ..MaskRules::default()
    };
    let rules = |nsp: Nsp| StageRules {
        tokenizer: &tokenizer.tokenizer,
        vocabulary,
        pairs: PairRules {
            max_seq_length,
            short_seq_prob: SHORT_SEQ_PROB,
            reference: false,
            nsp,
            cls: vocabulary.cls_id(),
            sep: vocabulary.sep_id(),
        },
        masks,
        seed: args.seeds[0],
        pass: 0,
    };
    let text = text(args)?;
    let limit = args.instances.unwrap_or(4);
    let mut notes = Vec::new();
    let mut stages = rules(Nsp::On).stages(&text, limit)?;
    if stages.instances.is_empty() {
        stages = rules(Nsp::Off).stages(&text, limit)?;
        notes.push("One sentence makes no pair, so the instance has one segment.".to_string());
    }
    if stages.instances.is_empty() {
        let reason = "the text has no words: give one sentence per line".to_string();
        return Err(Error::option("input", reason).into());
    }
    let rows = stages.instances.iter().enumerate();
    let rows = rows.flat_map(|(number, one)| instance_rows(number + 1, &stages, one)).collect();
    let percent = 100.0 * masks.masked_lm_prob;
    notes.extend([
        format!("Rules: at most {max_seq_length} tokens, {percent:.0} % masks, seed {}.", args.seeds[0]),
        "In a result, [MASK:x] hides x, [KEPT:x] shows it but must be predicted, and [RANDOM y:x] shows y."
            .to_string(),
    ]);
    let results = Results {
        verdict: verdict(&stages.instances),
        rows: Rows { headings: headings(), rows },
        notes,
        ..Results::new(args, experiment)
    };
    let body = html! {
        p.note {
            span.m { "hidden" } " is shown to the model as [MASK], " span.k { "kept" } " as it is, "
            span.r { "replaced \u{2192} other" } " as another token."
        }
        @for one in &stages.instances { (coloured(one)) }
        h2 { "Stage by stage" }
    };
    Ok(Report { results, body })
}

/// Returns a sentence with the number of masks of each kind.
fn verdict(instances: &[InstanceStage]) -> String {
    let tokens: usize = instances.iter().map(|one| one.tokens.len()).sum();
    let masks = || instances.iter().flat_map(|one| &one.masks);
    let hidden = masks().filter(|mask| mask.written == "[MASK]").count();
    let kept = masks().filter(|mask| mask.written == mask.original).count();
    let random = masks().count() - hidden - kept;
    let plural = if instances.len() == 1 { "" } else { "s" };
    format!(
        "In {} instance{plural} of {tokens} tokens, the model must predict {}: {hidden} hidden, {kept} kept, {random} replaced.",
        instances.len(),
        masks().count()
    )
}

/// Returns the rows of an instance.
fn instance_rows(number: usize, stages: &Stages, one: &InstanceStage) -> Vec<Vec<Cell>> {
    let row = |stage: &str, reference: &str, result: String, tokens: usize| {
        vec![Cell::count(number), stage.into(), Cell::count(tokens), result.into(), reference.into()]
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
    let rows = vec![
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
                "removed tokens: {} from the front of A, {} from its back, {} from the front of B, {} from its back",
                one.a.cut_front, one.a.cut_back, one.b.cut_front, one.b.cut_back
            ),
            one.a.tokens + one.b.tokens - cut(&one.a) - cut(&one.b),
        ),
        row("special tokens", "create_instances_from_document", one.tokens.join(" "), one.tokens.len()),
        row("masks", "create_masked_lm_predictions", masked(one).join(" "), one.masks.len()),
    ];
    // An instance of a single sentence has no segment B.
    let is_pair = one.b.tokens > 0;
    rows.into_iter().filter(|row| is_pair || row[1] != "segment B".into()).collect()
}

/// Returns the tokens; a masked position shows the kind of the mask and the original token.
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

/// Renders an instance with its masks in colour, a line for each segment.
fn coloured(one: &InstanceStage) -> Markup {
    let label = if one.is_random_next { "random next" } else { "actual next" };
    html! {
        p {
            @if one.b.tokens > 0 { span.s { (label) ", " } }
            span.s { (one.tokens.len()) " tokens, " (one.masks.len()) " masked" }
            br;
            @for (position, token) in one.tokens.iter().enumerate() {
                @if position == one.first_segment_tokens { br; }
                @match one.masks.iter().find(|mask| mask.position == position) {
                    None => (token),
                    Some(mask) if mask.written == "[MASK]" => span.m { (token) },
                    Some(mask) if mask.written == *token => span.k { (token) },
                    Some(mask) => span.r { (token) " \u{2192} " (mask.written) },
                }
                " "
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bert_data::stages::MaskStage;

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
