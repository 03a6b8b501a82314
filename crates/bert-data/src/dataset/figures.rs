//! Prints a [`DataReport`]: the figures with their names and remarks, the histogram of lengths, and the warnings.

use std::fmt;

use crate::config::{Layout, Masking, Nsp};
use crate::dataset::report::{DataReport, fraction};

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
