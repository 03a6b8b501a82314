//! Opens the data sets of a run, and finds the held-out data that `make-pretrain-data --hold-out` wrote with them.

use std::collections::HashSet;
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

    /// Sets `eval_data` to the held-out data of the first training set that has them, if it is not given. Another data set
    /// in that folder is not used: its documents may be training data. Warns if a training set may contain documents of the
    /// evaluation data.
    ///
    /// # Errors
    /// When the training data cannot be opened.
    pub(super) fn find_held_out(&mut self, on_event: &mut dyn FnMut(PretrainEvent)) -> Result<(), Error> {
        let mut warn = |text: String| on_event(PretrainEvent::Warning(text));
        if self.eval_data.is_none() {
            for folder in self.data.folders().iter().map(|folder| folder.folder.clone()).collect::<Vec<_>>() {
                if self.use_held_out_of(&folder, &mut warn)? {
                    break;
                }
            }
        }
        let Some(evaluation) = self.eval_data.clone() else { return Ok(()) };
        // The evaluation reports data that cannot be opened.
        let Ok(held_out) = self.open_data(&evaluation) else { return Ok(()) };
        let evaluation = NamedData { folder: &evaluation, manifest: held_out.manifest() };
        for folder in self.data.folders() {
            let data = self.open_data(&folder.folder)?;
            let training = NamedData { folder: &folder.folder, manifest: data.manifest() };
            leak_warning(evaluation, training).into_iter().for_each(&mut warn);
        }
        Ok(())
    }

    /// Sets `eval_data` to the held-out data of one training set, if they are there; returns whether it is set.
    fn use_held_out_of(&mut self, training: &Path, warn: &mut dyn FnMut(String)) -> Result<bool, Error> {
        let data = self.open_data(training)?;
        let Some(share) = data.manifest().config.hold_out else { return Ok(false) };
        let folder = held_out_folder(training);
        let problem = match self.open_data(&folder) {
            Ok(held_out) if is_held_out_of(&held_out, data.manifest()) => {
                self.eval_data = Some(folder);
                return Ok(true);
            }
            Ok(_) => "it was made from other text or with other options".to_owned(),
            Err(error) => error.to_string(),
        };
        warn(format!(
            "the data was made with --hold-out {share}, but {} is not evaluated: {problem}. The command that made the data \
             makes it again",
            folder.display()
        ));
        Ok(false)
    }
}

/// Returns whether a data set has the documents that were held out of the training data: it was made from the same text
/// with the same options.
fn is_held_out_of(data: &DataSet, training: &Manifest) -> bool {
    let manifest = data.manifest();
    manifest.config.is_held_out_of(&training.config)
        && manifest.vocabulary.blake3 == training.vocabulary.blake3
        && text_digests(manifest).eq(text_digests(training))
}

/// Returns the digests of the files from which a data set was made.
fn text_digests(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.inputs.iter().map(|input| input.blake3.as_str())
}

/// A data set and its folder.
#[derive(Clone, Copy)]
struct NamedData<'a> {
    folder: &'a Path,
    manifest: &'a Manifest,
}

/// Returns a warning if a training set may contain documents of the evaluation data: it was made from one of their files
/// without holding out the same documents.
fn leak_warning(evaluation: NamedData<'_>, training: NamedData<'_>) -> Option<String> {
    let evaluated: HashSet<&str> = text_digests(evaluation.manifest).collect();
    let shares_text = text_digests(training.manifest).any(|digest| evaluated.contains(digest));
    let held_out = &evaluation.manifest.config;
    let trained = &training.manifest.config;
    let same_selection = held_out.held_out
        && !trained.held_out
        && held_out.hold_out == trained.hold_out
        && held_out.random_seed == trained.random_seed
        && held_out.line_breaks == trained.line_breaks
        && held_out.text_column == trained.text_column;
    (shares_text && !same_selection).then(|| {
        format!(
            "{} was made from text of {}, but does not leave out the same documents, so the model trains on text on which it is \
             evaluated. Make both with the same --hold-out and --random-seed",
            training.folder.display(),
            evaluation.folder.display()
        )
    })
}

/// Returns the first folder of a comma-separated list, unless the whole path exists.
fn first_of_several(path: &Path) -> Option<&str> {
    let (first, _) = path.to_str()?.split_once(',')?;
    (!path.exists() && Path::new(first).is_dir()).then_some(first)
}
