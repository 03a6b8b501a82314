//! The reference's mode: its instances, exactly, in its order.
//!
//! In go documents, out come rows in one scratch file and the permutation in which they go to the one shard. All draws
//! are serial: shuffle the documents, make and mask all instances, shuffle the instances. A restart makes them again from
//! the first draw; what it keeps is the tokenized text. The permutation is held in memory, four bytes for each row; where
//! the rows begin too, as far as that fits. Ports `main`, `create_training_instances` and their order of draws.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::column::{Column, Cursor, ScratchFile, read_exact_at};
use crate::conservation::{MadeTally, Tally};
use crate::coverage::{Looked, Shown};
use crate::document::{Documents, Look, number};
use crate::error::{Error, Result};
use crate::instance::{Instance, draw_pairs};
use crate::masking::MaskedInstance;
use crate::packed::{PackedRow, Width, pack};
use crate::report::Counters;
use crate::rng::{PythonRandom, Random};
use crate::shard::{RowEncoder, shard_name};
use crate::shards::{Made, ShardPiece};
use crate::work::Work;

/// The scratch files.
const ROWS: &str = "rows";
const BORDERS: &str = "row-borders";

/// All rows, and their order.
pub(crate) struct ReferenceRows {
    file: File,
    path: PathBuf,
    /// Where each row begins in the file, and where the last one ends; eight bytes each.
    borders: Column,
    permutation: Vec<u32>,
    pub(crate) made: Made,
}

/// Makes all rows and their order. Where the rows begin is held in `borders_in_memory` bytes, or read from disk.
pub(crate) fn make_reference(
    prepared: &Prepared<'_>,
    documents: &mut Documents,
    width: Width,
    borders_in_memory: u64,
    work: &Work<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<ReferenceRows> {
    let config = prepared.config;
    let mut random = PythonRandom::new(config.random_seed);
    documents.shuffle(&mut random);
    let documents = &*documents;
    let path = work.path(ROWS);
    let mut file = ScratchFile::create(work.files, &path)?;
    let (mut made, mut counters) = (MadeTally::default(), Counters::new(config.max_seq_length));
    let vocabulary = &prepared.vocabulary;
    let (mut masker, rules, mask) =
        (config.masker(vocabulary), config.pair_rules(vocabulary), vocabulary.mask_id());
    let (mut instance, mut masked) = (Instance::default(), MaskedInstance::default());
    let mut packed = Vec::new();
    let (looked, mut shown) = (Looked::new(documents.tokens()), Shown::default());
    let mut borders = ScratchFile::create(work.files, &work.path(BORDERS))?;
    borders.push(&file.length().to_le_bytes())?;
    let mut reader = documents.reader();
    let mut rows = 0u64;
    let total = documents.counts.documents * config.dupe_factor as u64;
    for done in 0..total {
        let pass = done / documents.counts.documents;
        let document = (done % documents.counts.documents) as usize;
        reader.document(Look::Here, document)?;
        made.see_document(pass, reader.hash()?);
        draw_pairs(&mut reader, document, &rules, &mut random, |random, reader, pair| {
            pair.fill(reader, &rules, &mut instance)?;
            masker.mask(&instance, random, &mut masked);
            counters.count(&masked, mask);
            counters.shown += pair.own_tokens();
            pair.segments().for_each(|tokens| looked.show(tokens, &mut shown));
            packed.clear();
            pack(&masked, width, &mut packed);
            rows += 1;
            file.push(&packed)?;
            borders.push(&file.length().to_le_bytes())
        })?;
        if done % 64 == 63 || done + 1 == total {
            progress(BuildProgress { stage: BuildStage::Instances, done: done + 1, total });
        }
    }
    file.finish()?;
    let borders = Column::open(&work.path(BORDERS), borders.finish()?.bytes <= borders_in_memory)?;
    let mut permutation: Vec<u32> = (0..rows as u32).collect();
    random.shuffle(&mut permutation);
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    shown.tidy();
    let made = Made { tally: made, counters, shown, ..Made::default() };
    Ok(ReferenceRows { file, path, borders, permutation, made })
}

impl ReferenceRows {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.permutation.len()
    }

    /// Some rows, packed, in their final order, and where each begins.
    pub(crate) fn load(&self, rows: Range<usize>) -> Result<(Vec<u8>, Vec<u32>)> {
        let all = self.permutation.len();
        let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
        let mut cursor = Cursor::new(0);
        for &row in &self.permutation[rows] {
            let at = 8 * u64::from(row);
            let pair = cursor.get((0, &self.borders), at..at + 16, 8 * (all as u64 + 1))?;
            let (start, end) = (number(pair), number(&pair[8..]));
            offsets.push(bytes.len() as u32);
            let before = bytes.len();
            bytes.resize(before + (end - start) as usize, 0);
            read_exact_at(&self.file, &mut bytes[before..], start).map_err(Error::io("read", &self.path))?;
        }
        Ok((bytes, offsets))
    }
}

impl ReferenceRows {
    /// Some rows as a row group of the one shard.
    pub(crate) fn piece(
        &self,
        encoder: &mut RowEncoder,
        rows: Range<usize>,
        width: Width,
        made: Option<Made>,
    ) -> Result<Vec<ShardPiece>> {
        let (bytes, offsets) = self.load(rows)?;
        let packed = |&offset: &u32| PackedRow::first_of(&bytes[offset as usize..], width);
        let mut tally = Tally::default();
        offsets.iter().for_each(|offset| tally.see(packed(offset).bytes()));
        let group = encoder.encode(Path::new(&shard_name(0, 1)), offsets.iter().map(packed))?;
        Ok(vec![ShardPiece { shard: 0, groups: vec![group], rows: tally, made }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Tuning;
    use crate::build::prepare;

    use crate::config::{BuildConfig, RandomMode};
    use crate::files::Disk;
    use crate::plan::Plan;
    use crate::store::Division;
    use crate::test_text::lettered;

    #[test]
    fn rows_are_the_same_wherever_their_borders_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let config = BuildConfig { random: RandomMode::Reference, ..lettered(folder.path(), 50) };
        let prepared = prepare(&config).unwrap();
        let output = prepared.open(&Disk).unwrap();
        let division = Division::new(&prepared).unwrap();
        division.tokenize(&prepared, &output.work, &mut |_| {}).unwrap();
        let store = division.store(&prepared, &output).unwrap();
        let plan = Plan::new(&config, store.counts.documents, store.counts.tokens, prepared.id_space());
        let tuning = Tuning::new(prepared.budget, 1, plan.unit_bytes());
        let rows = |memory: u64| {
            let mut documents = store.open(plan.width, &tuning).unwrap();
            let made =
                make_reference(&prepared, &mut documents, plan.width, memory, &output.work, &mut |_| {})
                    .unwrap();
            let held = if let Column::Resident(bytes) = &made.borders { bytes.len() as u64 } else { 0 };
            (made.load(0..made.len()).unwrap(), held, made.len() as u64)
        };
        let (expected, held, all) = rows(u64::MAX);
        assert!(all > 200 && held == 8 * (all + 1), "{all} rows, {held} bytes");
        assert_eq!(rows(held), (expected.clone(), held, all));
        assert_eq!(rows(held - 1), (expected, 0, all));
    }
}
