//! The entries in a shard's Parquet footer, which identify the shard without its manifest.
//!
//! | key | value |
//! |---|---|
//! | `bert.format_version` | the [`FORMAT_VERSION`] of the data set |
//! | `bert.config` | the digest of its options ([`ResolvedConfig::digest`]) |
//! | `bert.vocabulary` | the BLAKE3 digest of its vocabulary |
//! | `bert.random_seed` | its seed |
//! | `bert.shard` | which shard it is, as in its name: `0 of 16` to `15 of 16` |
//!
//! None of this depends on paths or the machine. Readers of this workspace use the manifest instead, whose digests
//! cover the footers.

use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::config::resolved::ResolvedConfig;

/// The footer entries that all shards of a data set share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footer {
    config: String,
    vocabulary: String,
    random_seed: u64,
    shards: usize,
}

impl Footer {
    /// Creates the entries for a data set with these options and the digest of its vocabulary.
    pub(crate) fn new(config: &ResolvedConfig, vocabulary: String) -> Self {
        let random_seed = config.random_seed;
        let shards = config.num_shards;
        Self { config: config.digest(), vocabulary, random_seed, shards }
    }

    /// Returns the entries of one shard.
    pub(crate) fn for_shard(&self, shard: usize) -> Vec<KeyValue> {
        let entry = |key: &str, value: String| KeyValue::new(format!("bert.{key}"), value);
        vec![
            entry("format_version", FORMAT_VERSION.to_string()),
            entry("config", self.config.clone()),
            entry("vocabulary", self.vocabulary.clone()),
            entry("random_seed", self.random_seed.to_string()),
            entry("shard", format!("{shard} of {}", self.shards)),
        ]
    }
}

/// Columns that contain 0 or 1 for each token: their minimum and maximum would be useless, and take 4 % of the time of
/// a build.
const FLAGS: [&str; 3] = ["segment_ids", "token_type_ids", "attention_mask"];

/// Returns the properties that all shards share: the program name in the form that Parquet readers parse, and the
/// minimum and maximum of each column chunk, which lets readers skip some.
pub(crate) fn shard_properties(footer: Vec<KeyValue>) -> WriterPropertiesBuilder {
    let path = |flag: &str| ColumnPath::new([flag, "list", "element"].map(String::from).to_vec());
    FLAGS
        .into_iter()
        .fold(WriterProperties::builder(), |properties, flag| {
            properties.set_column_statistics_enabled(path(flag), EnabledStatistics::None)
        })
        .set_created_by(concat!("bert-data version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(footer).filter(|entries| !entries.is_empty()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None)
}

/// The version of the format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 4;

/// The version of all random draws for a data set, and of the content of an unfinished build.
///
/// Raise it with every change by which the same options and text give different rows (another order of draws, another
/// rule for pairs or masks), or by which a work folder changes. A build continues only with the version that it was
/// started with. 2: sentences longer than an instance are used in pieces. 3: rows are generated bucket by bucket.
pub const STREAMS_VERSION: u32 = 3;
