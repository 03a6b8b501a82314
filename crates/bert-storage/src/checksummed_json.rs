//! Checksummed JSON files: each contains its own digest, so that a flipped bit or a manual edit is detected on reading.
//!
//! The first entry of the file is `"seal"`: the BLAKE3 digest of the whole file with the digits of the seal set to
//! zero. Files whose digest is stored in another file (shards, the files of a checkpoint) do not need a seal.

use std::path::Path;

use serde::Serialize;

use crate::source::{digest_bytes, read_limited};

const START: &str = "{\n  \"seal\": \"";
const END: &str = "\",\n";
const DIGITS: usize = 64;
/// Maximum size of a sealed file in bytes; the manifest of 99,999 shards has about 20 MB.
pub const LARGEST: u64 = 256 << 20;

/// Error of a sealed file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file does not begin with a seal.
    #[error("it does not begin with a seal: cut off, of another version, or not ours")]
    NoSeal,
    /// The contents do not match the seal.
    #[error("its seal does not match: a bit was flipped, or it was edited")]
    Broken,
}

/// Returns the sealed JSON text of a value.
///
/// # Panics
/// If the value is not a JSON object or is empty.
#[must_use]
pub fn sealed<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("plain data");
    assert!(text.starts_with("{\n"), "a JSON object with entries");
    // In place, because the list of a million inputs is long.
    text.replace_range(..2, &format!("{START}{}{END}", "0".repeat(DIGITS)));
    text.push('\n');
    let seal = digest_bytes(text.as_bytes());
    text.replace_range(START.len()..START.len() + DIGITS, &seal);
    text
}

/// Returns the sealed JSON text of a value, with at most `most` bytes. A larger file could be written, but never read
/// again.
///
/// # Errors
/// [`std::io::ErrorKind::FileTooLarge`].
///
/// # Panics
/// As [`sealed`].
pub(crate) fn sealed_within<T: Serialize + ?Sized>(value: &T, most: u64) -> std::io::Result<String> {
    let text = sealed(value);
    if text.len() as u64 <= most {
        return Ok(text);
    }
    let said = format!("it would have {} bytes, and at most {most} are read", text.len());
    Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, said))
}

/// Reads a sealed file and returns its JSON without the seal.
///
/// # Errors
/// [`SealError`].
pub fn read_sealed(path: &Path) -> Result<Vec<u8>, SealError> {
    unsealed(read_limited(path, LARGEST)?)
}

/// Checks a sealed text and returns its JSON without the seal.
///
/// # Errors
/// [`SealError::NoSeal`], [`SealError::Broken`].
pub fn unsealed(mut bytes: Vec<u8>) -> Result<Vec<u8>, SealError> {
    let digits = START.len()..START.len() + DIGITS;
    let begins = bytes.starts_with(START.as_bytes())
        && bytes.get(digits.end..).is_some_and(|rest| rest.starts_with(END.as_bytes()));
    if !begins {
        return Err(SealError::NoSeal);
    }
    let seal = bytes[digits.clone()].to_vec();
    bytes[digits.clone()].fill(b'0');
    if digest_bytes(&bytes).as_bytes() != seal {
        return Err(SealError::Broken);
    }
    bytes.splice(1..digits.end + END.len(), *b"\n");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_comes_back_and_any_flip_or_cut_is_found() {
        let value = serde_json::json!({ "numbers": [1, 2.5], "text": "\u{e4}\"", "zeros": "0".repeat(70) });
        let text = sealed(&value);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["text"], value["text"]);
        let json = unsealed(text.clone().into_bytes()).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap(), value);
        let bytes = text.into_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(unsealed(flipped).is_err(), "bit {bit} of byte {at}");
            }
            assert!(unsealed(bytes[..at].to_vec()).is_err(), "cut off after {at} bytes");
        }
    }

    #[test]
    fn larger_files_than_are_read_are_not_written() {
        let value = serde_json::json!({ "text": "word" });
        let length = sealed(&value).len() as u64;
        assert!(sealed_within(&value, length).is_ok());
        let error = sealed_within(&value, length - 1).unwrap_err();
        assert!(error.to_string().contains(&format!("at most {} are read", length - 1)), "{error}");
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        if Path::new("/dev/zero").exists() {
            assert!(matches!(read_sealed(Path::new("/dev/zero")), Err(SealError::Io(_))));
        }
    }
}
