//! Suggests the change that would help a finished run most: more text, a larger model or more steps.
//!
//! The rule is based on the results of runs in `docs/results.md`: they trained on English Wikipedia with 8,000 word
//! pieces and sequences of 128 tokens, and each was evaluated at the end of its own schedule. These results do not
//! apply to other languages, models and lengths. So a run gets advice only if it has the measured model and length and
//! its loss is near the measured curve.

use bert_model::{BertConfig, Preset};

use crate::run_record::RunRecord;

/// Held-out nats per character at the end of a schedule, by the number of masked tokens seen, in ascending order.
type Ends = &'static [(f64, f64)];

/// The losses of BERT-tiny after 64,000, 320,000 and 640,000 sequences.
const TINY: Ends = &[(1.1e6, 1.218), (5.6e6, 1.144), (11.2e6, 1.110)];
/// The losses of BERT-mini after 64,000 and 128,000 sequences.
const MINI: Ends = &[(1.1e6, 1.120), (2.2e6, 1.091)];

/// Number of passes over the text after which more steps mostly repeat it.
const MANY_PASSES: f64 = 40.0;
/// Ratio of the step times of BERT-mini and BERT-tiny.
const MINI_STEP: f64 = 4.0;

/// Maximum relative distance of a loss from the measured curve. The losses of other languages and kinds of text differ more.
const NEAR: f64 = 0.15;
/// Sequence length of the measured runs.
const LENGTH: u64 = 128;

/// Returns the measured curve with which a run can be compared. The run must have the same shape and sequence length, a
/// number of masked tokens within the measured range or at most a factor of two outside it, and a similar loss.
fn measured(run: &RunRecord, seen: f64, loss: f64) -> Option<Ends> {
    let model = &run.identity.model;
    let curves = [(Preset::Tiny, TINY), (Preset::Mini, MINI)];
    let same_shape = |(preset, _): &(Preset, Ends)| {
        let shape = BertConfig::preset(*preset, model.vocab_size);
        (shape.hidden_size, shape.num_hidden_layers) == (model.hidden_size, model.num_hidden_layers)
    };
    let (_, curve) = curves.into_iter().find(same_shape)?;
    let has_length = run.identity.data_rules.max_seq_length == LENGTH;
    let is_within = seen >= curve[0].0 / 2.0 && seen <= 2.0 * curve[curve.len() - 1].0;
    let is_near = (loss - at(curve, seen)).abs() <= NEAR * at(curve, seen);
    (has_length && is_within && is_near).then_some(curve)
}

/// Returns the suggestion for a run that has finished and was evaluated.
pub(super) fn next_suggestion(run: &RunRecord) -> Option<String> {
    let last = &run.last_evaluation()?.evaluation;
    let loss = last.masked_lm_nats_per_character;
    if !loss.is_finite() || (run.metrics.len() as u64) < run.identity.steps {
        return None;
    }
    let seen: f64 = run.metrics.iter().map(|m| m.predictions as f64).sum();
    let begun = format!(
        "The run has seen {:.1} million masked tokens and reached {loss:.3} nats per character.",
        seen / 1e6
    );
    let passes = run.passes()?;
    if passes > MANY_PASSES {
        return Some(format!("{begun} Suggestion: use more text; the run read this text {passes:.0} times."));
    }
    let curve = measured(run, seen, loss)?;
    let is_tiny = curve == TINY;
    // The loss of BERT-mini in the same time; unknown below its shortest run.
    let in_that_time = seen / MINI_STEP;
    let tiny = at(TINY, seen);
    let mini = at(MINI, in_that_time);
    if is_tiny && in_that_time >= MINI[0].0 && mini < tiny {
        return Some(format!(
            "{begun} Suggestion: use a larger model (--model mini). On English Wikipedia, BERT-tiny reached {tiny:.2} with as \
             many masked tokens, and BERT-mini {mini:.2} in the same time (a step takes {MINI_STEP} times as long)."
        ));
    }
    Some(format!(
        "{begun} Suggestion: use more steps. On English Wikipedia, twice as many lowered the loss by {:.2} nats per character \
         from here (docs/guide/pretraining.md).",
        at(curve, seen) - at(curve, 2.0 * seen)
    ))
}

/// Returns the loss at the end of a schedule, interpolated and extrapolated linearly in the logarithm of the number of
/// masked tokens.
fn at(ends: Ends, seen: f64) -> f64 {
    let after = ends.partition_point(|(measured, _)| *measured < seen).clamp(1, ends.len() - 1);
    let ((x0, y0), (x1, y1)) = (ends[after - 1], ends[after]);
    y0 + (y1 - y0) * (seen.max(1.0) / x0).ln() / (x1 / x0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_runs_the_loss_falls_with_the_logarithm() {
        for ends in [TINY, MINI] {
            assert!(ends.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1));
            for &(seen, loss) in ends {
                assert!((at(ends, seen) - loss).abs() < 1e-9);
            }
            let [(x0, y0), (x1, y1), ..] = ends else { panic!("two runs") };
            assert!((at(ends, (x0 * x1).sqrt()) - (y0 + y1) / 2.0).abs() < 1e-9);
            assert!(at(ends, x0 / 2.0) > *y0, "beyond the first too");
        }
    }
}
