//! The tokenizers of a translation model: source, target and BERT. A checkpoint contains their vocabularies.

use std::path::Path;

use bert_data::{TokenizerSettings, Vocabulary};
use bert_inference::ModelTokenizer;
use bert_storage::Error;
use serde::{Deserialize, Serialize};
use tokenizers::Decoder;
use tokenizers::decoders::wordpiece::WordPiece;

use crate::model::beam_search::SpecialTokens;

/// The tokenizers of a translation model.
pub(crate) struct Tokenizers {
    /// Tokenizer of the source sentences.
    pub source: ModelTokenizer,
    /// Tokenizer of the target sentences.
    pub target: ModelTokenizer,
    /// BERT's tokenizer of the source sentences.
    pub bert: Option<ModelTokenizer>,
}

/// The settings of all tokenizers, for `translation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSettings {
    source: TokenizerSettings,
    target: TokenizerSettings,
    bert: Option<TokenizerSettings>,
}

const SOURCE: &str = "source_vocab.txt";
const TARGET: &str = "target_vocab.txt";
const BERT: &str = "bert_vocab.txt";

impl Tokenizers {
    pub(crate) fn settings(&self) -> SavedSettings {
        SavedSettings {
            source: self.source.settings,
            target: self.target.settings,
            bert: self.bert.as_ref().map(|bert| bert.settings),
        }
    }

    /// Returns the names and bytes of the vocabularies.
    pub(crate) fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let named = [(SOURCE, Some(&self.source)), (TARGET, Some(&self.target)), (BERT, self.bert.as_ref())];
        let file = |(name, tokenizer): (&'static str, Option<&ModelTokenizer>)| {
            Some((name, tokenizer?.vocabulary.bytes().to_vec()))
        };
        named.into_iter().filter_map(file).collect()
    }

    pub(crate) fn open(folder: &Path, settings: &SavedSettings) -> Result<Self, Error> {
        let open = |name, settings| {
            let path = folder.join(name);
            Ok::<_, Error>(ModelTokenizer::new(Vocabulary::read(&path)?, settings, path))
        };
        Ok(Self {
            source: open(SOURCE, settings.source)?,
            target: open(TARGET, settings.target)?,
            bert: settings.bert.map(|settings| open(BERT, settings)).transpose()?,
        })
    }

    /// Returns the special tokens of the target vocabulary.
    pub(crate) fn special(&self) -> SpecialTokens {
        let vocabulary = &self.target.vocabulary;
        SpecialTokens {
            start: vocabulary.cls_id(),
            end: vocabulary.sep_id(),
            pad: vocabulary.pad_id(),
            mask: vocabulary.mask_id(),
        }
    }

    /// Returns the text of target tokens. Continuations (`##`) are joined to their word, common punctuation to the word
    /// before it, and Chinese and Japanese characters to each other.
    pub(crate) fn decode(&self, ids: &[u32]) -> String {
        let tokens = ids.iter().map(|&id| self.target.vocabulary.token(id).to_string()).collect();
        let text =
            WordPiece::new("##".to_string(), true).decode(tokens).expect("joining strings cannot fail");
        join_wide(&text)
    }
}

/// Removes the spaces that a tokenizer puts between Chinese characters, kana and their punctuation. A space between two
/// kana is kept, because BERT's tokenizer does not separate kana.
fn join_wide(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let is_added = |at: usize| {
        let around =
            at.checked_sub(1).and_then(|before| Some((characters[before], *characters.get(at + 1)?)));
        characters[at] == ' '
            && around.is_some_and(|(a, b)| is_wide(a) && is_wide(b) && !(is_kana(a) && is_kana(b)))
    };
    (0..characters.len()).filter(|&at| !is_added(at)).map(|at| characters[at]).collect()
}

/// Returns whether a character belongs to a script without spaces between words: a Chinese character, a kana, or their
/// punctuation.
pub fn is_wide(c: char) -> bool {
    is_kana(c)
        || matches!(
            c,
            '\u{3000}'..='\u{303f}'
                | '\u{3400}'..='\u{4dbf}'
                | '\u{4e00}'..='\u{9fff}'
                | '\u{f900}'..='\u{faff}'
                | '\u{ff01}'..='\u{ff65}'
                | '\u{20000}'..='\u{323af}'
        )
}

fn is_kana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}')
}

#[cfg(test)]
mod tests {
    use super::join_wide;

    #[test]
    fn chinese_and_japanese_lose_added_spaces() {
        for (tokens, text) in [
            ("我 们 用 bert 模 型 。", "我们用 bert 模型。"),
            ("友 達 は お 茶 を 飲 む 。", "友達は お茶を飲む。"),
            ("( 見 る ) 、 3 日", "( 見る ) 、 3 日"),
            ("the cat , 3. 5", "the cat , 3. 5"),
            ("", ""),
        ] {
            assert_eq!(join_wide(tokens), text);
        }
    }
}
