//! The share of documents that is held out of the training data.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use bert_random::{Domain, Random, Stream};
use serde::{Deserialize, Serialize};

/// Folder of the held-out data set in the folder of the training data.
pub const HELD_OUT_FOLDER: &str = "held-out";

/// The share of documents to hold out, written as `1%`; above 0 and at most 50 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HoldOut {
    percent: f64,
}

impl HoldOut {
    /// Returns whether a document is held out. Equal documents are held out together, whatever their files, their order
    /// and the vocabulary.
    pub(crate) fn selects(self, seed: u64, document: u64) -> bool {
        let mut random = Stream::new(seed, Domain::HeldOutDocuments, &[document]);
        random.unit() < self.percent / 100.0
    }
}

impl FromStr for HoldOut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
        let percent = number.filter(|&percent: &f64| percent > 0.0 && percent <= 50.0);
        percent
            .map(|percent| Self { percent })
            .ok_or_else(|| format!("{text:?} is not a percentage above 0 and at most 50, such as 1% or 0.5%"))
    }
}

impl TryFrom<String> for HoldOut {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HoldOut> for String {
    fn from(share: HoldOut) -> Self {
        share.to_string()
    }
}

impl fmt::Display for HoldOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
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
    fn shares_are_percentages() {
        for (text, shown) in [("1%", "1%"), (" 0.5 % ", "0.5%"), ("50%", "50%")] {
            assert_eq!(text.parse::<HoldOut>().unwrap().to_string(), shown);
        }
        for text in ["", "1", "0%", "-1%", "51%", "NaN%", "a%", "0.01"] {
            assert!(text.parse::<HoldOut>().unwrap_err().contains("such as 1%"), "{text}");
        }
    }

    /// 5 sigma of a binomial distribution.
    #[test]
    fn selected_documents_have_the_share() {
        let share: HoldOut = "2%".parse().unwrap();
        for seed in 0..3 {
            let count = (0..50_000).filter(|&document| share.selects(seed, document)).count() as f64;
            assert!((count - 1000.0).abs() < 5.0 * 31.3, "{count}");
        }
        let of = |seed| (0..2000).filter(|&document| share.selects(seed, document)).collect::<Vec<_>>();
        assert_ne!(of(1), of(2));
    }
}
