//! Finds the held-out data that `make-pretrain-data --hold-out` wrote with the training data.

use bert_data::{DataSet, Manifest, held_out_folder};

use super::config::PretrainConfig;
use super::events::PretrainEvent;
use crate::Error;

impl PretrainConfig {
    /// Sets `eval_data` to the held-out data in the folder of the training data, if it is not given and the training
    /// data was made with `--hold-out`. Another data set in that folder is not used: its documents may be training data.
    ///
    /// # Errors
    /// When the training data cannot be opened.
    pub(super) fn find_held_out(&mut self, on_event: &mut dyn FnMut(PretrainEvent)) -> Result<(), Error> {
        if self.eval_data.is_some() {
            return Ok(());
        }
        let data = self.open_data(self.data.first())?;
        let Some(share) = data.manifest().config.hold_out else { return Ok(()) };
        let folder = held_out_folder(self.data.first());
        let problem = match self.open_data(&folder) {
            Ok(held_out) if is_held_out_of(&held_out, data.manifest()) => {
                self.eval_data = Some(folder);
                return Ok(());
            }
            Ok(_) => "it was made from other text or with other options".to_owned(),
            Err(error) => error.to_string(),
        };
        on_event(PretrainEvent::Warning(format!(
            "the data was made with --hold-out {share}, but {} is not evaluated: {problem}. The command that made the data \
             makes it again",
            folder.display()
        )));
        Ok(())
    }
}

/// Returns whether a data set has the documents that were held out of the training data.
fn is_held_out_of(data: &DataSet, training: &Manifest) -> bool {
    let (held_out, manifest) = (&data.manifest().config, data.manifest());
    let texts = |manifest: &Manifest| -> Vec<String> {
        manifest.inputs.iter().map(|input| input.blake3.clone()).collect()
    };
    held_out.held_out
        && !training.config.held_out
        && held_out.hold_out == training.config.hold_out
        && held_out.random_seed == training.config.random_seed
        && manifest.vocabulary.blake3 == training.vocabulary.blake3
        && texts(manifest) == texts(training)
}
