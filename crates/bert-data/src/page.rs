//! One page for the person who looks at a data set.
//!
//! In goes a data folder, out comes an HTML page that loads nothing from outside: instances with their masks coloured,
//! histograms of lengths and labels, the most frequent tokens, `[UNK]` in its surroundings, and how many instances
//! are there more than once. All text in it is escaped. Not for programs: `manifest.json` is for them. The reference
//! logs its first 20 instances.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::config::{Layout, Masking, Nsp};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::preview::label_name;
use crate::report::word;
use crate::shard_rows::Row;
use crate::stored_rows::StoredRows;
use crate::vocabulary::Vocabulary;

/// How many rows are counted at most; the first ones, and the page says so.
const COUNTED_ROWS: u64 = 1_000_000;
const FREQUENT: usize = 60;
const UNKNOWN_EXAMPLES: usize = 20;
/// Tokens on either side of an `[UNK]` that are shown.
const AROUND: usize = 8;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2330; --soft: #6b7686; --line: #d9dee6; --paper: #fff; --a: #1f6feb;
  --mask: #ffd9a8; --kept: #cdeccd; --random: #f6c9d4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf0; --soft: #98a3b3; --line: #353d4a; --paper: #14181f;
  --a: #6aa5ff; --mask: #7a4b12; --kept: #22532a; --random: #6d2338; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; }
td.n { text-align: right; }
p.note { color: var(--soft); max-width: 45rem; }
.bar { display: inline-block; height: .8em; background: var(--a); }
.columns { columns: 3; }
.m, .k, .r { border-radius: 3px; padding: 0 .15em; }
.m { background: var(--mask); } .k { background: var(--kept); } .r { background: var(--random); }
.s { color: var(--soft); }
";

/// Text as HTML text or attribute value.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The page of a data folder with its first `instances` instances.
///
/// # Errors
/// As [`crate::inspect()`].
pub fn page(folder: &Path, instances: usize) -> Result<String> {
    let manifest = Manifest::read(folder)?;
    manifest.verify(folder, false)?;
    let vocabulary = Vocabulary::read(&manifest.vocabulary_path(folder))?;
    let seen = Seen::read(folder, &manifest, &vocabulary, instances)?;
    let title = escape(&format!("Pre-training data: {}", folder.display()));
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(body, "<h2>What is in it</h2>\n{}", report_table(&manifest, &seen));
    let _ = writeln!(body, "<h2>Lengths</h2>\n{}", lengths(&manifest));
    let _ = writeln!(body, "<h2>Labels</h2>\n{}", labels(&manifest));
    let _ = writeln!(body, "<h2>Instances</h2>\n{}{}", legend(&manifest), seen.instances);
    let _ = writeln!(body, "<h2>Most frequent tokens</h2>\n{}", seen.frequent(&vocabulary));
    let _ = writeln!(body, "<h2>[UNK]</h2>\n{}", seen.unknown());
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n{body}</html>\n"
    ))
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
    fn read(folder: &Path, manifest: &Manifest, vocabulary: &Vocabulary, instances: usize) -> Result<Self> {
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
        let mut rows = StoredRows::new(folder, manifest, vocabulary);
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

    fn frequent(&self, vocabulary: &Vocabulary) -> String {
        let mut order: Vec<usize> = (0..self.counts.len()).filter(|&id| self.counts[id] > 0).collect();
        order.sort_by_key(|&id| (std::cmp::Reverse(self.counts[id]), id));
        let mut out = format!(
            "<p class=\"note\">{} of {} tokens of the vocabulary occur, before masking.</p>\n<div class=\"columns\"><table>\n",
            order.len(),
            self.counts.len()
        );
        for &id in order.iter().take(FREQUENT) {
            let share = 100.0 * self.counts[id] as f64 / self.tokens.max(1) as f64;
            let token = escape(vocabulary.token(id as u32));
            let _ = writeln!(
                out,
                "<tr><td>{token}</td><td class=\"n\">{}</td><td class=\"n\">{share:.2} %</td></tr>",
                self.counts[id]
            );
        }
        out + "</table></div>"
    }

    fn unknown(&self) -> String {
        let mut out = format!(
            "<p class=\"note\">{} of {} tokens. Which word it was is not stored; these are its surroundings.</p>\n<ul>\n",
            self.unknown_total, self.tokens
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
    row(&mut out, "documents", &report.documents.to_string());
    row(&mut out, "sentences", &report.sentences.to_string());
    row(&mut out, "tokens of the text", &report.tokens.to_string());
    row(&mut out, "instances", &report.instances.to_string());
    row(&mut out, "shards", &format!("{} of {bytes} bytes together", manifest.shards.len()));
    let masks = match (manifest.config.layout, manifest.config.masking) {
        (Layout::Instances, Masking::Dynamic) => "made by the loader".to_owned(),
        _ => format!("{:.2} %", 100.0 * report.masked_share()),
    };
    row(&mut out, "masked tokens", &masks);
    row(&mut out, "padding if padded", &format!("{:.2} %", 100.0 * report.padding_share()));
    row(
        &mut out,
        "instances with the text of an earlier one",
        &format!("{} of {}", seen.same_text, seen.rows),
    );
    row(&mut out, "the same in every column", &format!("{} of {}", seen.same_rows, seen.rows));
    out.push_str("</table>\n");
    if seen.rows < report.instances {
        let _ = writeln!(out, "<p class=\"note\">Counted over the first {} instances.</p>", seen.rows);
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "<p><b>Warning.</b> {}</p>", escape(warning));
    }
    out
}

/// Rows of a name, a count and a bar.
fn bars(rows: &[(String, u64)]) -> String {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let all = rows.iter().map(|(_, count)| *count).sum::<u64>().max(1);
    let mut out = String::from("<table>\n");
    for (name, count) in rows {
        let width = 24.0 * *count as f64 / most as f64;
        let share = 100.0 * *count as f64 / all as f64;
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{count}</td><td class=\"n\">{share:.1} %</td>\
             <td><span class=\"bar\" style=\"width: {width:.2}rem\"></span></td></tr>",
            escape(name)
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
