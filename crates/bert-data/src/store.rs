//! The tokenized text in the work folder: made once, read by every pass.
//!
//! In go the inputs, out come [`Documents`] over three files (tokens, borders of sentences, borders of documents), held in
//! memory as far as the budget allows. A receipt with the digests of the inputs and of the three files lets the same
//! command go on without reading the text again. Not for making instances.

use serde::{Deserialize, Serialize};

use crate::budget::Tuning;
use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::casing;
use crate::column::{Column, ColumnDigest, ColumnWriter, ScratchFile, digest_of};
use crate::document::{Counts, Documents, DocumentsBuilder};
use crate::error::Result;
use crate::files::{digest_bytes, digest_file};
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
        digest_bytes(serde_json::to_string(self).unwrap_or_default().as_bytes())
    }

    fn holds(&self, prepared: &Prepared<'_>, work: &Work<'_>) -> Result<bool> {
        let same_files = self.identity == work.identity.digest()
            && self.read.inputs.len() == prepared.files.len()
            && self
                .read
                .inputs
                .iter()
                .zip(&prepared.files)
                .all(|(entry, path)| *entry.path == *path.to_string_lossy());
        if !same_files {
            return Ok(false);
        }
        for (entry, path) in self.read.inputs.iter().zip(&prepared.files) {
            if digest_file(path)? != entry.blake3 {
                return Ok(false);
            }
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
        if receipt.holds(prepared, work)? {
            let total = receipt.counts.documents;
            progress(BuildProgress { stage: BuildStage::KeptText, done: total, total });
            return Ok(receipt);
        }
        // Of other text: everything else is, too.
        work.clear()?;
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
