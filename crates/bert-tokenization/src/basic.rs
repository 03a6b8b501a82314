//! The reference's `BasicTokenizer`: cleans text, splits it into words, and normalizes them.
//!
//! [`TokenizerSettings`] states how text is normalized before it is split into word pieces.
//!
//! Its fields have the names of the keys in `tokenizer_config.json`. Data sets, vocabularies, training and inference
//! share one struct, so that all of them normalize text in the same way.
//!
//! The module also implements Python's character classes `str.isspace` and `str.isalnum`, because Rust's differ.

use std::borrow::Cow;
use std::fmt;

use bert_storage::Error;
use serde::{Deserialize, Serialize};
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

/// Returns whether a character is a CJK ideograph for the reference, which makes it a word by default.
pub fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B820..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

/// Returns whether a character is punctuation for the reference: ASCII characters other than letters, digits, space and
/// control characters, and the Unicode category P.
pub fn is_punctuation(c: char) -> bool {
    use GeneralCategory as G;
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    matches!(
        get_general_category(c),
        G::ConnectorPunctuation
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::OtherPunctuation
    )
}

/// The result of cleaning a character.
pub(crate) enum CharClass {
    Dropped,
    Space,
    Text,
}

pub(crate) fn clean(c: char) -> CharClass {
    match c {
        '\t' | '\n' | '\r' | ' ' => CharClass::Space,
        '\0' | '\u{fffd}' => CharClass::Dropped,
        _ if c.is_ascii_graphic() => CharClass::Text,
        _ => match get_general_category(c) {
            GeneralCategory::Control | GeneralCategory::Format => CharClass::Dropped,
            // The reference's cleaning keeps line and paragraph separators, which then separate words.
            GeneralCategory::SpaceSeparator => CharClass::Space,
            GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator => CharClass::Space,
            _ => CharClass::Text,
        },
    }
}

/// A word of a line: the cleaned text between spaces, or one ideograph.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) ideograph: bool,
    /// Whether the word is an ideograph that follows another ideograph with nothing but dropped characters between
    /// them.
    pub(crate) adjoins: bool,
}

impl<'a> Word<'a> {
    fn other(text: &'a str) -> Self {
        Self { text, ideograph: false, adjoins: false }
    }
}

/// Calls `word` with each whitespace-separated word of a line, cleaned; with `split_ideographs`, each ideograph is a
/// separate word.
pub(crate) fn each_word(line: &str, split_ideographs: bool, mut word: impl FnMut(Word<'_>)) {
    let bytes = line.as_bytes();
    let mut at = 0;
    let mut cleaned = String::new();
    while at < bytes.len() {
        if matches!(bytes[at], b' ' | b'\t' | b'\n' | b'\r') {
            at += 1;
            continue;
        }
        let graphic = bytes[at..].iter().take_while(|byte| byte.is_ascii_graphic()).count();
        let end = at + graphic;
        if graphic > 0 && (end == bytes.len() || matches!(bytes[end], b' ' | b'\t' | b'\n' | b'\r')) {
            word(Word::other(&line[at..end]));
            at = end;
            continue;
        }
        at += clean_word(&line[at..], split_ideographs, &mut cleaned, &mut word);
    }
}

/// Processes a word that is not plain ASCII, for [`each_word`]; returns the number of bytes consumed.
fn clean_word(
    rest: &str,
    split_ideographs: bool,
    cleaned: &mut String,
    word: &mut impl FnMut(Word<'_>),
) -> usize {
    cleaned.clear();
    let mut adjoins = false;
    let mut taken = rest.len();
    for (at, c) in rest.char_indices() {
        match clean(c) {
            CharClass::Dropped => {}
            CharClass::Space => {
                taken = at + c.len_utf8();
                break;
            }
            CharClass::Text if split_ideographs && is_ideograph(c) => {
                if !cleaned.is_empty() {
                    word(Word::other(cleaned));
                    cleaned.clear();
                    adjoins = false;
                }
                word(Word { text: c.encode_utf8(&mut [0; 4]), ideograph: true, adjoins });
                adjoins = true;
            }
            CharClass::Text => cleaned.push(c),
        }
    }
    if !cleaned.is_empty() {
        word(Word::other(cleaned));
    }
    taken
}

/// Returns the normalized form of a word. If the settings require it, the word is lower-cased as a whole, because a
/// final sigma depends on its position, and then converted to NFD without nonspacing marks.
pub(crate) fn normal(word: &str, settings: TokenizerSettings) -> Cow<'_, str> {
    let cased: Cow<'_, str> = if settings.do_lower_case { word.to_lowercase().into() } else { word.into() };
    if !settings.strips_accents() || cased.is_ascii() {
        return cased;
    }
    without_accents(cased.chars()).collect()
}

/// Returns the characters in NFD without nonspacing marks.
pub fn without_accents(characters: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    characters.nfd().filter(|&c| get_general_category(c) != GeneralCategory::NonspacingMark)
}

/// Calls `part` with the parts of a word: each punctuation character alone, and the text between them.
pub(crate) fn each_part(word: &str, mut part: impl FnMut(&str)) {
    let mut start = 0;
    for (at, c) in word.char_indices() {
        if is_punctuation(c) {
            if start < at {
                part(&word[start..at]);
            }
            start = at + c.len_utf8();
            part(&word[at..start]);
        }
    }
    if start < word.len() {
        part(&word[start..]);
    }
}

/// Splits text into the words that WordPiece receives, without a vocabulary; used for training a vocabulary.
pub fn basic_tokens(line: &str, settings: TokenizerSettings, mut token: impl FnMut(&str)) {
    let split_ideographs = settings.tokenize_chinese_chars;
    each_word(line, split_ideographs, |word| each_part(&normal(word.text, settings), &mut token));
}

/// The settings of the reference's `BasicTokenizer`, with the three that `transformers` adds.
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

/// Converts the reference's `do_lower_case` to settings: it also strips accents.
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

    /// Returns the settings of `tokenizer_config.json` (`self`), completed by the settings of `tokenizer.json`
    /// (`other`).
    ///
    /// # Errors
    /// Fails when the two files give a setting with different values; the error names the first such setting.
    pub fn agreed(self, other: Self) -> Result<Self, Error> {
        // If `strip_accents` is not given, it has the value of `do_lower_case`.
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

/// Returns the result of Python's `str.isspace`; Rust's `char::is_whitespace` lacks U+001C to U+001F.
pub fn is_python_space(c: char) -> bool {
    matches!(c, '\u{1c}'..='\u{1f}') || c.is_whitespace()
}

/// Returns the result of Python's `str.isalnum`: letters and numbers of all kinds.
pub fn is_python_alphanumeric(c: char) -> bool {
    use GeneralCategory as G;
    matches!(
        get_general_category(c),
        G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::ModifierLetter
            | G::OtherLetter
            | G::DecimalNumber
            | G::LetterNumber
            | G::OtherNumber
    )
}

/// Returns the result of Python's `str.strip()`.
pub fn python_strip(text: &str) -> &str {
    text.trim_matches(is_python_space)
}
