//! Parses and prints sizes such as `512MiB`, `4GB` and `1073741824`.

use std::fmt;
use std::str::FromStr;

/// Largest size in bytes. Sums and small multiples of it fit 64 bits.
const MAX_BYTES: u64 = 1 << 60;

/// A number of bytes, written as `400M`, `2G` or `300000000`; K, M, G and T are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is not a number of bytes such as 400M or 2G");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KB" | "KIB" => 1 << 10,
            "M" | "MB" | "MIB" => 1 << 20,
            "G" | "GB" | "GIB" => 1 << 30,
            "T" | "TB" | "TIB" => 1 << 40,
            _ => return Err(expected()),
        };
        let number: u64 = number.parse().map_err(|_| expected())?;
        let bytes = number.checked_mul(factor).filter(|&bytes| bytes <= MAX_BYTES);
        bytes.map(Self).ok_or_else(|| format!("{text:?} is more than 1048576T"))
    }
}

bert_storage::json_as_text!(ByteSize);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 30) => write!(f, "{}G", bytes >> 30),
            bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{}M", bytes >> 20),
            bytes => write!(f, "{bytes}"),
        }
    }
}
