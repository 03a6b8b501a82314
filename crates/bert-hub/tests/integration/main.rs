//! Tests against a local server that answers like the Hub.

mod bad_servers;
mod cache;
mod data_sets;
mod download;

use std::time::Duration;

use bert_hub::{Error, Event, Hub, Model, ModelName, Settings};
use bert_testing::hub::HubServer;
use tempfile::TempDir;

const ID: &str = "owner/model";

/// A large file, which comes from another address than the small ones.
fn weights() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A user with a cache of their own.
struct User {
    folder: TempDir,
    settings: Settings,
}

impl User {
    fn new(endpoint: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            endpoint: endpoint.to_string(),
            cache: folder.path().join("hub"),
            token: None,
            offline: false,
            timeout: Duration::from_millis(300),
        };
        Self { folder, settings }
    }

    fn with_token(mut self) -> Self {
        self.settings.token = Some("hf_secret".into());
        self
    }

    /// Returns the model and all events.
    fn try_get(&self, name: &str) -> (Result<Model, Error>, Vec<Event>) {
        let mut events = Vec::new();
        let hub = Hub::new(self.settings.clone());
        let name = ModelName::parse(name).unwrap();
        let model = hub.model(&name, &mut |event| events.push(event));
        (model, events)
    }

    fn get(&self, name: &str) -> Model {
        let (model, events) = self.try_get(name);
        model.unwrap_or_else(|error| panic!("{error}, {events:?}"))
    }

    /// Returns exit code and message of a model that cannot be had.
    fn refused(&self, name: &str) -> (u8, String) {
        let error = self.try_get(name).0.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        (error.exit_code(), error.to_string())
    }

    fn blob(&self, bytes: &[u8], end: &str) -> std::path::PathBuf {
        let name = HubServer::digest(bytes) + end;
        self.settings.cache.join("models--owner--model/blobs").join(name)
    }
}
