//! Writes the data card: a `README.md` for readers, with the YAML header by which `datasets` finds the shards.
//!
//! The card is written just before the manifest, which does not list it. The build never reads it back, so users may
//! edit it, for example to add licence, source and intended use. Only `--overwrite` replaces it.

use bert_pages::markdown::{plain, rows};

use crate::config::resolved::ResolvedConfig;
use crate::config::{Columns, Layout, Masking, Nsp, RandomMode, Segmenter};
use crate::dataset::manifest::Manifest;

/// The file name of the data card.
pub(crate) const CARD: &str = "README.md";

/// Maximum number of inputs that are listed.
const MAX_INPUTS: usize = 100;

/// The YAML header for `datasets`, and the title. CONFIGS is replaced by the splits.
const HEADER: &str = "\
---
configs:
CONFIGS
task_categories:
- fill-mask
tags:
- bert
- masked-language-modeling
---

# Pre-training data for BERT
";

/// Instructions for opening the folder with `datasets`.
const OPEN: &str = "\
```python
from datasets import load_dataset

rows = load_dataset(\"path/of/this/folder\", split=\"train\")
```
";

/// Instructions for training with `transformers`. SHAPE is replaced by the settings that differ from the default shape.
const TRAINER: &str = "
```python
from transformers import BertConfig, BertForPreTraining, Trainer, TrainingArguments

words = sum(1 for _ in open(\"path/of/this/folder/vocab.txt\", encoding=\"utf-8\"))
model = BertForPreTraining(BertConfig(vocab_size=wordsSHAPE))
arguments = TrainingArguments(\"out\", max_steps=10000, per_device_train_batch_size=32, learning_rate=1e-4)
Trainer(model, arguments, train_dataset=rows).train()
```

The masks are in the data: use the default collator. A collator that masks again would be wrong.
";

/// Returns the data card of a data set.
pub(crate) fn card(manifest: &Manifest) -> String {
    let config = &manifest.config;
    let report = &manifest.report;
    let what = match config.layout {
        Layout::Instances => {
            format!("{} instances of at most {} tokens", manifest.instances, config.max_seq_length)
        }
        Layout::Documents => format!("{} tokenized documents", report.documents),
    };
    let header = HEADER.replace("CONFIGS", &splits(config));
    let mut card = format!(
        "{header}\n{what} in {} Parquet file(s), built by {} from {} document(s). `manifest.json` has every option, \
         count and digest; `vocab.txt` is the vocabulary of the ids.\n\n{OPEN}\n",
        manifest.shards.len(),
        manifest.program,
        report.documents
    );
    card += &columns(config);
    card += &format!("\n## Contents\n\n| | |\n|---|---:|\n{}", counts(manifest));
    let inputs = manifest.inputs.iter().take(MAX_INPUTS);
    let inputs = inputs.map(|i| [plain(&i.path), i.bytes.to_string(), format!("`{}`", i.blake3)]);
    card += &format!("\n## Inputs\n\n| file | bytes | BLAKE3 |\n|---|---:|---|\n{}", rows(inputs));
    if manifest.inputs.len() > MAX_INPUTS {
        card += &format!("\n{} more are in `manifest.json`.\n", manifest.inputs.len() - MAX_INPUTS);
    }
    if !report.warnings.is_empty() {
        card += "\n## Warnings\n\n";
    }
    report.warnings.iter().for_each(|warning| card += &format!("- {}\n", plain(warning)));
    card
}

/// Returns the splits of the data set, as `datasets` reads them. The held-out documents of training data are a separate
/// configuration, because they may have different columns.
fn splits(config: &ResolvedConfig) -> String {
    let split = |name: &str, split: &str, path: &str| {
        format!("- config_name: {name}\n  data_files:\n  - split: {split}\n    path: \"{path}\"")
    };
    match (config.held_out, config.hold_out) {
        (true, _) => split("default", "validation", "_validation-*.parquet"),
        (false, None) => split("default", "train", "train-*.parquet"),
        (false, Some(_)) => {
            let held_out = split("held-out", "validation", "held-out/_validation-*.parquet");
            format!("{}\n{held_out}", split("default", "train", "train-*.parquet"))
        }
    }
}

/// Returns the rows of the table of counts.
fn counts(manifest: &Manifest) -> String {
    let config = &manifest.config;
    let report = &manifest.report;
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let passes = match config.layout {
        Layout::Instances => config.dupe_factor.to_string(),
        Layout::Documents => "one per epoch".to_owned(),
    };
    let mut counts = vec![
        ("documents", report.documents.to_string()),
        ("sentences", report.sentences.to_string()),
        ("tokens of the text", report.tokens.to_string()),
        ("`[UNK]` among them", percent(report.unknown_fraction())),
        ("tokens in no instance of any pass", percent(report.uncovered_fraction())),
        ("passes over the text", passes),
        ("instances", report.instances.to_string()),
        ("tokens of the instances", report.instance_tokens.to_string()),
    ];
    match config.nsp {
        Nsp::On => counts.push(("random next sentences", percent(report.random_next_fraction()))),
        Nsp::Sop => counts.push(("swapped sentences", percent(report.random_next_fraction()))),
        Nsp::Off => {}
    }
    if config.masking == Masking::Static || config.layout == Layout::Documents {
        counts.push(("masked tokens", percent(report.masked_fraction())));
    }
    let mode = if config.random == RandomMode::Keyed { "keyed" } else { "reference" };
    counts.push(("seed", format!("{} ({mode})", config.random_seed)));
    rows(counts.iter().map(|(name, value)| [*name, value]))
}

/// The columns of padded rows, before the label: name, type and description.
const HF_COLUMNS: [[&str; 3]; 4] = [
    ["`input_ids`", "list of int32", "tokens after masking, with `[CLS]` and `[SEP]`, then padding"],
    ["`token_type_ids`", "list of int8", "0 for the first segment, 1 for the second"],
    ["`attention_mask`", "list of int8", "1 for tokens, 0 for padding"],
    ["`labels`", "list of int32", "the original token at masked positions, else -100"],
];

/// Returns the columns of rows in the form of the reference, before the label.
fn reference_columns(masking: Masking) -> [[&'static str; 3]; 4] {
    let (tokens, positions) = match masking {
        Masking::Static => {
            ("tokens after masking, with `[CLS]` and `[SEP]`", "positions of the masked tokens, ascending")
        }
        Masking::Dynamic => (
            "the original tokens, with `[CLS]` and `[SEP]`",
            "empty: the loader draws new masks in every epoch",
        ),
    };
    [
        ["`input_ids`", "list of int32", tokens],
        ["`segment_ids`", "list of int8", "0 for the first segment, 1 for the second"],
        ["`masked_lm_positions`", "list of int32", positions],
        ["`masked_lm_ids`", "list of int32", "the original tokens at these positions"],
    ]
}

/// Returns the section that describes the columns of the shards.
fn columns(config: &ResolvedConfig) -> String {
    let max_length = config.max_seq_length;
    let label = match config.nsp {
        Nsp::On => "1 when the second segment is random",
        Nsp::Sop => "1 when the two segments are swapped",
        Nsp::Off => "always 0: there is one segment",
    };
    let (rule, mut columns) = match (config.layout, config.columns) {
        (Layout::Documents, _) => (
            format!(
                "A row is a document. Documents are in random order, so that a row group is a sample of the text. The \
                 loader generates sentence pairs of at most {max_length} tokens and their masks, new ones in every epoch; \
                 the counts of instances below refer to one pass."
            ),
            vec![
                ["`input_ids`", "list of int32", "the tokens, without `[CLS]` and `[SEP]`"],
                ["`sentence_lengths`", "list of int32", "number of tokens of each sentence"],
            ],
        ),
        (Layout::Instances, Columns::Hf) => (
            format!(
                "Rows are padded to {max_length} tokens. The columns are the arguments of `BertForPreTraining`:"
            ),
            HF_COLUMNS.to_vec(),
        ),
        (Layout::Instances, Columns::Reference) => {
            ("Rows are not padded.".to_owned(), reference_columns(config.masking).to_vec())
        }
    };
    if config.layout == Layout::Instances {
        columns.push(["`next_sentence_label`", "int8", label]);
    }
    if config.masking == Masking::Dynamic && config.segmenter != Segmenter::None {
        let what = "whether a token continues the Chinese word before it";
        columns.push(["`continues_word`", "list of bool", what]);
    }
    let shape =
        if max_length > 512 { format!(", max_position_embeddings={max_length}") } else { String::new() };
    let trainer = TRAINER.replace("SHAPE", &shape);
    let after = if config.columns == Columns::Hf { trainer.as_str() } else { "" };
    format!("## Columns\n\n{rule}\n\n| column | type | |\n|---|---|---|\n{}{after}", rows(columns))
}
