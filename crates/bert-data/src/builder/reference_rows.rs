//! Builds the rows of reference mode (`--random reference`): exactly the reference's instances, in the same order.
//!
//! All random draws are serial: shuffle the documents, build and mask all instances, shuffle the instances. The rows
//! are written to one scratch file; a permutation gives their order in the single shard. A restart reuses the
//! tokenized text and builds the rows again from the first draw. The text (2.2 bytes per token) and twelve bytes per
//! row are held in memory. The module ports `main` and `create_training_instances` with their order of draws.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use std::sync::atomic::AtomicBool;

use bert_random::{PythonRandom, Random};
use bert_storage::scratch::{ScratchFile, read_exact_at};

use crate::builder::output::work_folder::WorkFolder;
use crate::builder::prepare::{BuildProgress, BuildStage, PreparedBuild};
use crate::builder::token_store::Store;
use crate::builder::write_shards::{PieceStats, ShardPiece};
use crate::documents::id_width::Width;
use crate::error::{Error, Result};
use crate::instance::coverage::SampledBlocks;
use crate::instance::pairs::{Instance, draw_pairs};
use crate::shard::row::{pack, tally_of};
use crate::shard::writer::{RowEncoder, shard_name};

/// Name of the scratch file.
const ROWS: &str = "rows";

/// All rows and their order.
pub(crate) struct ReferenceRows {
    file: File,
    path: PathBuf,
    /// Offset of each row in the file, and the end of the last row.
    borders: Vec<u64>,
    permutation: Vec<u32>,
    pub(crate) stats: PieceStats,
}

/// Builds all rows and their order.
pub(crate) fn generate_reference_rows(
    prepared: &PreparedBuild<'_>,
    store: &Store,
    width: Width,
    work: &WorkFolder<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<ReferenceRows> {
    let config = prepared.config;
    let mut random = PythonRandom::new(config.random_seed);
    let (mut documents, _) =
        store.reader(&AtomicBool::new(false)).read_ascending(0..store.counts.documents)?;
    documents.shuffle(&mut random);
    let path = work.path(ROWS);
    let mut file = ScratchFile::create(work.folder.files(), &path)?;
    let sample = SampledBlocks::new(store.counts.tokens);
    let mut stats = PieceStats::new(config.max_seq_length);
    let vocabulary = &prepared.vocabulary;
    let resolved = prepared.resolved(1);
    let mut masker = resolved.masker(vocabulary);
    let rules = resolved.pair_rules(vocabulary);
    let mask = vocabulary.mask_id();
    let mut instance = Instance::default();
    let mut packed = Vec::new();
    let mut borders = vec![0];
    let total = store.counts.documents * config.dupe_factor as u64;
    for done in 0..total {
        let pass = done / store.counts.documents;
        let document = (done % store.counts.documents) as usize;
        stats.tally.add_document(pass, documents.document(document).hash());
        draw_pairs(&documents, document, &rules, &mut random, |random, pair| {
            pair.fill(&documents, &rules, &mut instance);
            masker.mask(&mut instance, random);
            stats.counters.count(&instance, mask);
            stats.counters.own_tokens += pair.own_tokens();
            for segment in pair.segments() {
                let before = documents.tokens_before(segment.document as usize);
                sample.cover(before, segment.range(), &mut stats.covered);
            }
            packed.clear();
            pack(&instance, width, &mut packed);
            file.push(&packed)?;
            borders.push(file.length());
            Ok(())
        })?;
        if done % 64 == 63 || done + 1 == total {
            progress(BuildProgress { stage: BuildStage::Instances, done: done + 1, total });
        }
    }
    file.finish()?;
    let mut permutation: Vec<u32> = (0..borders.len() as u32 - 1).collect();
    random.shuffle(&mut permutation);
    let file = File::open(&path).map_err(Error::io("open", &path))?;
    stats.covered.normalize();
    Ok(ReferenceRows { file, path, borders, permutation, stats })
}

impl ReferenceRows {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.permutation.len()
    }

    /// Returns some rows, in their final order, as a row group of the single shard.
    pub(crate) fn piece(
        &self,
        encoder: &mut RowEncoder,
        rows: Range<usize>,
        width: Width,
        stats: Option<PieceStats>,
    ) -> Result<Vec<ShardPiece>> {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for &row in &self.permutation[rows] {
            let start = self.borders[row as usize];
            let end = self.borders[row as usize + 1];
            let before = bytes.len();
            starts.push(before as u32);
            bytes.resize(before + (end - start) as usize, 0);
            read_exact_at(&self.file, &mut bytes[before..], start).map_err(Error::io("read", &self.path))?;
        }
        let group = encoder.encode(Path::new(&shard_name(0, 1, false)), &bytes, width, &starts)?;
        let rows = tally_of(&bytes, width, &starts);
        Ok(vec![ShardPiece { shard: 0, groups: vec![group], rows, stats }])
    }
}
