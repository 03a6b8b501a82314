//! Parses flags that take several values: seeds as numbers and ranges (`1-3,17`), and the values of a grid.

use std::fmt;
use std::ops::{Deref, RangeInclusive};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One or more values of a flag, separated by commas. In JSON, a single value or a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Choices<T> {
    /// One value.
    Single(T),
    /// Several values, which make a grid.
    Grid(Vec<T>),
}

impl<T> Choices<T> {
    /// Returns all values.
    pub fn values(&self) -> &[T] {
        match self {
            Self::Single(value) => std::slice::from_ref(value),
            Self::Grid(values) => values,
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Choices<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |part: &str| part.trim().parse().map_err(|error: T::Err| format!("{part:?}: {error}"));
        let mut values = text.split(',').map(value).collect::<Result<Vec<T>, String>>()?;
        Ok(match values.len() {
            1 => Self::Single(values.remove(0)),
            _ => Self::Grid(values),
        })
    }
}

/// Maximum number of seeds.
const MAX_SEEDS: usize = 10_000;

/// Seeds, one run each. In JSON, a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seeds(pub Vec<u64>);

impl Deref for Seeds {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.iter().map(u64::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for Seeds {
    type Err = String;

    /// Parses numbers and inclusive ranges, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let range = range(part.trim())
                .ok_or_else(|| format!("{part:?} is neither a number nor a range such as 1-5"))?;
            // `count` would overflow: a range may have 2^64 numbers.
            if range.end() - range.start() >= (MAX_SEEDS - seeds.len().min(MAX_SEEDS)) as u64 {
                return Err(format!("more than {MAX_SEEDS} seeds"));
            }
            seeds.extend(range);
        }
        Ok(Self(seeds))
    }
}

fn range(part: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let first = first.parse().ok()?;
    let last = last.parse().ok()?;
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("1-5").unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(seeds("9, 1-3,7-7").unwrap(), [9, 1, 2, 3, 7]);
        assert_eq!(seeds("18446744073709551615").unwrap(), [u64::MAX]);
        for wrong in ["", "one", "5-1", "1-", "-1", "1,,2", "1-2-3"] {
            let error = seeds(wrong).unwrap_err();
            assert!(error.contains("neither a number nor a range"), "{wrong}: {error}");
        }
        for many in ["0-18446744073709551615", "1-10001", "1-10000,7"] {
            assert_eq!(seeds(many).unwrap_err(), "more than 10000 seeds");
        }
        assert_eq!(seeds("1-10000").unwrap().len(), 10_000);
        let some: Seeds = "2-3,11".parse().unwrap();
        assert_eq!(some.to_string().parse::<Seeds>().unwrap(), some);
        assert_eq!(serde_json::to_string(&some).unwrap(), "[2,3,11]");
    }
}
