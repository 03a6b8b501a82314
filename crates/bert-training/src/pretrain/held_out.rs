//! Opens the data sets of a run, and finds the held-out data that `make-pretrain-data --hold-out` wrote with them.
//!
//! Finds the run that wrote the checkpoint of `--init-checkpoint`.

use std::path::{Path, PathBuf};

use bert_data::{DataSet, Manifest, held_out_folder};
use bert_inference::hub_model::hub_name;
use bert_inference::json_file::read_record;
use bert_storage::ObjectCache;

use crate::error::Error;
use crate::optimizer::size_defaults::ChosenDefault;
use crate::pretrain::config::{EvalPart, PretrainConfig};
use crate::pretrain::events::PretrainEvent;
use crate::pretrain::run_file::{RunFile, RunIdentity};
use crate::pretrain::shared_text::{NamedData, SharedText, text_digests};
use crate::run_dir::identity::RUN;

impl PretrainConfig {
    /// Opens a data folder, with the configured shard cache.
    pub(crate) fn open_data(&self, folder: &Path) -> Result<DataSet, Error> {
        if let Some(first) = first_of_several(folder) {
            let reason = format!(
                "{}: this is not a data folder, but a list such as {first}; give each folder its weight, as in `.data` \
                 A=0.8 `.data B=0.2`, or make one data set of several texts with make-pretrain-data `.input A,B`",
                folder.display()
            );
            return Err(Error::option("data", reason));
        }
        let cache = self.cache.clone().unwrap_or_else(|| ObjectCache::user_folder("shards"));
        let data = DataSet::open(folder)?.with_cache(ObjectCache::new(&cache, self.cache_size.0));
        data.check_shards_exist()?;
        Ok(data)
    }

    /// Opens all data folders and returns the data sets with their weights.
    pub(crate) fn open_all_data(&self) -> Result<Vec<(DataSet, f64)>, Error> {
        let folders = self.data.folders().iter();
        folders.map(|folder| Ok((self.open_data(&folder.folder)?, folder.weight))).collect()
    }

    /// If `eval_data` is not given, sets it to the held-out data of the training set, and sets `eval_parts` to the
    /// held-out data of the parts of a mixture. If the folder contains a different data set, that data set is not used,
    /// because its documents may be training data. Returns the text shared by data sets that should be disjoint, and
    /// warns about it.
    ///
    /// # Errors
    /// Fails when the training data cannot be opened, or when all documents of a data set are in another one.
    pub(super) fn find_held_out(
        &mut self,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<Vec<SharedText>, Error> {
        let mut warn = |text: String| on_event(PretrainEvent::Warning(text));
        if self.eval_data.is_none() {
            self.use_held_out(&mut warn)?;
        }
        let shared = self.shared_text()?;
        shared.iter().try_for_each(|shared| shared.check(self.allow_overlap))?;
        shared.iter().for_each(|shared| warn(shared.to_string()));
        Ok(shared)
    }

    /// Takes a different seed for a run that starts from a checkpoint of the same data with the same or the default
    /// seed. With the same seed, the run would read the same samples with the same masks again. Returns the seed and
    /// the reason.
    ///
    /// # Errors
    /// Fails when the training data cannot be opened.
    pub(super) fn seed_after_checkpoint(&mut self) -> Result<Option<ChosenDefault>, Error> {
        let Some(first) = self.init_checkpoint.as_deref().and_then(run_of_checkpoint) else {
            return Ok(None);
        };
        let RunIdentity { seed, steps, .. } = first.identity;
        let known = first.identity.data_digests();
        let data = self.open_all_data()?;
        let is_same = data.iter().any(|(data, _)| known.contains(&data.manifest().shards_digest()));
        let is_given = self.seed != seed && self.seed != Self::new("", "", 0).seed;
        if is_given || !is_same {
            return Ok(None);
        }
        // In a chain of runs, no run then has the seed of an earlier one.
        self.seed = seed.wrapping_add(steps.max(1));
        let reason = "new samples: the checkpoint is of a run on the same data";
        Ok(Some(ChosenDefault::new("seed", self.seed, reason)))
    }

    /// Compares the evaluation data with the training data and with the text of `--init-checkpoint`, and the training
    /// sets of a mixture with each other.
    fn shared_text(&self) -> Result<Vec<SharedText>, Error> {
        let open = |folder: &Path| self.open_data(folder).map(|data| NamedData::new(folder, data.manifest()));
        let folders = self.data.folders().iter();
        let training = folders.map(|folder| open(&folder.folder)).collect::<Result<Vec<_>, Error>>()?;
        let mut shared = Vec::new();
        for (at, data) in training.iter().enumerate() {
            shared.extend(training[..at].iter().filter_map(|other| SharedText::new(data, other, false)));
        }
        // Data that cannot be opened is skipped here, because the evaluation reports it.
        let parts = self.eval_parts.iter().map(|part| part.folder.as_path());
        let evaluated: Vec<&Path> = if self.eval_parts.is_empty() {
            self.eval_data.as_deref().into_iter().collect()
        } else {
            parts.collect()
        };
        for evaluation in evaluated.into_iter().filter_map(|folder| open(folder).ok()) {
            let earlier = self.init_checkpoint.as_deref().map(init_checkpoint_data).unwrap_or_default();
            let is_new = |data: &&NamedData| {
                let digest = data.manifest.shards_digest();
                training.iter().all(|other| digest != other.manifest.shards_digest())
            };
            let earlier = earlier.iter().filter(is_new);
            let training = training.iter().chain(earlier);
            shared.extend(training.filter_map(|training| SharedText::new(&evaluation, training, true)));
        }
        Ok(shared)
    }

    /// Finds the held-out data of every training set. Warns if only some data sets of a mixture have held-out data.
    fn use_held_out(&mut self, warn: &mut dyn FnMut(String)) -> Result<(), Error> {
        let mut parts = Vec::new();
        for (folder, share) in self.data.folders().iter().zip(self.data.shares()) {
            parts.extend(self.held_out_of(&folder.folder, warn)?.map(|folder| EvalPart { folder, share }));
        }
        self.eval_data = parts.first().map(|part| part.folder.clone());
        let covered: f64 = parts.iter().map(|part| part.share).sum();
        if !parts.is_empty() && parts.len() < self.data.folders().len() {
            warn(format!(
                "the evaluation covers {:.0} % of the mixture: the other data sets have no held-out documents (make-pretrain-data \
                 `.hold_out`)",
                100.0 * covered
            ));
        }
        if parts.len() > 1 {
            parts.iter_mut().for_each(|part| part.share /= covered);
            self.eval_parts = parts;
        }
        Ok(())
    }

    /// Returns the folder of the held-out data of one training set, if it exists.
    fn held_out_of(&self, training: &Path, warn: &mut dyn FnMut(String)) -> Result<Option<PathBuf>, Error> {
        let data = self.open_data(training)?;
        let Some(share) = data.manifest().config.hold_out else { return Ok(None) };
        let folder = held_out_folder(training);
        let problem = match self.open_data(&folder) {
            Ok(held_out) if is_held_out_of(&held_out, data.manifest()) => return Ok(Some(folder)),
            Ok(_) => "it was made from other text or with other options".to_owned(),
            Err(error) => error.to_string(),
        };
        warn(format!(
            "the data was made with `.hold_out` {share}, but {} is not evaluated: {problem}. The command that made the data \
             makes it again",
            folder.display()
        ));
        Ok(None)
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

/// Returns the first folder of a comma-separated list, unless the whole path exists.
fn first_of_several(path: &Path) -> Option<&str> {
    let (first, _) = path.to_str()?.split_once(',')?;
    (!path.exists() && Path::new(first).is_dir()).then_some(first)
}

/// Returns the run that wrote a checkpoint, if its `run.json` exists. The path is the run itself, a checkpoint in its
/// folder `checkpoints`, or its best or averaged weights.
pub(super) fn run_of_checkpoint(checkpoint: &Path) -> Option<RunFile> {
    if hub_name(checkpoint).is_some() {
        return None;
    }
    let run = checkpoint.ancestors().take(3).map(|folder| folder.join(RUN)).find(|path| path.is_file());
    run.and_then(|path| read_record(&path).ok())
}

/// Returns the data sets on which the run of a checkpoint was trained, if they are still where its `run.json` says.
pub(super) fn init_checkpoint_data(checkpoint: &Path) -> Vec<NamedData> {
    let Some(RunFile { config, identity, .. }) = run_of_checkpoint(checkpoint) else { return Vec::new() };
    let digests = identity.data_digests();
    let folders = config.data.folders().iter().zip(digests);
    let data = folders.filter_map(|(folder, digest)| {
        let manifest = Manifest::read(&folder.folder).ok()?;
        (manifest.shards_digest() == digest).then(|| NamedData::new(&folder.folder, &manifest))
    });
    data.collect()
}
