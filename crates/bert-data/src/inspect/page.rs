//! Makes an HTML page about a data set.
//!
//! The page shows instances with coloured masks, histograms of lengths and labels, the most frequent tokens, `[UNK]` in
//! its surroundings, and how many instances occur more than once. It loads nothing from outside, and all text in it is
//! escaped.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::config::{Layout, Masking, Nsp};
use crate::dataset::DataSet;
use crate::dataset::manifest::Manifest;
use crate::dataset::render::label_name;
use crate::dataset::report::word;
use crate::dataset::stored_rows::StoredRows;
use crate::error::Result;
use crate::html::{document, escape, grouped};
use crate::shard::row::Row;
use crate::tokenization::vocabulary::Vocabulary;

/// How many rows are counted at most; the first ones, and the page says so.
const COUNTED_ROWS: u64 = 1_000_000;
const FREQUENT: usize = 60;
const UNKNOWN_EXAMPLES: usize = 20;
/// Tokens on either side of an `[UNK]` that are shown.
const AROUND: usize = 8;

/// What is marked how; the rest is every page's.
const STYLE: &str = "
:root { --mask: #ffd9a8; --kept: #cdeccd; --random: #f6c9d4; }
@media (prefers-color-scheme: dark) { :root { --mask: #7a4b12; --kept: #22532a; --random: #6d2338; } }
.bar { display: inline-block; height: .8em; background: var(--a); width: calc(var(--share) * min(24rem, 28vw)); }
.bars td { white-space: nowrap; vertical-align: middle; }
.columns { columns: 16rem; }
.m, .k, .r { border-radius: 3px; padding: 0 .15em; color: var(--ink); }
.m { background: var(--mask); } .k { background: var(--kept); } .r { background: var(--random); }
.warning { border-left: 4px solid var(--warn); padding: .2rem 0 .2rem .8rem; }
";

/// The page of a data folder with its first `instances` instances.
///
/// # Errors
/// As [`crate::inspect()`].
pub fn page(folder: &Path, instances: usize) -> Result<String> {
    let data = &DataSet::open(folder)?;
    let (manifest, vocabulary) = (data.manifest(), data.vocabulary());
    let seen = Seen::read(data, instances)?;
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(body, "<h2>What is in it</h2>\n{}", report_table(manifest, &seen));
    let _ = writeln!(body, "<h2>Lengths in tokens</h2>\n{}", lengths(manifest));
    let _ = writeln!(body, "<h2>Labels</h2>\n{}", labels(manifest));
    let _ = writeln!(body, "<h2>Instances</h2>\n{}{}", legend(manifest), seen.instances);
    let _ = writeln!(body, "<h2>Most frequent tokens</h2>\n{}", seen.frequent(vocabulary));
    let _ = writeln!(body, "<h2>[UNK]</h2>\n{}", seen.unknown());
    Ok(document(&format!("Pre-training data: {}", folder.display()), STYLE, &body))
}

/// What the rows show.
struct Seen {
    rows: u64,
    tokens: u64,
    counts: Vec<u64>,
    /// Rows whose tokens before masking, segments included, were there in an earlier row.
    same_text: u64,
    /// Rows that are the same as an earlier one in every column.
    same_rows: u64,
    unknown_total: u64,
    unknown_examples: Vec<String>,
    instances: String,
}

impl Seen {
    fn read(data: &DataSet, instances: usize) -> Result<Self> {
        let (manifest, vocabulary) = (data.manifest(), data.vocabulary());
        let mut seen = Self {
            rows: 0,
            tokens: 0,
            counts: vec![0; vocabulary.len()],
            same_text: 0,
            same_rows: 0,
            unknown_total: 0,
            unknown_examples: Vec::new(),
            instances: String::new(),
        };
        let mut rows = StoredRows::new(data);
        let (mut texts, mut rows_before) = (HashSet::new(), HashSet::new());
        let mut ids = Vec::new();
        while seen.rows < rows.len().min(COUNTED_ROWS) {
            let row = rows.stored(seen.rows)?;
            original(row, &mut ids);
            seen.same_text += u64::from(!texts.insert(digest(&ids, row, false)));
            seen.same_rows += u64::from(!rows_before.insert(digest(row.input_ids, row, true)));
            seen.count(&ids, vocabulary);
            if seen.rows < instances as u64 {
                let row = rows.row(seen.rows)?;
                seen.instances += &show(row, seen.rows, vocabulary, manifest.config.nsp);
            }
            seen.rows += 1;
        }
        Ok(seen)
    }

    fn count(&mut self, ids: &[i32], vocabulary: &Vocabulary) {
        self.tokens += ids.len() as u64;
        for (at, &id) in ids.iter().enumerate() {
            self.counts[id as usize] += 1;
            if id == vocabulary.unk_id() as i32 {
                self.unknown_total += 1;
                if self.unknown_examples.len() < UNKNOWN_EXAMPLES {
                    let around = at.saturating_sub(AROUND)..ids.len().min(at + AROUND + 1);
                    let words: Vec<&str> = ids[around].iter().map(|&id| word(vocabulary, id)).collect();
                    self.unknown_examples.push(words.join(" "));
                }
            }
        }
    }

    /// A warning when too much is there twice. Of stored documents one pass is looked at, which says nothing of passes.
    fn repetition(&self, manifest: &Manifest) -> Option<String> {
        if manifest.config.layout == Layout::Documents {
            return None;
        }
        let share = |count: u64| 100.0 * count as f64 / self.rows.max(1) as f64;
        let (text, rows) = (share(self.same_text), share(self.same_rows));
        if manifest.config.masking == Masking::Static && rows > 1.0 {
            return Some(format!(
                "{rows:.1} % of the instances are the same as an earlier one in every column. A smaller --dupe-factor, \
                 --masking dynamic, or a text without repeated documents avoids it."
            ));
        }
        (text > 50.0).then(|| {
            format!(
                "{text:.1} % of the instances have the text of an earlier one. More passes over so little or so \
                 repetitive text teach little: more text, or a smaller --dupe-factor with --masking dynamic."
            )
        })
    }

    fn frequent(&self, vocabulary: &Vocabulary) -> String {
        let mut order: Vec<usize> = (0..self.counts.len()).filter(|&id| self.counts[id] > 0).collect();
        order.sort_by_key(|&id| (std::cmp::Reverse(self.counts[id]), id));
        let mut out = format!(
            "<p class=\"note\">{} of the {} tokens of the vocabulary occur; counted before masking.</p>\n<div class=\"columns\"><table>\n",
            grouped(order.len() as u64),
            grouped(self.counts.len() as u64)
        );
        for &id in order.iter().take(FREQUENT) {
            let share = 100.0 * self.counts[id] as f64 / self.tokens.max(1) as f64;
            let token = escape(vocabulary.token(id as u32));
            let _ = writeln!(
                out,
                "<tr><td>{token}</td><td class=\"n\">{}</td><td class=\"n\">{share:.2} %</td></tr>",
                grouped(self.counts[id])
            );
        }
        out + "</table></div>"
    }

    fn unknown(&self) -> String {
        let mut out = format!(
            "<p class=\"note\">{} of {} tokens. Which word it was is not stored; these are its surroundings.</p>\n<ul>\n",
            grouped(self.unknown_total),
            grouped(self.tokens)
        );
        // Several in one stretch of text would be shown again and again.
        let mut shown = HashSet::new();
        for example in self.unknown_examples.iter().filter(|example| shown.insert(*example)) {
            let text = escape(example).replace("[UNK]", "<b class=\"r\">[UNK]</b>");
            let _ = writeln!(out, "<li>{text}</li>");
        }
        out + "</ul>"
    }
}

/// The tokens of a row before masking.
fn original(row: Row<'_>, ids: &mut Vec<i32>) {
    ids.clear();
    ids.extend_from_slice(row.input_ids);
    for (&position, &id) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
        ids[position as usize] = id;
    }
}

/// 64 bits of the digest of some ids, where the second segment begins, the label, and perhaps the masks.
fn digest(ids: &[i32], row: Row<'_>, with_masks: bool) -> u64 {
    let mut hasher = blake3::Hasher::new();
    let first = row.segment_ids.partition_point(|&segment| segment == 0) as u64;
    hasher.update(&first.to_le_bytes()).update(&[row.next_sentence_label as u8]);
    let masks = if with_masks { [row.masked_lm_positions, row.masked_lm_ids] } else { [&[][..]; 2] };
    for numbers in [ids, masks[0], masks[1]] {
        hasher.update(&(numbers.len() as u64).to_le_bytes());
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    hasher.finalize().as_bytes().first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}

fn row(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "<tr><td>{}</td><td class=\"n\">{}</td></tr>", escape(name), escape(value));
}

fn report_table(manifest: &Manifest, seen: &Seen) -> String {
    let report = &manifest.report;
    let mut out = String::from("<table>\n");
    let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
    row(&mut out, "made by", &manifest.program);
    row(&mut out, "documents", &grouped(report.documents));
    row(&mut out, "sentences", &grouped(report.sentences));
    row(&mut out, "tokens of the text", &grouped(report.tokens));
    row(&mut out, "of them in no instance", &format!("{:.2} %", 100.0 * report.never_shown_share()));
    row(&mut out, "instances", &grouped(report.instances));
    row(&mut out, "shards", &format!("{} ({} bytes)", manifest.shards.len(), grouped(bytes)));
    let masks = match (manifest.config.layout, manifest.config.masking) {
        (Layout::Instances, Masking::Dynamic) => "made by the loader".to_owned(),
        _ => format!("{:.2} %", 100.0 * report.masked_share()),
    };
    row(&mut out, "masked tokens", &masks);
    row(&mut out, "padding if padded", &format!("{:.2} %", 100.0 * report.padding_share()));
    let of_rows = |count| format!("{} of {}", grouped(count), grouped(seen.rows));
    row(&mut out, "instances with the text of an earlier one", &of_rows(seen.same_text));
    row(&mut out, "the same in every column", &of_rows(seen.same_rows));
    out.push_str("</table>\n");
    if seen.rows < report.instances {
        let _ =
            writeln!(out, "<p class=\"note\">Counted over the first {} instances.</p>", grouped(seen.rows));
    }
    for warning in report.warnings.iter().chain(&seen.repetition(manifest)) {
        let _ = writeln!(out, "<p class=\"warning\"><b>Warning.</b> {}</p>", escape(warning));
    }
    out
}

/// Rows of a name, a count and a bar.
fn bars(rows: &[(String, u64)]) -> String {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let all = rows.iter().map(|(_, count)| *count).sum::<u64>().max(1);
    let mut out = String::from(
        "<table class=\"bars\">\n<tr><th></th><th class=\"n\">instances</th><th class=\"n\">share</th><th></th></tr>\n",
    );
    for (name, count) in rows {
        let of_most = *count as f64 / most as f64;
        let share = 100.0 * *count as f64 / all as f64;
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{share:.1} %</td>\
             <td><span class=\"bar\" style=\"--share: {of_most:.3}\"></span></td></tr>",
            escape(name),
            grouped(*count)
        );
    }
    out + "</table>"
}

fn lengths(manifest: &Manifest) -> String {
    let histogram = &manifest.report.length_histogram;
    let rows: Vec<_> = histogram.iter().map(|r| (format!("{} to {}", r.from, r.to), r.instances)).collect();
    bars(&rows)
}

fn labels(manifest: &Manifest) -> String {
    let (report, nsp) = (&manifest.report, manifest.config.nsp);
    let zero = report.instances - report.random_next.min(report.instances);
    let mut counts: HashMap<&str, u64> = HashMap::from([(label_name(nsp, 0), zero)]);
    *counts.entry(label_name(nsp, 1)).or_default() += report.random_next;
    let mut rows: Vec<_> = counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    rows.sort();
    bars(&rows)
}

fn legend(manifest: &Manifest) -> String {
    let epoch = match (manifest.config.layout, manifest.config.masking) {
        (Layout::Documents, _) => {
            " The documents are stored, and the loader makes other instances in every epoch; these, and all counts, are \
             those of one pass."
        }
        (_, Masking::Static) => "",
        (_, Masking::Dynamic) => " The loader makes other masks in every epoch; these are those of epoch 0.",
    };
    format!(
        "<p class=\"note\"><span class=\"m\">hidden</span> is shown to the model as [MASK], <span class=\"k\">kept</span> \
         as it is, <span class=\"r\">replaced \u{2192} other</span> as another token.{epoch}</p>\n"
    )
}

fn show(row: Row<'_>, number: u64, vocabulary: &Vocabulary, nsp: Nsp) -> String {
    let label = label_name(nsp, row.next_sentence_label);
    let (tokens, masks) = (row.input_ids.len(), row.masked_lm_ids.len());
    let mut out =
        format!("<p><b>#{number}</b> <span class=\"s\">{label}, {tokens} tokens, {masks} masked</span>");
    let mut masks = row.masked_lm_positions.iter().zip(row.masked_lm_ids).peekable();
    let mut segment = -1;
    for (position, (&id, &segment_id)) in row.input_ids.iter().zip(row.segment_ids).enumerate() {
        if segment_id != segment {
            segment = segment_id;
            out.push_str(if segment == 0 { "<br><b>A</b>" } else { "<br><b>B</b>" });
        }
        let shown = escape(word(vocabulary, id));
        let _ = match masks.next_if(|(masked, _)| **masked == position as i32) {
            None if ["[CLS]", "[SEP]"].contains(&shown.as_str()) => {
                write!(out, " <span class=\"s\">{shown}</span>")
            }
            None => write!(out, " {shown}"),
            Some((_, &original)) => {
                let original_word = escape(word(vocabulary, original));
                if id == original {
                    write!(out, " <span class=\"k\">{shown}</span>")
                } else if id == vocabulary.mask_id() as i32 {
                    write!(out, " <span class=\"m\">{original_word}</span>")
                } else {
                    write!(out, " <span class=\"r\">{original_word} \u{2192} {shown}</span>")
                }
            }
        };
    }
    out + "</p>\n"
}
