//! The error type, and errors of runs that several modules report.

use std::path::Path;

use bert_collectives::{Lost, Member};
use bert_inference::StopFlag;
pub use bert_inference::{check, corrupt, damaged, mismatch};
pub use bert_storage::{Class, Error, at_least_one, check_value};

/// Returns the error for an output folder that is not empty, with a hint on how to proceed.
pub fn output_exists(path: &Path, found: &str, hint: &str) -> Error {
    Error::failed(format!("the folder already holds {found}; {hint}")).at(path)
}

/// Returns the error for a folder without a run to resume.
pub fn nothing_to_resume(path: &Path) -> Error {
    Error::failed("no run to resume here (no run.json); start one without `.resume`").at(path)
}

/// Returns the error for a run that is resumed with a different configuration. `differences` has a description of each
/// difference.
pub(crate) fn run_differs(path: &Path, differences: &[String]) -> Error {
    let run = path.display();
    Error::model(format!(
        "this run was started with another configuration: {}. Use the same flags with `.resume`; to change them, start a new \
         run from its weights: `.init_checkpoint` {run} `.output NEW`",
        differences.join("; ")
    ))
    .at(path)
}

/// Returns the error for ranks of a process group with different programs, settings or data. `differences` has a
/// description of each difference.
pub(crate) fn ranks_differ(differences: &[String]) -> Error {
    let list = differences.join("; ");
    Error::model(format!("the ranks differ: {list}; start all of them with the same program, flags and data"))
}

/// Fails if a stop was requested before the first step.
pub(crate) fn check_stop(stop: &StopFlag) -> Result<(), Error> {
    stop.check().map_err(|error| after_step(error, 0))
}

/// Returns the error for a damaged `run.json`.
pub(crate) fn damaged_run(path: &Path, reason: impl std::fmt::Display) -> Error {
    let advice = "start a new run, from a checkpoint in this folder if there is one";
    Error::model(format!("damaged: {reason}; {advice}")).at(path)
}

/// Returns the error for a stop after a step. A checkpoint has been written, unless the step is 0.
pub fn stopped(signal: i32, step: u64) -> Error {
    let text = match step {
        0 => "stopped before the first step; nothing is lost, start again (with `.resume` if the run's folder exists)".into(),
        step => format!("stopped after step {step}; a checkpoint was saved, continue with `.resume`"),
    };
    Error::new(Class::Stopped(signal), text)
}

/// Returns the error of a run that ends after `step` steps: a request to stop gets the message of [`stopped`].
pub fn after_step(error: Error, step: u64) -> Error {
    match error.class() {
        Class::Stopped(signal) => stopped(signal, step),
        _ => error,
    }
}

/// Returns the error for a step whose loss or gradient is NaN or infinite.
pub fn not_finite(step: u64, loss: f64, gradient_norm: f64) -> Error {
    let text = format!(
        "step {step}: loss {loss}, gradient norm {gradient_norm}: not finite, so the update was not applied (use a lower \
         `.learning_rate` or more warm-up)"
    );
    Error::new(Class::Numerical, text)
}

/// Returns the error for a lost rank after `step` steps. `fewer` are the smaller numbers of ranks that can continue the
/// run, ascending.
pub(crate) fn lost_rank(step: u64, lost: Lost, fewer: &[usize]) -> Error {
    let text = match step {
        0 => format!(
            "before the first step was finished: {lost}; start again (with `.resume` if the run's folder exists)"
        ),
        step => format!(
            "after step {step}: {lost}; the last checkpoint, if there is one, is intact; continue with `.resume`{}",
            or_with_fewer(fewer)
        ),
    };
    Error::new(Class::Later, text).because(lost)
}

/// Returns the error of another rank, with its exit code and its message.
pub(crate) fn elsewhere(member: &Member, step: u64, code: u8, text: &str) -> Error {
    Error::new(Class::Elsewhere(code), format!("{member} ended after step {step}: {text}"))
}

/// Returns the end of a sentence that names up to eight of the smaller numbers of ranks that can continue a run.
fn or_with_fewer(ranks: &[usize]) -> String {
    match ranks {
        [] => String::new(),
        [1] => " on the same number of ranks, or in one process".to_string(),
        more => {
            let numbers: Vec<String> = more.iter().rev().take(8).map(usize::to_string).collect();
            format!(" on the same number of ranks, or on {}", numbers.join(", "))
        }
    }
}

/// Returns the error for a data folder without instances.
pub(crate) fn no_instances() -> Error {
    Error::data("the data folder has no instances")
}
