//! Saves the best model, and the average of the last checkpoints, next to a run's checkpoints.
//!
//! Each is a folder that `transformers` loads, with `evaluation.json` for its scores on held-out data. The
//! weights are written before their scores, each file atomically. If the process is killed between the two,
//! the resumed run repeats the same evaluation.

use std::io::{self, Write};
use std::path::Path;

use bert_inference::checkpoint::{CheckpointFolder, verify};
use bert_inference::json_file::read_record;
use bert_model::{NamedTensors, WEIGHTS, read_safetensors};
use bert_storage::{StagedFolder, exists};

use crate::error::Error;
use crate::evaluation::EvaluationRecord;

/// Folder of the best weights.
pub const BEST: &str = "best";
pub(crate) const AVERAGE: &str = "average";
/// File with the evaluation of saved weights.
pub const EVALUATION: &str = "evaluation.json";

/// The folder of a saved model in the folder of a run.
pub(crate) struct SavedModel<'a>(StagedFolder<'a>);

impl<'a> SavedModel<'a> {
    pub(crate) fn new(run: &StagedFolder<'a>, name: &str) -> Self {
        Self(run.inside(name))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the scores of the model, if they exist.
    pub(crate) fn evaluation(&self) -> Result<Option<EvaluationRecord>, Error> {
        let path = self.0.path_of(EVALUATION);
        if !exists(&path)? {
            return Ok(None);
        }
        Ok(Some(read_record(&path)?))
    }

    /// Returns whether a model with these scores should replace the saved model.
    pub(crate) fn is_worse_than(&self, record: &EvaluationRecord) -> Result<bool, Error> {
        let loss = |record: &EvaluationRecord| record.evaluation.masked_lm_loss;
        Ok(loss(record).is_finite() && self.evaluation()?.is_none_or(|best| loss(record) < loss(&best)))
    }

    /// Writes the weights and the other files of the folder.
    pub(crate) fn write(
        &self,
        weights: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        files: &[(&str, Vec<u8>)],
    ) -> Result<(), Error> {
        self.0.create()?;
        self.0.remove_temporaries()?;
        for (name, bytes) in files {
            self.0.write_bytes(name, bytes)?;
        }
        self.0.write(WEIGHTS, weights)?;
        Ok(())
    }

    /// Writes the scores of the weights.
    pub(super) fn write_evaluation(&self, record: &EvaluationRecord) -> Result<(), Error> {
        self.0.write_json(EVALUATION, record)?;
        Ok(())
    }
}

/// Returns the average of the last checkpoints at multiples of `every` and at `end`, with their steps. Checkpoints
/// requested by a signal are not included, so an interrupted run has the same average as an uninterrupted one. Damaged
/// checkpoints are left out with a warning.
///
/// The average of the weights at the end of a schedule is in a flatter region of the loss than the last
/// weights: stochastic weight averaging (Izmailov et al., 2018, arXiv 1803.05407), over checkpoints as in
/// LAWA (Kaddour, 2022, arXiv 2209.14981).
pub(super) fn average_last(
    checkpoints: &CheckpointFolder<'_>,
    last: usize,
    every: u64,
    end: u64,
    warn: &mut dyn FnMut(String),
) -> Result<(Vec<u64>, NamedTensors), Error> {
    let regular = |step: &u64| step.is_multiple_of(every) || *step == end;
    let steps: Vec<u64> = checkpoints.steps()?.into_iter().filter(regular).collect();
    let mut steps = steps[steps.len().saturating_sub(last)..].to_vec();
    steps.retain(|&step| match verify(&checkpoints.path(step)) {
        Ok(_) => true,
        Err(error) => {
            warn(format!("{error}; the average is computed without this checkpoint"));
            false
        }
    });
    let mut sums = NamedTensors::default();
    for &step in &steps {
        for (name, (shape, values)) in read_safetensors(&checkpoints.path(step).join(WEIGHTS))? {
            let (_, sum) = sums.entry(name).or_insert_with(|| (shape, vec![0.0; values.len()]));
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    let share = 1.0 / steps.len() as f32;
    sums.values_mut().for_each(|(_, sum)| sum.iter_mut().for_each(|value| *value *= share));
    Ok((steps, sums))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bert_storage::FileSystem;
    use bert_testing::disks::{Fault, Faulty, PowerCut, Survival};

    use super::*;
    use crate::evaluation::Evaluation;

    fn record(step: u64, masked_lm_loss: f64) -> EvaluationRecord {
        EvaluationRecord { step, evaluation: Evaluation { masked_lm_loss, ..Evaluation::default() } }
    }

    /// Writes the best model of a step, as a run does; its weights encode the step.
    fn keep(files: &dyn FileSystem, run: &Path, step: u64, loss: f64) -> Result<(), Error> {
        let best = SavedModel::new(&StagedFolder::new(files, run), BEST);
        if best.is_worse_than(&record(step, loss))? {
            best.write(|out| out.write_all(&[step as u8; 9]), &[("config.json", b"{}".to_vec())])?;
            best.write_evaluation(&record(step, loss))?;
        }
        Ok(())
    }

    fn kept(run: &Path) -> (Vec<u8>, Option<EvaluationRecord>) {
        let best = run.join(BEST);
        let figures = SavedModel::new(&StagedFolder::new(&Faulty::never(), run), BEST).evaluation().unwrap();
        (fs::read(best.join(WEIGHTS)).unwrap_or_default(), figures)
    }

    /// Checks that the folder has no torn weights and no scores of weights that are not there. Then repeats the
    /// evaluations, and checks that the folder has the best weights and their scores.
    fn check(run: &Path, what: &str) {
        let (weights, figures) = kept(run);
        assert!([vec![], vec![1; 9], vec![2; 9]].contains(&weights), "{what}: torn weights");
        if let Some(figures) = figures {
            assert!(u64::from(weights[0]) >= figures.step, "{what}: figures of weights that are not there");
        }
        for (step, loss) in [(1, 5.0), (2, 4.0), (3, 4.5), (4, f64::NAN)] {
            keep(&Faulty::never(), run, step, loss).unwrap();
        }
        assert_eq!(kept(run), (vec![2; 9], Some(record(2, 4.0))), "{what}");
    }

    #[test]
    fn damaged_figures_are_an_error_not_absent() {
        let folder = tempfile::tempdir().unwrap();
        let files = Faulty::never();
        let run = StagedFolder::new(&files, folder.path());
        let best = SavedModel::new(&run, BEST);
        assert_eq!(best.evaluation().unwrap(), None);
        keep(&files, folder.path(), 1, 5.0).unwrap();
        fs::write(best.path().join(EVALUATION), "{\"step\": ").unwrap();
        let error = keep(&files, folder.path(), 2, 6.0).unwrap_err();
        assert!(error.to_string().contains(EVALUATION), "{error}");
        assert_eq!(error.exit_code(), 4);
        assert_eq!(
            fs::read(best.path().join(WEIGHTS)).unwrap(),
            [1; 9],
            "the best weights are not overwritten"
        );
    }

    #[test]
    fn faults_are_repaired_by_the_next_evaluation() {
        let folder = tempfile::tempdir().unwrap();
        let both = |files: &dyn FileSystem, run: &Path| {
            keep(files, run, 1, 5.0).and_then(|()| keep(files, run, 2, 4.0))
        };
        let mut triggered = 0;
        for (fault, name) in [(Fault::Io, "io"), (Fault::Full, "full"), (Fault::Torn, "torn")] {
            for nth in 1.. {
                let run = folder.path().join(format!("{name}-{nth}"));
                let files = Faulty::new(fault, nth);
                let result = both(&files, &run);
                if !files.triggered() {
                    result.unwrap();
                    break;
                }
                triggered += 1;
                check(&run, &format!("{name} at {nth}"));
            }
        }
        assert!(triggered > 60, "{triggered}");
        let survivals = [Survival::Nothing, Survival::NamesOnly, Survival::Random(1), Survival::Random(2)];
        for survival in survivals {
            for cut in 1.. {
                let world = folder.path().join("cut");
                let _ = fs::remove_dir_all(&world);
                fs::create_dir(&world).unwrap();
                let files = PowerCut::over(&world, cut).unwrap();
                let result = both(&files, &world.join("run"));
                let off = files.is_off();
                files.restart(survival).unwrap();
                if !off {
                    result.unwrap();
                    break;
                }
                check(&world.join("run"), &format!("{survival:?} at {cut}"));
            }
        }
    }
}
