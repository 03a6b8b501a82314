//! Bounds the size of the receipt of a part before the work begins.

use bert_storage::checksummed_json::MAX_BYTES;

use crate::config::BuildConfig;
use crate::config::check::conflict;
use crate::error::Result;

/// Maximum bytes of the entries of a receipt: per shard, per pass, per length, and for everything else.
pub(super) const SHARD: u64 = 400;
pub(super) const PASS: u64 = 200;
const LENGTH: u64 = 20;
const REST: u64 = 8 << 20;

/// Rejects a part whose receipt would exceed the maximum size of a sealed file. `inputs` is the size of the list of
/// inputs in bytes.
///
/// # Errors
/// Fails when the receipt could exceed the maximum size.
pub(crate) fn reject_too_large(config: &BuildConfig, inputs: u64) -> Result<()> {
    let Some(parts) = config.parts else { return Ok(()) };
    let shards = config.num_shards.unwrap_or(20_000).div_ceil(parts) as u64;
    let passes = config.passes() as u64;
    let lengths = config.max_seq_length as u64;
    let bytes = inputs + SHARD * shards + PASS * passes + LENGTH * lengths + REST;
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let reason =
        "the list of its inputs, shards and passes is too long: use fewer passes, or join the input files";
    conflict("parts", "these values of `.num_shards`, `.dupe_factor` and `.input`", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_too_long_receipts_are_rejected_first() {
        let parts = BuildConfig { part: Some(1), parts: Some(2), ..BuildConfig::default() };
        let large = BuildConfig { num_shards: Some(99_999), max_seq_length: 65_535, ..parts.clone() };
        reject_too_large(&large, 200 << 20).unwrap();
        let error =
            reject_too_large(&BuildConfig { dupe_factor: 1_000_000, ..parts }, 200 << 20).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains("fewer passes"), "{error}");
    }
}
