//! Renders instances as readable text, for a terminal and for an HTML page.
//!
//! Masked tokens are marked. In a terminal, `[MASK:word]` is masked, `[KEPT:word]` is left unchanged, and
//! `[word->other]` is replaced by a random token. On a page, the background colour shows the difference.

use std::fmt;

use bert_tokenization::Vocabulary;
use maud::{Markup, Render, html};

use crate::config::Nsp;
use crate::dataset::DataSet;
use crate::dataset::stored_rows::StoredRows;
use crate::error::Result;
use crate::shard::row::Row;

/// Returns the meaning of a label.
pub(crate) fn label_name(nsp: Nsp, label: i8) -> &'static str {
    match (nsp, label) {
        (Nsp::On, 1) => "random next",
        (Nsp::On, _) => "actual next",
        (Nsp::Sop, 1) => "swapped",
        (Nsp::Sop, _) => "in order",
        (Nsp::Off, _) => "one segment",
    }
}

/// A token: the CSS class of its mark on a page, its text on a page, and its text in a terminal.
type Token = (Option<&'static str>, String, String);

/// One instance as text: its label, then segment A and segment B, each on a separate line.
pub(crate) struct InstanceText {
    head: String,
    segments: [Vec<Token>; 2],
}

impl InstanceText {
    /// Renders a row.
    pub(crate) fn new(row: Row<'_>, vocabulary: &Vocabulary, nsp: Nsp) -> Self {
        let label = label_name(nsp, row.next_sentence_label);
        let tokens = row.input_ids.len();
        let masks = row.masked_lm_ids.len();
        let mut segments = [Vec::new(), Vec::new()];
        let mut masked = row.masked_lm_positions.iter().zip(row.masked_lm_ids).peekable();
        for (position, (&id, &segment)) in row.input_ids.iter().zip(row.segment_ids).enumerate() {
            let token = vocabulary.token(id);
            let original = masked.next_if(|(masked, _)| **masked == position as u32).map(|(_, id)| *id);
            let was = original.map_or(token, |original| vocabulary.token(original));
            let (class, on_page, in_terminal) = match original {
                None if ["[CLS]", "[SEP]"].contains(&token) => (Some("s"), token.into(), token.into()),
                None => (None, token.into(), token.into()),
                Some(original) if id == original => (Some("k"), was.into(), format!("[KEPT:{was}]")),
                Some(_) if id == vocabulary.mask_id() => (Some("m"), was.into(), format!("[MASK:{was}]")),
                Some(_) => (Some("r"), format!("{was} \u{2192} {token}"), format!("[{was}->{token}]")),
            };
            segments[usize::from(segment != 0)].push((class, on_page, in_terminal));
        }
        Self { head: format!("{label}, {tokens} tokens, {masks} masked"), segments }
    }

    fn segments(&self) -> impl Iterator<Item = (&'static str, &Vec<Token>)> {
        ["A", "B"].into_iter().zip(&self.segments).filter(|(_, tokens)| !tokens.is_empty())
    }
}

impl fmt::Display for InstanceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        for (name, tokens) in self.segments() {
            write!(f, "\n  {name}:")?;
            tokens.iter().try_for_each(|(.., words)| write!(f, " {words}"))?;
        }
        Ok(())
    }
}

impl Render for InstanceText {
    fn render(&self) -> Markup {
        html! {
            span.s { (self.head) }
            @for (name, tokens) in self.segments() {
                br;
                b { (name) }
                @for (class, words, _) in tokens {
                    " "
                    @if let Some(class) = class { span class=(class) { (words) } } @else { (words) }
                }
            }
        }
    }
}

/// Renders the first `n` rows of a data set as text; generates loader rows and masks for epoch 0.
pub(crate) fn render_first(data: &DataSet, n: u64) -> Result<Vec<String>> {
    let mut rows = StoredRows::new(data);
    let manifest = data.manifest();
    let render =
        |index| Ok(InstanceText::new(rows.row(index)?, data.vocabulary(), manifest.config.nsp).to_string());
    (0..n.min(manifest.instances)).map(render).collect()
}
