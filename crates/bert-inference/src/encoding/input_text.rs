//! Defines the input of a model: a text or a pair of texts.

/// A text, or a pair of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputText<'a> {
    /// The (first) text.
    pub first: &'a str,
    /// The second text of a pair.
    pub second: Option<&'a str>,
}

/// A function that divides a line into the texts of a model's input.
pub type SplitLine = for<'a> fn(&'a str) -> InputText<'a>;

impl<'a> From<&'a str> for InputText<'a> {
    fn from(first: &'a str) -> Self {
        Self { first, second: None }
    }
}

impl<'a> From<(&'a str, &'a str)> for InputText<'a> {
    fn from((first, second): (&'a str, &'a str)) -> Self {
        Self { first, second: Some(second) }
    }
}
