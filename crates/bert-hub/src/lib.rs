//! Finds models and data sets by their names on the [Hugging Face Hub](https://huggingface.co) and keeps them in the Hub's own
//! cache, which `huggingface_hub` of Python reads and writes too.
//!
//! | task | item |
//! |---|---|
//! | read a name such as `google-bert/bert-base-uncased@main` | [`ModelName`] |
//! | read a name such as `hf://datasets/owner/name/data/*.parquet` | [`DataName`] |
//! | take address, cache, token and offline mode from `HF_ENDPOINT`, `HF_HOME`, `HF_TOKEN`, `HF_HUB_OFFLINE` | [`Settings`] |
//! | get the folder of a model, downloaded if necessary | [`Hub`] |
//! | get a file, a folder or the files of a pattern of a data set | [`Hub::data`] |
//! | find the model in a folder `models--OWNER--NAME` of a cache | [`snapshot`] |
//!
//! A branch or tag is resolved to a commit first, so that all files belong to one version. [`needed_files`] selects
//! the files of a model, and never selects code. For a data set, all files that the name selects are needed. Each file
//! is compared with the digest that the Hub states. An interrupted download continues where it ended, and two
//! processes that need the same file download it once. The token is sent to the host of the Hub only, and never to the
//! hosts to which it redirects.
//!
//! Without the feature `download`, only files in the cache are found.

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
pub use error::{Class, Error};
pub use event::Event;
pub use files::needed_files;
pub use hub::{Hub, Model};
pub use name::{DataName, ModelName};
pub use settings::Settings;

// The other crates of the workspace use these items, which may change in any version.
#[doc(hidden)]
pub use cache::name_of_cached;
