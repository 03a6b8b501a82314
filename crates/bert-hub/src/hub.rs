//! [`Hub`]: returns the folder of a model from the cache, or downloads it first.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::ModelCache;
use crate::error::Error;
use crate::event::Event;
use crate::name::ModelName;
use crate::settings::Settings;

/// Addresses that could not be reached. A process does not wait for them again if it has a version of the model.
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
    /// Returns the Hub of the environment variables; see [`Settings::from_variables`].
    ///
    /// # Errors
    /// [`Error::Variable`].
    pub fn from_environment() -> Result<Self, Error> {
        Settings::from_environment().map(Self::new)
    }

    /// Returns a Hub with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Returns the folder of a model. A name with a commit that is in the cache needs no network. For another one, the Hub
    /// is asked for the commit, and the files that the cache lacks are downloaded. If the Hub cannot be reached, the version
    /// in the cache is used, with a note.
    ///
    /// # Errors
    /// When the model does not exist, may not be read, has no files that can be read, or cannot be downloaded.
    pub fn model(&self, name: &ModelName, on_event: &mut dyn FnMut(Event)) -> Result<Model, Error> {
        let cache = ModelCache::new(&self.settings.cache, name);
        let model = |commit: &str| Model { name: name.at(commit), folder: cache.snapshot(commit) };
        if let Some(commit) = name.commit().filter(|commit| cache.is_complete(commit)) {
            return Ok(model(commit));
        }
        let cached = cache.commit(name).filter(|commit| cache.is_complete(commit) || cache.is_usable(commit));
        if self.settings.offline {
            let reason = "and HF_HUB_OFFLINE forbids to download it; unset the variable, or give a folder";
            return cached.map(|commit| model(&commit)).ok_or_else(|| self.not_cached(name, reason));
        }
        let endpoint = &self.settings.endpoint;
        if let Some(commit) = cached.as_ref().filter(|_| unreachable().contains(endpoint)) {
            return Ok(model(commit));
        }
        match (self.download(name, cached.is_some(), on_event), cached) {
            (Ok(commit), _) => Ok(model(&commit)),
            (Err(Error::Unavailable { url, reason, .. }), Some(commit)) => {
                on_event(Event::Note(format!(
                    "cannot read {url}: {reason}; using the version of {name} in the cache, {commit}"
                )));
                unreachable().insert(endpoint.clone());
                Ok(model(&commit))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Downloads a model, and returns its commit. With another version in the cache, the Hub is asked once only.
    #[cfg(feature = "download")]
    fn download(
        &self,
        name: &ModelName,
        is_cached: bool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<String, Error> {
        crate::download::download(&self.settings, name, if is_cached { 1 } else { 3 }, on_event)
    }

    #[cfg(not(feature = "download"))]
    fn download(&self, name: &ModelName, is_cached: bool, _: &mut dyn FnMut(Event)) -> Result<String, Error> {
        match ModelCache::new(&self.settings.cache, name).commit(name) {
            Some(commit) if is_cached => Ok(commit),
            _ => {
                Err(self.not_cached(name, "and this build cannot download it (feature `hub`); give a folder"))
            }
        }
    }

    fn not_cached(&self, name: &ModelName, reason: &'static str) -> Error {
        Error::NotCached { name: name.to_string(), cache: self.settings.cache.clone(), reason }
    }
}
