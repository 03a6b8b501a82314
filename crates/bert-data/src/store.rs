//! The tokenized text in the work folder: made once, read by every pass.
//!
//! In go the inputs, out come [`Documents`] over three files (tokens, borders of sentences, borders of documents), held in
//! memory as far as the budget allows. A receipt with the digests of the inputs and of the three files lets the same
//! command go on without reading the text again, wherever the inputs lie then. Not for making instances.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::budget::Tuning;
use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::casing;
use crate::column::{Column, ColumnDigest, ColumnWriter, ScratchFile, digest_of};
use crate::document::{Counts, Documents, DocumentsBuilder};
use crate::error::{OutputError, Result};
use crate::files::digest_bytes;
use crate::input::same_text;
use crate::packed::Width;
use crate::reading::{ReadReport, ReadRules, read_documents};
use crate::work::Work;

/// The files: ids, borders of sentences, borders of documents.
const COLUMNS: [&str; 3] = ["tokens", "sentences", "documents"];
const RECEIPT: &str = "text.json";

/// What the store holds and what it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreReceipt {
    /// The digest of the identity that it was made under.
    identity: String,
    pub(crate) read: ReadReport,
    pub(crate) counts: Counts,
    columns: [ColumnDigest; 3],
}

impl StoreReceipt {
    /// What every later receipt of this build names: one name for options, vocabulary, program and text.
    pub(crate) fn build(&self) -> String {
        let decisive = Self { read: self.read.without_paths(), ..self.clone() };
        digest_bytes(serde_json::to_string(&decisive).unwrap_or_default().as_bytes())
    }

    /// This receipt with the paths that the files have now.
    fn at(mut self, files: &[PathBuf]) -> Self {
        for (entry, path) in self.read.inputs.iter_mut().zip(files) {
            entry.path = path.to_string_lossy().into_owned();
        }
        self
    }

    fn holds(&self, work: &Work<'_>) -> Result<bool> {
        if self.identity != work.identity.digest() {
            return Ok(false);
        }
        for (name, column) in COLUMNS.iter().zip(&self.columns) {
            if digest_of(&work.path(name))?.as_ref() != Some(column) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The documents, in memory as far as they may be.
    pub(crate) fn open(&self, work: &Work<'_>, width: Width, tuning: &Tuning) -> Result<Documents> {
        let [tokens, sentences, index] = tuning.resident_columns(&self.counts, width);
        Ok(Documents {
            width,
            tokens: Column::open(&work.path(COLUMNS[0]), tokens)?,
            sentences: Column::open(&work.path(COLUMNS[1]), sentences)?,
            index: Column::open(&work.path(COLUMNS[2]), index)?,
            counts: self.counts,
            order: None,
            lookup: None,
            _scratch: None,
        })
    }
}

/// The tokenized text: what an earlier run left if it holds, else made now.
pub(crate) fn make_store(
    prepared: &Prepared<'_>,
    work: &Work<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<StoreReceipt> {
    if let Some(receipt) = work.read_receipt::<StoreReceipt>(RECEIPT) {
        let total = receipt.counts.documents;
        let same = same_text(&receipt.read.inputs, &prepared.files)?;
        if same && receipt.holds(work)? {
            progress(BuildProgress { stage: BuildStage::KeptText, done: total, total });
            return Ok(receipt.at(&prepared.files));
        }
        if !same {
            if !prepared.config.overwrite {
                refuse_other_inputs(work)?;
            }
            progress(BuildProgress { stage: BuildStage::ChangedText, done: total, total });
        }
        // Of other text: everything else is, too.
        work.begin_anew()?;
    } else if work.other_inputs().is_some() {
        work.begin_anew()?;
    }
    let (builder, read) = read_into(prepared, columns(work)?, progress)?;
    let counts = builder.counts;
    let finish = |column| match column {
        ColumnWriter::File(file) => file.finish(),
        ColumnWriter::Memory(_) => unreachable!("all three columns are files"),
    };
    let columns = [finish(builder.tokens)?, finish(builder.sentences)?, finish(builder.index)?];
    let receipt = StoreReceipt { identity: work.identity.digest(), read, counts, columns };
    work.write_receipt(RECEIPT, &receipt)?;
    Ok(receipt)
}

/// Refuses to discard what was made of inputs with other names; text that changed under its name is made anew.
fn refuse_other_inputs(work: &Work<'_>) -> Result<()> {
    let Some((found, expected)) = work.other_inputs() else { return Ok(()) };
    let (path, option) = (work.output().to_owned(), "--input".to_owned());
    Err(OutputError::Unfinished { path, option, found, expected }.into())
}

fn columns(work: &Work<'_>) -> Result<[ColumnWriter; 3]> {
    let create =
        |name| ScratchFile::create(work.files, &work.path(name)).map(Box::new).map(ColumnWriter::File);
    Ok([create(COLUMNS[0])?, create(COLUMNS[1])?, create(COLUMNS[2])?])
}

/// Reads the inputs into columns of choice.
pub(crate) fn read_into(
    prepared: &Prepared<'_>,
    columns: [ColumnWriter; 3],
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(DocumentsBuilder, ReadReport)> {
    let sizes = prepared.files.iter().filter_map(|file| std::fs::metadata(file).ok());
    let total = sizes.map(|data| data.len()).sum();
    let mut told = |done| progress(BuildProgress { stage: BuildStage::Reading, done, total });
    let (vocabulary, rules) = (&prepared.vocabulary, ReadRules::new(prepared.config));
    let tokenizer = prepared.tokenizer();
    let warning = casing::warning(prepared.config, vocabulary, &prepared.files)?;
    let (mut builder, mut read) = read_documents(
        &prepared.files,
        &tokenizer,
        vocabulary.unk_id(),
        &rules,
        &prepared.pool,
        DocumentsBuilder::to_columns(prepared.id_space(), columns),
        &mut told,
    )?;
    // Of many words: a worker takes it apart while the others go on.
    prepared.pool.spawn(move || drop(tokenizer));
    builder.end()?;
    read.warnings.extend(warning);
    Ok((builder, read))
}
