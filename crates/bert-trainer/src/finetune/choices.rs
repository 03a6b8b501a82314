//! Holds the value of a flag that takes one value, or several to choose among.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The values of a flag that may have several, with commas between them. In JSON one value, or a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Choices<T> {
    /// One.
    One(T),
    /// Several: a grid.
    Several(Vec<T>),
}

impl<T> Choices<T> {
    /// All values.
    pub fn values(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Choices<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |part: &str| part.trim().parse().map_err(|error: T::Err| format!("{part:?}: {error}"));
        let mut values = text.split(',').map(value).collect::<Result<Vec<T>, String>>()?;
        Ok(match values.len() {
            1 => Self::One(values.remove(0)),
            _ => Self::Several(values),
        })
    }
}
