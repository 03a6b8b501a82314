//! Reads runs and fine-tunings while they are in progress, for `bert watch`. Nothing is written, and on Linux no lock is
//! taken.

mod finetuning;
mod pretraining;
pub(crate) mod status;

use std::path::{Path, PathBuf};

use bert_storage::{Disk, StagedFolder};

use crate::live::finetuning::FinetuningWatch;
use crate::live::pretraining::PretrainingWatch;
pub use crate::live::status::{LiveFigure, LiveState, LiveStatus};
use crate::page::no_run;
use bert_storage::exists;
use bert_training::Error;
use bert_training::identity::RUN;

/// A run or fine-tuning that is read repeatedly.
pub struct LiveRun {
    folder: PathBuf,
    kind: Option<Kind>,
}

enum Kind {
    Pretraining(Box<PretrainingWatch>),
    Finetuning(Box<FinetuningWatch>),
}

impl LiveRun {
    /// Creates a reader of the folder of a run or fine-tuning. The folder need not have any file yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), kind: None }
    }

    /// Reads the changes since the last call, and returns the present state.
    ///
    /// # Errors
    /// Fails when the folder is neither a run nor a fine-tuning yet, or when a file cannot be read.
    pub fn status(&mut self) -> Result<LiveStatus, Error> {
        let in_use = StagedFolder::new(&Disk, &self.folder).is_in_use();
        if self.kind.is_none() {
            self.kind = Some(if exists(&self.folder.join(RUN))? {
                Kind::Pretraining(Box::new(PretrainingWatch::open(&self.folder)?))
            } else if FinetuningWatch::is_one(&self.folder)? {
                Kind::Finetuning(Box::new(FinetuningWatch::new(&self.folder)))
            } else {
                return Err(no_run(&self.folder));
            });
        }
        match self.kind.as_mut().expect("set above") {
            Kind::Pretraining(watch) => watch.status(in_use),
            Kind::Finetuning(watch) => watch.status(in_use),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run_record::example::run_json;

    #[test]
    fn a_run_is_followed_from_its_first_step_to_a_resume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut live = LiveRun::new(path);
        assert!(live.status().is_err(), "nothing to show yet");
        std::fs::write(path.join(RUN), run_json(8000, 0.002).to_string()).unwrap();
        let step = |number: u64, loss: f64| {
            json!({ "step": number, "loss": loss, "masked_lm_loss": loss, "next_sentence_loss": 0.7,
                "learning_rate": 4e-4, "gradient_norm": 1.0, "predictions": 514, "precision": "f32" })
            .to_string()
                + "\n"
        };
        std::fs::write(path.join("metrics.jsonl"), step(1, 9.0) + &step(2, 8.0)).unwrap();
        let lock = std::fs::File::create(path.join(".lock")).unwrap();
        lock.try_lock().unwrap();
        let status = live.status().unwrap();
        assert_eq!((status.state, status.step, status.steps), (LiveState::Running, 2, 40));
        assert_eq!(status.figures[0].value, "8.500 nats");
        assert_eq!(status.charts[0]["curves"][0]["ys"], json!([9.0, 8.0]));
        lock.unlock().unwrap();
        assert_eq!(live.status().unwrap().state_text, "stopped at step 2");
        // A resumed run replaces its logs by the steps up to its checkpoint.
        std::fs::write(path.join("new"), step(1, 9.0)).unwrap();
        std::fs::rename(path.join("new"), path.join("metrics.jsonl")).unwrap();
        lock.try_lock().unwrap();
        let status = live.status().unwrap();
        assert_eq!((status.state, status.step), (LiveState::Running, 1));
    }
}
