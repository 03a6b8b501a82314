//! Checksummed JSON files: each contains its own digest, so that a flipped bit or a manual edit is detected on reading.
//!
//! The first member of the file, `"seal"`, is the checksum: the BLAKE3 digest of the whole file with the 64 digits of
//! the checksum set to zero. Files whose digest is stored in another file (shards, the files of a checkpoint) need no
//! checksum.

use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::source::{digest_bytes, read_limited};

const START: &str = "{\n  \"seal\": \"";
const END: &str = "\",\n";
const DIGITS: usize = 64;
/// Maximum size of a checksummed file in bytes; the manifest of 99,999 shards has about 20 MB.
pub const MAX_BYTES: u64 = 256 << 20;

/// Returns the JSON text of a value, with a checksum.
///
/// # Panics
/// Panics if the value is not a JSON object or is empty.
pub fn checksummed_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("plain data");
    assert!(text.starts_with("{\n"), "a JSON object with entries");
    // The checksum is inserted in place, because a copy of a list of a million inputs would be large.
    text.replace_range(..2, &format!("{START}{}{END}", "0".repeat(DIGITS)));
    text.push('\n');
    let checksum = digest_bytes(text.as_bytes());
    text.replace_range(START.len()..START.len() + DIGITS, &checksum);
    text
}

/// Returns the JSON text of a value, with a checksum and at most `max_bytes` bytes. A larger file could be written, but
/// never read again.
///
/// # Errors
/// Fails when the text would have more than `max_bytes` bytes; the kind is [`std::io::ErrorKind::FileTooLarge`].
///
/// # Panics
/// Panics if [`checksummed_json`] does.
pub(crate) fn checksummed_json_within<T: Serialize + ?Sized>(
    value: &T,
    max_bytes: u64,
) -> std::io::Result<String> {
    let text = checksummed_json(value);
    if text.len() as u64 <= max_bytes {
        return Ok(text);
    }
    let message = format!("it would have {} bytes, but at most {max_bytes} can be read back", text.len());
    Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message))
}

/// Reads a checksummed file and returns its JSON without the checksum.
///
/// # Errors
/// Fails when the file cannot be read, or when its checksum is missing or does not match.
pub fn read_checksummed(path: &Path) -> Result<Vec<u8>> {
    let bytes = read_limited(path, MAX_BYTES).map_err(Error::io("read", path))?;
    verify_checksum(bytes).map_err(|error| error.at(path))
}

/// Checks a checksummed text and returns its JSON without the checksum.
///
/// # Errors
/// Fails when the checksum is missing or does not match; the class is [`Class::Data`](crate::Class::Data).
pub fn verify_checksum(mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let digits = START.len()..START.len() + DIGITS;
    let begins = bytes.starts_with(START.as_bytes())
        && bytes.get(digits.end..).is_some_and(|rest| rest.starts_with(END.as_bytes()));
    if !begins {
        let text =
            "it has no checksum (member `seal`): it is truncated, or another program or version wrote it";
        return Err(Error::data(text));
    }
    let checksum = bytes[digits.clone()].to_vec();
    bytes[digits.clone()].fill(b'0');
    if digest_bytes(&bytes).as_bytes() != checksum {
        let text = "its checksum (member `seal`) does not match: it is corrupt or was edited";
        return Err(Error::data(text));
    }
    bytes.splice(1..digits.end + END.len(), *b"\n");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_or_truncation_is_detected() {
        let value = serde_json::json!({ "numbers": [1, 2.5], "text": "\u{e4}\"", "zeros": "0".repeat(70) });
        let text = checksummed_json(&value);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["text"], value["text"]);
        let json = verify_checksum(text.clone().into_bytes()).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap(), value);
        let bytes = text.into_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(verify_checksum(flipped).is_err(), "bit {bit} of byte {at}");
            }
            assert!(verify_checksum(bytes[..at].to_vec()).is_err(), "cut off after {at} bytes");
        }
    }

    #[test]
    fn files_too_large_to_read_are_not_written() {
        let value = serde_json::json!({ "text": "word" });
        let length = checksummed_json(&value).len() as u64;
        assert!(checksummed_json_within(&value, length).is_ok());
        let error = checksummed_json_within(&value, length - 1).unwrap_err();
        assert!(error.to_string().contains(&format!("at most {} can be read", length - 1)), "{error}");
    }

    #[test]
    fn only_regular_files_are_read() {
        if Path::new("/dev/zero").exists() {
            assert_eq!(read_checksummed(Path::new("/dev/zero")).unwrap_err().class(), crate::Class::Failed);
        }
    }
}
