//! Renders instances as readable text, for a terminal and for an HTML page.
//!
//! Masked tokens are marked. In a terminal, `[MASK:word]` is masked, `[KEPT:word]` is left unchanged, and
//! `[word->other]` is replaced by a random token. On a page, the background colour shows the difference.

use std::fmt;

use bert_tokenization::Vocabulary;
use maud::{Markup, Render, html};

use crate::config::{Layout, Masking, Nsp};
use crate::dataset::DataSet;
use crate::dataset::report::{DataReport, fraction};
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

impl DataReport {
    /// Returns names, figures and remarks; names of subordinate figures are indented by two spaces. `count` formats
    /// numbers.
    pub fn figures(&self, count: fn(u64) -> String) -> Vec<(&'static str, String, String)> {
        let percent = |value: f64| format!("{:.2} %", 100.0 * value);
        let mut figures = Vec::new();
        let mut add = |name, figure, note: &str| figures.push((name, figure, note.to_owned()));
        let empty = format!("{} more without text were omitted", count(self.empty_documents));
        add("documents", count(self.documents), if self.empty_documents > 0 { &empty } else { "" });
        add("  with one sentence", count(self.one_sentence_documents), "");
        if self.redirects + self.other_pages > 0 {
            add("  redirects left out", count(self.redirects), "of the Wikipedia dump");
            add("  other pages left out", count(self.other_pages), "talk, templates, categories, files");
        }
        add("sentences", count(self.sentences), "");
        add("tokens", count(self.tokens), "");
        add("  [UNK]", percent(self.unknown_fraction()), "");
        add("  omitted per pass", percent(self.omitted_fraction), "truncated, or without a pair");
        let sample = format!("of a sample of {} tokens", count(self.sampled_tokens));
        let remark = if self.is_sampled() { sample.as_str() } else { "" };
        add("  omitted in all passes", percent(self.uncovered_fraction()), remark);
        add("lines not UTF-8", count(self.invalid_utf8_lines), "");
        if self.null_rows > 0 {
            add("rows that are null", count(self.null_rows), "");
        }
        if self.cut_sentences > 0 {
            add("sentences cut into pieces", count(self.cut_sentences), "longer than an instance");
        }
        let pass_remark = match self.layout {
            Layout::Instances => "",
            Layout::Documents => "in one pass; the loader generates new ones in every epoch",
        };
        add("instances", count(self.instances), pass_remark);
        match self.nsp {
            Nsp::On => add("  random next sentence", percent(self.random_next_fraction()), ""),
            Nsp::Sop => add("  swapped sentences", percent(self.random_next_fraction()), "50 % by rule"),
            Nsp::Off => {}
        }
        if self.masking == Masking::Dynamic && self.layout == Layout::Instances {
            add("  masked tokens", "none".to_owned(), "the loader draws new masks in every epoch");
        } else {
            let masked_share = |count| percent(fraction(count, self.masked_tokens));
            add("  masked tokens", percent(self.masked_fraction()), "of all tokens");
            add("    replaced by [MASK]", masked_share(self.replaced_by_mask), "80 % by rule");
            add("    unchanged", masked_share(self.left_unchanged), "10 % by rule");
            add("    another token", masked_share(self.replaced_by_random), "10 % by rule");
        }
        add("  padding if padded", percent(self.padding_fraction()), &format!("to {}", self.max_seq_length));
        figures
    }
}

impl fmt::Display for DataReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &str, note: &str| {
            let gap = if note.is_empty() { "" } else { "  " };
            writeln!(f, "{name:<28}{value:>14}{gap}{note}")
        };
        for (name, value, note) in self.figures(|count| count.to_string()) {
            line(name, &value, &note)?;
        }
        let max = self.length_histogram.iter().map(|range| range.instances).max().unwrap_or(0).max(1);
        for range in &self.length_histogram {
            let bar = "#".repeat((40.0 * range.instances as f64 / max as f64).ceil() as usize);
            line(&format!("  length {} to {}", range.from, range.to), &range.instances.to_string(), &bar)?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}
