//! The entries in a shard's Parquet footer, which identify the shard where its manifest is not at hand.
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

/// What all shards of a data set say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footer {
    config: String,
    vocabulary: String,
    random_seed: u64,
    shards: usize,
}

impl Footer {
    /// Of a data set with these options and the vocabulary of this digest.
    pub(crate) fn new(config: &ResolvedConfig, vocabulary: String) -> Self {
        let (random_seed, shards) = (config.random_seed, config.num_shards);
        Self { config: config.digest(), vocabulary, random_seed, shards }
    }

    /// The entries of one of them.
    pub(crate) fn of_shard(&self, shard: usize) -> Vec<KeyValue> {
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

/// Columns that have a 0 or a 1 for each token: their least and greatest values would say nothing, and take 4 % of the
/// time of a build.
const FLAGS: [&str; 3] = ["segment_ids", "token_type_ids", "attention_mask"];

/// The properties that all shards have: who wrote them, in the form that Parquet readers take apart, and the least and
/// greatest value of each column chunk, by which they skip some.
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

/// The version of everything that is drawn for a data set, and of what a half-finished build keeps of it.
///
/// Raise it with every change by which the same options and text give other rows (another order of draws, another rule
/// for pairs or masks), or by which a work folder holds something else. A build goes on only under the version that it
/// was begun with. 2: sentences longer than an instance are used in pieces. 3: rows are made bucket by bucket.
pub const STREAMS_VERSION: u32 = 3;
