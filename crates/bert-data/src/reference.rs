//! The reference's mode: its instances, exactly, in its order.
//!
//! In go documents, out come rows in one scratch file and the permutation in which they go to the one shard. All draws
//! are serial: shuffle the documents, make and mask all instances, shuffle the instances. A restart makes them again from
//! the first draw; what it keeps is the tokenized text. Where rows end and their permutation are held in memory, 12 bytes
//! for each. Ports `main`, `create_training_instances` and their order of draws.

use std::fs::File;
use std::path::PathBuf;

use crate::build::{BuildProgress, BuildStage, Prepared};
use crate::column::{ScratchFile, read_exact_at};
use crate::conservation::MadeTally;
use crate::document::{Documents, Look};
use crate::error::{Error, Result};
use crate::instance::{Instance, draw_pairs};
use crate::masking::MaskedInstance;
use crate::packed::{Width, pack};
use crate::report::Counters;
use crate::rng::{PythonRandom, Random};
use crate::shards::RowSource;
use crate::work::Work;

/// The scratch file.
const ROWS: &str = "rows";

/// All rows, and their order.
pub(crate) struct ReferenceRows {
    file: File,
    path: PathBuf,
    /// Where each row begins in the file, and where the last one ends.
    borders: Vec<u64>,
    permutation: Vec<u32>,
    /// Row groups that they are written in.
    groups: usize,
    pub(crate) made: MadeTally,
    pub(crate) counters: Counters,
}

pub(crate) fn make_reference(
    prepared: &Prepared<'_>,
    documents: &mut Documents,
    (width, groups): (Width, usize),
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
    let (mut packed, mut borders) = (Vec::new(), vec![0]);
    let mut reader = documents.reader();
    let total = documents.counts.documents * config.dupe_factor as u64;
    for done in 0..total {
        let pass = done / documents.counts.documents;
        let document = (done % documents.counts.documents) as usize;
        made.see_document(pass, reader.number_of(document), reader.document(Look::Here, document)?);
        draw_pairs(&mut reader, document, &rules, &mut random, |random, reader, pair| {
            pair.fill(reader, &rules, &mut instance)?;
            masker.mask(&instance, random, &mut masked);
            counters.count(&masked, mask);
            packed.clear();
            pack(&masked, width, &mut packed);
            made.rows.see(&packed);
            file.push(&packed)?;
            borders.push(file.length());
            Ok(())
        })?;
        if done % 64 == 63 || done + 1 == total {
            progress(BuildProgress { stage: BuildStage::Instances, done: done + 1, total });
        }
    }
    file.finish()?;
    made.all_rows = made.rows.count;
    let mut permutation: Vec<u32> = (0..made.all_rows as u32).collect();
    random.shuffle(&mut permutation);
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    Ok(ReferenceRows { file, path, borders, permutation, groups, made, counters })
}

impl RowSource for ReferenceRows {
    fn load(&self, _: usize, group: usize) -> Result<(Vec<u8>, Vec<u32>)> {
        let rows = self.permutation.len();
        let (first, end) = (rows * group / self.groups, rows * (group + 1) / self.groups);
        let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
        for &row in &self.permutation[first..end] {
            let (start, end) = (self.borders[row as usize], self.borders[row as usize + 1]);
            offsets.push(bytes.len() as u32);
            let before = bytes.len();
            bytes.resize(before + (end - start) as usize, 0);
            read_exact_at(&self.file, &mut bytes[before..], start).map_err(Error::io("read", &self.path))?;
        }
        Ok((bytes, offsets))
    }
}
