//! Writes documents of another program as a text file that the builder reads.

use std::path::Path;

use bert_storage::write_atomic;

use crate::error::Result;

/// Writes documents, each a sequence of sentences, as a text file for [`build`](crate::build) and
/// [`train_vocabulary`](crate::make_vocab::train_vocabulary): one sentence per line, and a blank line after each
/// document. Returns the number of documents.
///
/// The documents may come from a database or another iterator; only one sentence is in memory at a time. Line breaks in
/// a sentence become spaces. Sentences and documents without text are left out.
///
/// # Errors
/// Fails when the file cannot be written. It appears only when it is complete.
pub fn write_documents<D, S>(path: &Path, documents: impl IntoIterator<Item = D>) -> Result<u64>
where
    D: IntoIterator<Item = S>,
    S: AsRef<str>,
{
    let mut count = 0;
    write_atomic(path, |out| {
        for document in documents {
            let mut sentences = 0;
            for sentence in document {
                let mut words = sentence.as_ref().split(['\n', '\r']).filter(|part| !part.trim().is_empty());
                let Some(first) = words.next() else { continue };
                write!(out, "{first}")?;
                words.try_for_each(|part| write!(out, " {part}"))?;
                writeln!(out)?;
                sentences += 1;
            }
            if sentences > 0 {
                writeln!(out)?;
                count += 1;
            }
        }
        Ok(())
    })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_become_lines_and_blank_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        let documents = [vec!["a b.", "c\r\nd.", " \n"], vec![""], vec!["e."]];
        assert_eq!(write_documents(&path, documents).unwrap(), 2);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a b.\nc d.\n\ne.\n\n");
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write_documents(&folder.path().join("none/text.txt"), [["a."]]).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
