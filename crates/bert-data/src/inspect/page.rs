//! Builds an HTML page about a data set.
//!
//! The page shows instances with coloured masks, histograms of lengths and labels, the most frequent tokens, `[UNK]` in
//! context, and the number of duplicate instances. It loads no external resources, and all text in it is escaped.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use bert_pages::{Cell, Head, bars, figures, grouped, table, verdict};
use bert_tokenization::{TokenId, Vocabulary};
use maud::{Markup, Render, html};

use crate::config::{Layout, Masking, Nsp};
use crate::dataset::DataSet;
use crate::dataset::manifest::Manifest;
use crate::dataset::render::{InstanceText, label_name};
use crate::dataset::stored_rows::StoredRows;
use crate::error::Result;
use crate::inspect::frequent;

/// Maximum number of rows that are counted, from the beginning; the page mentions the limit.
const COUNTED_ROWS: u64 = 1_000_000;
const MAX_FREQUENT_TOKENS: usize = 60;
const MAX_UNKNOWN_EXAMPLES: usize = 20;
/// Number of tokens that are shown on either side of an `[UNK]`.
const CONTEXT: usize = 8;

/// Returns the page of a data folder with its first `instances` instances.
///
/// # Errors
/// Fails as [`crate::inspect()`] does.
pub fn page(folder: &Path, instances: usize) -> Result<String> {
    let data = &DataSet::open(folder)?;
    let manifest = data.manifest();
    let stats = RowStats::read(data, instances)?;
    let warnings: Vec<String> =
        manifest.report.warnings.iter().cloned().chain(stats.duplicate_warning(manifest)).collect();
    let body = html! {
        (result(&warnings, manifest))
        @for warning in &warnings { p.warning { (warning) } }
        h2 { "Instances" }
        (legend(manifest))
        @for (number, instance) in stats.instances.iter().enumerate() {
            p { b { "#" (number) } " " (instance) }
        }
        h2 { "Contents" }
        (report_table(manifest, &stats))
        h2 { "Lengths in tokens" }
        (lengths(manifest))
        h2 { "Labels" }
        (labels(manifest))
        h2 { "Most frequent tokens" }
        (stats.frequent(data.vocabulary()))
        h2 { "[UNK]" }
        (stats.unknown())
    };
    let title = format!("Pre-training data: {}", folder.display());
    Ok(bert_pages::page(&Head { title: &title, about: &about(manifest) }, &body))
}

/// Returns the facts in the head of the page: input files, language and program.
fn about(manifest: &Manifest) -> Vec<String> {
    let names = manifest.inputs.iter().take(3).map(|input| input.path.as_str());
    let more = manifest.inputs.len().saturating_sub(3);
    let files = names.collect::<Vec<_>>().join(", ");
    let language = manifest.config.language.as_ref();
    vec![
        if more > 0 { format!("{files} and {more} more files") } else { files },
        language.map_or_else(String::new, |language| format!("language {language}")),
        format!("built by {}", manifest.program),
    ]
}

/// Renders the result: whether the data are fit for training.
fn result(warnings: &[String], manifest: &Manifest) -> Markup {
    let report = &manifest.report;
    let size = format!(
        "{} instances from {} sentences in {} documents; {:.2} % of the tokens are [UNK].",
        grouped(report.instances),
        grouped(report.sentences),
        grouped(report.documents),
        100.0 * report.unknown_fraction()
    );
    match warnings.len() {
        0 => verdict("good", "Good to train on: no check found a fault.", &size),
        1 => verdict("warning", "One check found a fault; it is named below with its remedy.", &size),
        more => verdict(
            "warning",
            &format!("{more} checks found faults; they are named below with their remedies."),
            &size,
        ),
    }
}

/// Statistics of the rows.
#[derive(Default)]
struct RowStats {
    rows: u64,
    tokens: u64,
    counts: Vec<u64>,
    /// Number of rows whose tokens before masking, segments included, occurred in an earlier row.
    duplicate_texts: u64,
    /// Number of rows that equal an earlier row in every column.
    duplicate_rows: u64,
    unknown_total: u64,
    unknown_examples: Vec<String>,
    instances: Vec<Markup>,
}

impl RowStats {
    fn read(data: &DataSet, instances: usize) -> Result<Self> {
        let manifest = data.manifest();
        let vocabulary = data.vocabulary();
        let mut stats = Self { counts: vec![0; vocabulary.len()], ..Self::default() };
        let mut rows = StoredRows::new(data);
        // Only a 64-bit hash of each row is stored, to limit memory.
        let hasher = RandomState::new();
        let mut texts = HashSet::new();
        let mut rows_before = HashSet::new();
        let mut ids = Vec::new();
        while stats.rows < rows.len().min(COUNTED_ROWS) {
            let row = rows.stored(stats.rows)?;
            row.original(&mut ids);
            let pair = (row.segment_ids, row.next_sentence_label);
            let masks = (row.masked_lm_positions, row.masked_lm_ids);
            stats.duplicate_texts += u64::from(!texts.insert(hasher.hash_one((&ids, pair))));
            stats.duplicate_rows +=
                u64::from(!rows_before.insert(hasher.hash_one((row.input_ids, pair, masks))));
            stats.count(&ids, vocabulary);
            if stats.rows < instances as u64 {
                let row = rows.row(stats.rows)?;
                stats.instances.push(InstanceText::new(row, vocabulary, manifest.config.nsp).render());
            }
            stats.rows += 1;
        }
        Ok(stats)
    }

    fn count(&mut self, ids: &[TokenId], vocabulary: &Vocabulary) {
        self.tokens += ids.len() as u64;
        for (at, &id) in ids.iter().enumerate() {
            self.counts[id as usize] += 1;
            if id == vocabulary.unk_id() {
                self.unknown_total += 1;
                if self.unknown_examples.len() < MAX_UNKNOWN_EXAMPLES {
                    let around = at.saturating_sub(CONTEXT)..ids.len().min(at + CONTEXT + 1);
                    let words: Vec<&str> = ids[around].iter().map(|&id| vocabulary.token(id)).collect();
                    self.unknown_examples.push(words.join(" "));
                }
            }
        }
    }

    /// Returns a warning if too many rows are duplicates; `None` if documents are stored, because only one pass is
    /// read.
    fn duplicate_warning(&self, manifest: &Manifest) -> Option<String> {
        if manifest.config.layout == Layout::Documents {
            return None;
        }
        let share = |count: u64| 100.0 * count as f64 / self.rows.max(1) as f64;
        let text = share(self.duplicate_texts);
        let rows = share(self.duplicate_rows);
        if manifest.config.masking == Masking::Static && rows > 1.0 {
            return Some(format!(
                "{rows:.1} % of the instances equal an earlier one in every column. A smaller --dupe-factor, \
                 --masking dynamic, or text without repeated documents avoids this."
            ));
        }
        (text > 50.0).then(|| {
            format!(
                "{text:.1} % of the instances have the text of an earlier one. More passes over short or repetitive \
                 text add little: use more text, or a smaller --dupe-factor with --masking dynamic."
            )
        })
    }

    fn frequent(&self, vocabulary: &Vocabulary) -> Markup {
        let occurring = self.counts.iter().filter(|&&count| count > 0).count() as u64;
        let row = |(token, count): (String, u64)| {
            let share = format!("{:.2} %", 100.0 * count as f64 / self.tokens.max(1) as f64);
            figures(&token, [grouped(count), share])
        };
        html! {
            p.note {
                (grouped(occurring)) " of the " (grouped(vocabulary.len() as u64))
                " tokens of the vocabulary occur; counted before masking."
            }
            div.columns { (table(&[], frequent(&self.counts, vocabulary, MAX_FREQUENT_TOKENS).into_iter().map(row))) }
        }
    }

    fn unknown(&self) -> Markup {
        // Several `[UNK]` in the same context would repeat the same example.
        let mut printed = HashSet::new();
        html! {
            p.note {
                (grouped(self.unknown_total)) " of " (grouped(self.tokens))
                " tokens. The original words are not stored; these are their contexts."
            }
            ul {
                @for example in self.unknown_examples.iter().filter(|example| printed.insert(*example)) {
                    li {
                        @for (at, text) in example.split("[UNK]").enumerate() {
                            @if at > 0 { b.r { "[UNK]" } }
                            (text)
                        }
                    }
                }
            }
        }
    }
}

fn report_table(manifest: &Manifest, stats: &RowStats) -> Markup {
    let report = &manifest.report;
    let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
    let mut rows = vec![figures("shards", [format!("{} ({} bytes)", manifest.shards.len(), grouped(bytes))])];
    for (name, figure, note) in report.figures(grouped) {
        rows.push(vec![Cell::Text(name.replace("  ", "\u{2003}")), Cell::Figure(figure), Cell::Text(note)]);
    }
    let share_of_rows = |count| [format!("{} of {}", grouped(count), grouped(stats.rows))];
    rows.push(figures("instances with the text of an earlier one", share_of_rows(stats.duplicate_texts)));
    rows.push(figures("instances equal to an earlier one", share_of_rows(stats.duplicate_rows)));
    html! {
        (table(&[], rows))
        @if stats.rows < report.instances {
            p.note { "Counted over the first " (grouped(stats.rows)) " instances." }
        }
    }
}

fn lengths(manifest: &Manifest) -> Markup {
    let ranges = manifest.report.length_histogram.iter();
    bars("instances", &ranges.map(|r| (format!("{} to {}", r.from, r.to), r.instances)).collect::<Vec<_>>())
}

fn labels(manifest: &Manifest) -> Markup {
    let report = &manifest.report;
    let nsp = manifest.config.nsp;
    let zero = report.instances - report.random_next.min(report.instances);
    let mut counts = vec![(label_name(nsp, 0).to_owned(), zero)];
    if nsp != Nsp::Off {
        counts.push((label_name(nsp, 1).to_owned(), report.random_next));
    }
    bars("instances", &counts)
}

fn legend(manifest: &Manifest) -> Markup {
    let epoch = match (manifest.config.layout, manifest.config.masking) {
        (Layout::Documents, _) => {
            " The documents are stored, and the loader generates new instances in every epoch; these, and all counts, \
             refer to one pass."
        }
        (_, Masking::Static) => "",
        (_, Masking::Dynamic) => {
            " The loader generates new masks in every epoch; these are the masks of epoch 0."
        }
    };
    html! {
        p.note {
            span.m { "hidden" } " is shown to the model as [MASK], " span.k { "kept" } " as it is, "
            span.r { "replaced \u{2192} other" } " as another token." (epoch)
        }
    }
}
