//! Opens the data sets of a run, and finds the held-out data that `make-pretrain-data --hold-out` wrote with them.

use std::path::Path;

use bert_data::{DataSet, Manifest, held_out_folder};
use bert_inference::Error;
use bert_storage::ObjectCache;

use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;

impl PretrainConfig {
    /// Opens a data folder, with the configured shard cache.
    pub(crate) fn open_data(&self, folder: &Path) -> Result<DataSet, Error> {
        if let Some(first) = first_of_several(folder) {
            let reason = format!(
                "{}: this is not a data folder, but a list such as {first}; give each folder its weight, as in --data \
                 A=0.8 --data B=0.2, or make one data set of several texts with make-pretrain-data --input A,B",
                folder.display()
            );
            return Err(Error::Configuration { flag: "data", reason });
        }
        let cache = self.cache.clone().unwrap_or_else(|| ObjectCache::user_folder("shards"));
        let data = DataSet::open(folder)?.with_cache(ObjectCache::new(&cache, self.cache_size.0));
        data.check_shards_exist()?;
        Ok(data)
    }

    /// Opens all data folders. Returns each with its weight.
    pub(crate) fn open_all_data(&self) -> Result<Vec<(DataSet, f64)>, Error> {
        let folders = self.data.folders().iter();
        folders.map(|folder| Ok((self.open_data(&folder.folder)?, folder.weight))).collect()
    }

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
    let held_out = &data.manifest().config;
    let manifest = data.manifest();
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

/// Returns the first folder of a comma-separated list, unless the whole path exists.
fn first_of_several(path: &Path) -> Option<&str> {
    let (first, _) = path.to_str()?.split_once(',')?;
    (!path.exists() && Path::new(first).is_dir()).then_some(first)
}
