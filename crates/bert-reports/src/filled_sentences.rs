//! Sentences of the held-out text in which a run's last weights fill a hidden word.

use bert_data::{DataSet, StoredRows};
use bert_inference::{FilledWord, MaskFiller, ModelOptions, resolve_model_folder};
use maud::{Markup, html};

use crate::run_record::RunRecord;

/// Number of sentences.
const SENTENCES: usize = 3;
/// Number of instances that are searched for sentences.
const SEARCHED: u64 = 100;
/// Lengths of a sentence, in word pieces.
const LENGTHS: std::ops::RangeInclusive<usize> = 6..=24;
/// Number of words shown for a mask.
const WORDS: usize = 3;

/// A sentence with a hidden word.
struct Hidden {
    /// Whether the sentence is at the start of a segment, where it may be cut.
    is_first: bool,
    before: String,
    word: String,
    after: String,
}

/// Renders sentences of the held-out text with the words that the last weights put in the place of a hidden word.
/// Renders nothing if the data or the weights no longer exist.
pub(crate) fn filled_sentences(run: &RunRecord) -> Markup {
    let found = hidden_words(run).zip(open(run));
    let Some((sentences, filler)) = found.filter(|(sentences, _)| !sentences.is_empty()) else {
        return Markup::default();
    };
    html! {
        h2 { "What it predicts" }
        ul.examples { @for sentence in &sentences { (filled(sentence, &filler)) } }
    }
}

fn open(run: &RunRecord) -> Option<MaskFiller> {
    let folder = resolve_model_folder(&run.folder, &mut |_| {}).ok()?;
    MaskFiller::open(&folder, ModelOptions::default()).ok()
}

fn filled(Hidden { before, word, after, .. }: &Hidden, filler: &MaskFiller) -> Markup {
    let masks = filler.fill(format!("{before} [MASK] {after}").as_str(), WORDS).unwrap_or_default();
    let words = masks.first().map_or(&[][..], |mask| &mask.words[..]);
    let Some(FilledWord { word: best, .. }) = words.first() else { return Markup::default() };
    let list: Vec<String> =
        words.iter().map(|filled| format!("{} {:.2}", filled.word, filled.probability)).collect();
    html! {
        li {
            (before) " " span class=(if best == word { "k" } else { "m" }) { (best) } " " (after)
            p.s { (list.join(", ")) "; the text has " b { (word) } }
        }
    }
}

/// Returns the first sentences of the held-out instances in which a word can be hidden, each with a different word.
fn hidden_words(run: &RunRecord) -> Option<Vec<Hidden>> {
    let folder =
        run.config.eval_data.as_deref().or(run.config.eval_parts.first().map(|part| &*part.folder))?;
    let data = DataSet::open(folder).ok()?;
    let vocabulary = data.vocabulary();
    let mut rows = StoredRows::new(&data);
    let mut found: Vec<Hidden> = Vec::new();
    for index in 0..rows.len().min(SEARCHED) {
        let row = rows.row(index).ok()?;
        let mut ids = row.input_ids.to_vec();
        for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            ids[position as usize] = id;
        }
        let tokens: Vec<&str> = ids.iter().map(|&id| vocabulary.token(id)).collect();
        let sentences = tokens.split_inclusive(|token| matches!(*token, "." | "!" | "?" | "\u{3002}"));
        let new =
            { sentences.filter_map(hide) }.find(|one| !found.iter().any(|other| other.word == one.word));
        found.extend(new);
    }
    found.sort_by_key(|one| one.is_first);
    found.truncate(SENTENCES);
    Some(found)
}

/// Returns a sentence without the longest word of one piece in its second half; `None` if there is no such word, or if
/// the sentence is too short, too long or not complete.
fn hide(tokens: &[&str]) -> Option<Hidden> {
    let is_special = |token: &&str| token.starts_with('[') && token.ends_with(']');
    let start = tokens.iter().rposition(is_special).map_or(0, |at| at + 1);
    let tokens = &tokens[start..];
    let is_whole = |at: &usize| {
        let next_is_piece = tokens.get(at + 1).is_some_and(|next| next.starts_with("##"));
        !next_is_piece && tokens[*at].chars().all(char::is_alphabetic)
    };
    let last = tokens.last()?;
    if !LENGTHS.contains(&tokens.len()) || last.chars().any(char::is_alphanumeric) {
        return None;
    }
    let words = (tokens.len() / 2..tokens.len()).filter(is_whole);
    let at = words.max_by_key(|&at| tokens[at].chars().count())?;
    Some(Hidden {
        is_first: start > 0,
        before: joined(&tokens[..at]),
        word: tokens[at].to_string(),
        after: joined(&tokens[at + 1..]),
    })
}

/// Joins word pieces to a text.
fn joined(tokens: &[&str]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token.strip_prefix("##") {
            Some(piece) => text.push_str(piece),
            None => {
                let is_mark = token.chars().all(|c| ".,;:!?)\'".contains(c));
                text.push_str(if text.is_empty() || is_mark { "" } else { " " });
                text.push_str(token);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_marks_join_the_word_before() {
        assert_eq!(joined(&["the", "river", "##bank", ",", "then", "."]), "the riverbank, then.");
    }

    #[test]
    fn a_whole_word_of_the_second_half_is_hidden() {
        let tokens = ["[CLS]", "the", "river", "flows", "into", "the", "mountain", "##s", "lake", "."];
        let hidden = hide(&tokens).unwrap();
        assert_eq!(
            (hidden.before.as_str(), hidden.word.as_str()),
            ("the river flows into the mountains", "lake")
        );
    }
}
