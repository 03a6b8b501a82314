//! [`TokenizerSettings`]: how text is normalized before it is split into word pieces.
//!
//! The names follow `tokenizer_config.json`. Data sets, vocabularies, training and inference share one struct, so that
//! all of them normalize text in the same way.

use std::fmt;

use serde::{Deserialize, Serialize};

use bert_storage::Error;

/// The settings of the reference's `BasicTokenizer`, with the two that `transformers` adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerSettings {
    /// Whether text is lower-cased.
    pub do_lower_case: bool,
    /// Whether accents (nonspacing marks) are removed; `None` means the value of `do_lower_case`.
    pub strip_accents: Option<bool>,
    /// Whether each ideograph is a separate word.
    pub tokenize_chinese_chars: bool,
    /// Whether `[SEP]` in a text is plain text, as in the reference. If not, it is the special token, as in
    /// `transformers`.
    #[serde(default = "yes")]
    pub split_special_tokens: bool,
}

fn yes() -> bool {
    true
}

impl Default for TokenizerSettings {
    fn default() -> Self {
        Self {
            do_lower_case: true,
            strip_accents: None,
            tokenize_chinese_chars: true,
            split_special_tokens: true,
        }
    }
}

/// The reference's settings: `do_lower_case` also strips accents.
impl From<bool> for TokenizerSettings {
    fn from(do_lower_case: bool) -> Self {
        Self { do_lower_case, ..Self::default() }
    }
}

impl TokenizerSettings {
    /// Returns whether accents are removed.
    #[must_use]
    pub fn strips_accents(self) -> bool {
        self.strip_accents.unwrap_or(self.do_lower_case)
    }

    /// Returns whether both settings give the same tokens for every text without special tokens.
    #[must_use]
    pub fn same_tokens(self, other: Self) -> bool {
        self.do_lower_case == other.do_lower_case
            && self.strips_accents() == other.strips_accents()
            && self.tokenize_chinese_chars == other.tokenize_chinese_chars
    }
}

impl fmt::Display for TokenizerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lower = self.do_lower_case;
        let chinese = self.tokenize_chinese_chars;
        write!(f, "do_lower_case {lower}, strip_accents {}, ", self.strips_accents())?;
        write!(f, "tokenize_chinese_chars {chinese}")
    }
}

/// Settings as given by flags or by the files of a tokenizer. `None` means that a setting is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have the names of TokenizerSettings")]
pub struct PartialSettings {
    pub do_lower_case: Option<bool>,
    pub strip_accents: Option<bool>,
    pub tokenize_chinese_chars: Option<bool>,
    pub split_special_tokens: Option<bool>,
}

impl PartialSettings {
    /// Returns these settings, with `other`'s values for settings that are not given here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            do_lower_case: self.do_lower_case.or(other.do_lower_case),
            strip_accents: self.strip_accents.or(other.strip_accents),
            tokenize_chinese_chars: self.tokenize_chinese_chars.or(other.tokenize_chinese_chars),
            split_special_tokens: self.split_special_tokens.or(other.split_special_tokens),
        }
    }

    /// Returns the settings of `tokenizer_config.json`, completed by the settings of `tokenizer.json`.
    ///
    /// # Errors
    /// Fails when the two files give a setting with different values; the error names the first one.
    pub fn agreed(self, other: Self) -> Result<Self, Error> {
        // Without a value of its own, `strip_accents` has the value of `do_lower_case`.
        let [strips, other_strips] =
            [self, other].map(|settings| settings.strip_accents.or(settings.do_lower_case));
        let settings = [
            ("do_lower_case", self.do_lower_case, other.do_lower_case),
            ("strip_accents", strips, other_strips),
            ("tokenize_chinese_chars", self.tokenize_chinese_chars, other.tokenize_chinese_chars),
        ];
        for (key, one, two) in settings {
            if let (Some(one), Some(two)) = (one, two)
                && one != two
            {
                return Err(Error::model(format!(
                    "`{key}` is {one}, but {two} in tokenizer.json; correct or delete one of the two files"
                )));
            }
        }
        Ok(self.or(other))
    }

    /// Returns the settings, with defaults for those that are not given.
    #[must_use]
    pub fn resolved(self) -> TokenizerSettings {
        let default = TokenizerSettings::default();
        TokenizerSettings {
            do_lower_case: self.do_lower_case.unwrap_or(default.do_lower_case),
            strip_accents: self.strip_accents,
            tokenize_chinese_chars: self.tokenize_chinese_chars.unwrap_or(default.tokenize_chinese_chars),
            split_special_tokens: self.split_special_tokens.unwrap_or(default.split_special_tokens),
        }
    }
}
