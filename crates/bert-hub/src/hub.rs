//! [`Hub`]: downloads a model or files of a data set into the cache if necessary, and returns their path there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::error::{Error, Unavailable, no_folder};
use crate::event::Event;
use crate::name::{DataName, ModelName, Name};
use crate::settings::Settings;

/// Servers that could not be reached. A process does not wait for them again if it has a version in the cache.
static UNREACHABLE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn unreachable() -> MutexGuard<'static, BTreeSet<String>> {
    UNREACHABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The Hub with its cache.
#[derive(Clone, Debug)]
pub struct Hub {
    settings: Settings,
}

/// A model in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Model {
    /// The name with the commit, which means the same files at any time and on any computer.
    pub name: ModelName,
    /// The folder of the files.
    pub folder: PathBuf,
}

impl Hub {
    /// Returns a Hub with the settings of the environment variables; see [`Settings::from_variables`].
    ///
    /// # Errors
    /// Fails when an environment variable is invalid.
    pub fn from_environment() -> Result<Self, Error> {
        Settings::from_environment().map(Self::new)
    }

    /// Returns a Hub with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Returns the folder of a model. A name with a commit that is in the cache needs no network. For any other name,
    /// the Hub is asked for the commit, and the files that the cache lacks are downloaded. If the Hub cannot be
    /// reached, the version in the cache is used, with a note.
    ///
    /// # Errors
    /// Fails when the model does not exist, may not be read, has no files that can be read, or cannot be downloaded.
    pub fn model(&self, name: &ModelName, on_event: &mut dyn FnMut(Event)) -> Result<Model, Error> {
        let commit = self.commit(&name.0, on_event)?;
        let folder = Cache::new(&self.settings.cache, &name.0).snapshot(&commit);
        Ok(Model { name: ModelName(name.0.at(&commit)), folder })
    }

    /// Returns the path of a file, folder or pattern in the cache. Downloads all of its files first, as [`Hub::model`]
    /// does. Files whose path has a part that begins with a dot are downloaded only if the name has such a part.
    ///
    /// # Errors
    /// Fails when the data set or the files do not exist, may not be read, or cannot be downloaded.
    pub fn data(&self, name: &DataName, on_event: &mut dyn FnMut(Event)) -> Result<PathBuf, Error> {
        let commit = self.commit(&name.0, on_event)?;
        Ok(Cache::new(&self.settings.cache, &name.0).snapshot(&commit).join(&name.0.path))
    }

    /// Returns the commit of a name, and downloads its needed files if the cache lacks them.
    fn commit(&self, name: &Name, on_event: &mut dyn FnMut(Event)) -> Result<String, Error> {
        let Settings { offline, endpoint, .. } = &self.settings;
        let cache = Cache::new(&self.settings.cache, name);
        if let Some(commit) = name.commit().filter(|commit| cache.is_complete(commit)) {
            return Ok(commit.to_string());
        }
        // Another program may have downloaded only some files of a data set, so without a list they are used only
        // offline.
        let may_be_partial = *offline || !name.is_data;
        let cached = cache
            .commit()
            .filter(|commit| cache.is_complete(commit) || may_be_partial && cache.is_usable(commit));
        if *offline {
            let reason = "and HF_HUB_OFFLINE forbids to download it; unset the variable, or give a folder";
            let commit = cached.ok_or_else(|| self.not_cached(name, reason))?;
            if name.is_data && !cache.is_complete(&commit) {
                on_event(Event::Note(format!(
                    "{name}: another program has written the cache, which does not tell whether it has all files; those \
                     in it are used (HF_HUB_OFFLINE)"
                )));
            }
            return Ok(commit);
        }
        if let Some(commit) = cached.as_ref().filter(|_| unreachable().contains(endpoint)) {
            return Ok(commit.clone());
        }
        match (self.download(name, cached.is_some(), on_event), cached) {
            (Err(error), Some(commit)) if error.cause::<Unavailable>().is_some() => {
                let Unavailable { url, reason } = error.cause().expect("checked");
                on_event(Event::Note(format!(
                    "cannot read {url}: {reason}; using the version of {name} in the cache, {commit}"
                )));
                unreachable().insert(endpoint.clone());
                Ok(commit)
            }
            (downloaded, _) => downloaded,
        }
    }

    /// Downloads the needed files and returns their commit. If the cache already has a usable version, only one attempt
    /// is made to reach the Hub.
    #[cfg(feature = "download")]
    fn download(
        &self,
        name: &Name,
        is_cached: bool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<String, Error> {
        crate::download::download(&self.settings, name, if is_cached { 1 } else { 3 }, on_event)
    }

    #[cfg(not(feature = "download"))]
    fn download(&self, name: &Name, is_cached: bool, _: &mut dyn FnMut(Event)) -> Result<String, Error> {
        match Cache::new(&self.settings.cache, name).commit() {
            Some(commit) if is_cached => Ok(commit),
            _ => {
                Err(self.not_cached(name, "and this build cannot download it (feature `hub`); give a folder"))
            }
        }
    }

    fn not_cached(&self, name: &Name, reason: &'static str) -> Error {
        let cache = self.settings.cache.display();
        name.refused(format!("{}it is not in the cache {cache}, {reason}", no_folder(name.is_data)))
    }
}
