//! Writes the data card: `README.md` for people, with the header by which `datasets` finds the shards.
//!
//! The card is written just before the manifest, which does not list it. Nothing reads it back, so it may be edited
//! (licence, source, use). Only `--overwrite` replaces it.

use std::fmt::Write as _;

use crate::config::resolved::ResolvedConfig;
use crate::config::{Columns, Layout, Masking, Nsp, RandomMode, Segmenter};
use crate::dataset::manifest::Manifest;

/// The file name of the data card.
pub(crate) const CARD: &str = "README.md";

/// The data card of a data set.
#[must_use]
pub(crate) fn card(manifest: &Manifest) -> String {
    let (config, report) = (&manifest.config, &manifest.report);
    let mut out = String::from(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: \"train-*.parquet\"\n\
         task_categories:\n- fill-mask\ntags:\n- bert\n- masked-language-modeling\n---\n\n\
         # Pre-training data for BERT\n\n",
    );
    // Writing to a string does not fail.
    let what = match config.layout {
        Layout::Instances => {
            format!("{} instances of at most {} tokens", manifest.instances, config.max_seq_length)
        }
        Layout::Documents => format!("{} tokenized documents", report.documents),
    };
    let _ = writeln!(
        out,
        "{what} in {} Parquet file(s), made by {} from {} document(s). `manifest.json` has every option, count and \
         digest; `vocab.txt` is the vocabulary of the ids.\n",
        manifest.shards.len(),
        manifest.program,
        report.documents
    );
    out.push_str("```python\nfrom datasets import load_dataset\n\nrows = load_dataset(\"path/of/this/folder\", split=\"train\")\n```\n\n");
    match config.layout {
        Layout::Instances if config.columns == Columns::Hf => hf_columns(config, &mut out),
        Layout::Instances => instance_columns(config, &mut out),
        Layout::Documents => document_columns(config, &mut out),
    }
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let mut rows = vec![
        ("documents", report.documents.to_string()),
        ("sentences", report.sentences.to_string()),
        ("tokens of the text", report.tokens.to_string()),
        ("`[UNK]` among them", percent(report.unknown_share())),
        ("in no instance of any pass", percent(report.never_shown_share())),
        match config.layout {
            Layout::Instances => ("passes over the text", config.dupe_factor.to_string()),
            Layout::Documents => ("passes over the text", "one an epoch".to_owned()),
        },
        ("instances", report.instances.to_string()),
        ("tokens of the instances", report.instance_tokens.to_string()),
    ];
    match config.nsp {
        Nsp::On => rows.push(("random next sentences", percent(report.random_next_share()))),
        Nsp::Sop => rows.push(("swapped sentences", percent(report.random_next_share()))),
        Nsp::Off => {}
    }
    if config.masking == Masking::Static || config.layout == Layout::Documents {
        rows.push(("masked tokens", percent(report.masked_share())));
    }
    let mode = if config.random == RandomMode::Keyed { "keyed" } else { "reference" };
    rows.push(("seed", format!("{} ({mode})", config.random_seed)));
    out.push_str("## What is in it\n\n| | |\n|---|---:|\n");
    for (name, value) in rows {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    out.push_str("\n## Made from\n\n| file | bytes | BLAKE3 |\n|---|---:|---|\n");
    for input in manifest.inputs.iter().take(INPUTS) {
        let _ = writeln!(out, "| {} | {} | `{}` |", plain(&input.path), input.bytes, input.blake3);
    }
    if let Some(more) = manifest.inputs.len().checked_sub(INPUTS).filter(|&more| more > 0) {
        let _ = writeln!(out, "\n{more} more are in `manifest.json`.");
    }
    if !report.warnings.is_empty() {
        out.push_str("\n## Warnings\n\n");
        for warning in &report.warnings {
            let _ = writeln!(out, "- {}", plain(warning));
        }
    }
    out
}

/// Inputs that are named.
const INPUTS: usize = 100;

fn instance_columns(config: &ResolvedConfig, out: &mut String) {
    let (masks, segments) = (masks(config.masking), segments(config.nsp));
    let _ = write!(
        out,
        "## Columns\n\nRows are not padded.\n\n| column | type | |\n|---|---|---|\n\
         | `input_ids` | list of int32 | {} |\n\
         | `segment_ids` | list of int8 | 0 for the first segment, 1 for the second |\n\
         | `masked_lm_positions` | list of int32 | {masks} |\n\
         | `masked_lm_ids` | list of int32 | the original tokens at these positions |\n\
         | `next_sentence_label` | int8 | {segments} |\n",
        match config.masking {
            Masking::Static => "tokens after masking, with `[CLS]` and `[SEP]`",
            Masking::Dynamic => "the original tokens, with `[CLS]` and `[SEP]`",
        }
    );
    if config.masking == Masking::Dynamic {
        marks_column(config, out);
    }
    out.push('\n');
}

fn hf_columns(config: &ResolvedConfig, out: &mut String) {
    let _ = write!(
        out,
        "## Columns\n\nRows are padded to {} tokens. The columns are the arguments of `BertForPreTraining`:\n\n\
         | column | type | |\n|---|---|---|\n\
         | `input_ids` | list of int32 | tokens after masking, with `[CLS]` and `[SEP]`, then padding |\n\
         | `token_type_ids` | list of int8 | 0 for the first segment, 1 for the second |\n\
         | `attention_mask` | list of int8 | 1 for tokens, 0 for padding |\n\
         | `labels` | list of int32 | the original tokens where they are masked, else -100 |\n\
         | `next_sentence_label` | int8 | {} |\n\n",
        config.max_seq_length,
        segments(config.nsp)
    );
    let shape = match config.max_seq_length {
        ..=512 => String::new(),
        longer => format!(", max_position_embeddings={longer}"),
    };
    out.push_str(&TRAINER.replace("SHAPE", &shape));
}

/// How `transformers` trains from the folder; SHAPE is what the default shape lacks.
const TRAINER: &str = "\
```python
from transformers import BertConfig, BertForPreTraining, Trainer, TrainingArguments

words = sum(1 for _ in open(\"path/of/this/folder/vocab.txt\", encoding=\"utf-8\"))
model = BertForPreTraining(BertConfig(vocab_size=wordsSHAPE))
arguments = TrainingArguments(\"out\", max_steps=10000, per_device_train_batch_size=32, learning_rate=1e-4)
Trainer(model, arguments, train_dataset=rows).train()
```

The masks are in the data: no other collator than the default one is needed, and one that masks again would be wrong.

";

fn document_columns(config: &ResolvedConfig, out: &mut String) {
    let _ = write!(
        out,
        "## Columns\n\nA row is a document; they are in random order, so that a row group is a sample of the text. The loader makes sentence pairs of at most {} \
         tokens and their masks, other ones in every epoch; the counts of instances below are those of one pass.\n\n\
         | column | type | |\n|---|---|---|\n\
         | `input_ids` | list of int32 | the tokens, without `[CLS]` and `[SEP]` |\n\
         | `sentence_lengths` | list of int32 | how many of them each sentence has |\n",
        config.max_seq_length
    );
    marks_column(config, out);
    out.push('\n');
}

fn marks_column(config: &ResolvedConfig, out: &mut String) {
    if config.segmenter != Segmenter::None {
        out.push_str(
            "| `continues_word` | list of bool | whether a token goes on with the Chinese word before it |\n",
        );
    }
}

fn masks(masking: Masking) -> &'static str {
    match masking {
        Masking::Static => "positions of the masked tokens, ascending",
        Masking::Dynamic => "empty: the loader masks, in every epoch anew",
    }
}

fn segments(nsp: Nsp) -> &'static str {
    match nsp {
        Nsp::On => "1 when the second segment is a random one",
        Nsp::Sop => "1 when the two segments are swapped",
        Nsp::Off => "always 0: there is one segment",
    }
}

/// Text without the characters that mean something in Markdown or HTML.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            '|' | '`' | '*' | '[' | ']' | '\\' | '#' | '_' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
