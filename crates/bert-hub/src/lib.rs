//! Finds models by their names on the [Hugging Face Hub](https://huggingface.co) and keeps them in the Hub's own cache,
//! which `huggingface_hub` of Python reads and writes too.
//!
//! | task | item |
//! |---|---|
//! | read a name such as `google-bert/bert-base-uncased@main` | [`ModelName`] |
//! | take address, cache, token and offline mode from `HF_ENDPOINT`, `HF_HOME`, `HF_TOKEN`, `HF_HUB_OFFLINE` | [`Settings`] |
//! | get the folder of a model, downloaded if necessary | [`Hub`] |
//! | find the model in a folder `models--OWNER--NAME` of a cache | [`snapshot`] |
//!
//! A branch or tag is resolved to a commit first, so that all files belong to one version. Only the files of
//! [`needed_files`] are downloaded, never code. Each is compared with the digest that the Hub states. A download that was
//! cut continues where it ended, and two processes that need the same file download it once. The token is sent to the
//! host of the Hub only, and never to the hosts to which it redirects.
//!
//! Without the feature `download`, only models in the cache are found.

mod cache;
#[cfg(feature = "download")]
mod download;
mod error;
mod event;
mod files;
mod hub;
mod name;
mod settings;

pub use cache::snapshot;
pub use error::Error;
pub use event::Event;
pub use files::needed_files;
pub use hub::{Hub, Model};
pub use name::ModelName;
pub use settings::Settings;
