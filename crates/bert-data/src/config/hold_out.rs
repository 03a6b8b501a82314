//! The documents that are held out of the training data: a share of them, or a number.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use bert_random::{Domain, Random, Stream};

/// Folder of the held-out data set in the folder of the training data.
pub const HELD_OUT_FOLDER: &str = "held-out";

/// Smallest share in percent.
const MIN_PERCENT: f64 = 1e-6;

/// The documents to hold out: a share, written as `1%`, above 0 and at most 50 %; or a number, written as `200`.
#[derive(Clone, Copy, Debug)]
pub struct HoldOut {
    amount: Amount,
    /// The documents whose draws are below this limit are held out. If a number is given, the limit is computed from
    /// the text.
    limit: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Percent(f64),
    Documents(u64),
}

/// Compares only the amounts, because the limit follows from the amount and the text.
impl PartialEq for HoldOut {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

/// Returns the draw of a document, from 0 to 1. Equal documents have equal draws, whatever their files, their order and
/// the vocabulary.
pub(crate) fn draw(seed: u64, document: u64) -> f64 {
    Stream::new(seed, Domain::HeldOutDocuments, &[document]).unit()
}

impl HoldOut {
    /// Returns whether a document is held out.
    pub(crate) fn selects(self, seed: u64, document: u64) -> bool {
        self.limit.is_some_and(|limit| draw(seed, document) < limit)
    }

    /// Returns the number of documents, if a number is held out and the limit of their draws is still unknown.
    pub(crate) fn open_number(self) -> Option<u64> {
        match self.amount {
            Amount::Documents(number) if self.limit.is_none() => Some(number),
            _ => None,
        }
    }

    /// Returns the same amount with the limit of the draws.
    pub(crate) fn with_limit(self, limit: f64) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

impl FromStr for HoldOut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "{text:?} is neither a percentage above 0 and at most 50, such as 1% or 0.5%, nor a number of documents"
            )
        };
        let Some(number) = text.trim().strip_suffix('%') else {
            let number = text.trim().parse().ok().filter(|&number: &u64| number > 0).ok_or_else(invalid)?;
            return Ok(Self { amount: Amount::Documents(number), limit: None });
        };
        let percent =
            number.trim().parse().ok().filter(|&percent: &f64| (MIN_PERCENT..=50.0).contains(&percent));
        let percent = percent.ok_or_else(invalid)?;
        Ok(Self { amount: Amount::Percent(percent), limit: Some(percent / 100.0) })
    }
}

bert_storage::json_as_text!(HoldOut);

impl fmt::Display for HoldOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount {
            Amount::Percent(percent) => write!(f, "{percent}%"),
            Amount::Documents(number) => write!(f, "{number}"),
        }
    }
}

/// Returns the folder of the held-out data set of a data folder or URL.
#[must_use]
pub fn held_out_folder(data: &std::path::Path) -> PathBuf {
    data.join(HELD_OUT_FOLDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_or_numbers() {
        for (text, shown) in [("1%", "1%"), (" 0.5 % ", "0.5%"), ("50%", "50%"), ("200", "200")] {
            assert_eq!(text.parse::<HoldOut>().unwrap().to_string(), shown);
        }
        for text in ["", "0", "-1", "0%", "-1%", "51%", "NaN%", "a%", "0.01", "1e-300%"] {
            assert!(text.parse::<HoldOut>().unwrap_err().contains("such as 1%"), "{text}");
        }
    }

    /// The number of selected documents is within 5 sigma of its binomial distribution.
    #[test]
    fn selected_documents_have_the_share() {
        let share: HoldOut = "2%".parse().unwrap();
        for seed in 0..3 {
            let count = (0..50_000).filter(|&document| share.selects(seed, document)).count() as f64;
            assert!((count - 1000.0).abs() < 5.0 * 31.3, "{count}");
        }
        let selected = |seed| (0..2000).filter(|&document| share.selects(seed, document)).collect::<Vec<_>>();
        assert_ne!(selected(1), selected(2));
    }
}
