//! Compares the memory that a step of a run needs with the limits of the process or the GPU, before the first step.

use bert_data::{DataSet, Manifest};
use bert_inference::memory::{MemoryLimit, StepMemory, StepShape, Verdict, bytes_in_words, judge};
use bert_model::BertConfig;
use bert_storage::Class;
use burn::tensor::Device;

use crate::data_loader::BLOCK_TOKENS;
use crate::error::Error;
use crate::group::Group;
use crate::pretrain::config::PretrainConfig;
use crate::pretrain::events::PretrainEvent;

/// The parts of a run that determine the memory of its steps.
pub(crate) struct EstimatedRun<'a> {
    pub(crate) config: &'a PretrainConfig,
    pub(crate) model: &'a BertConfig,
    pub(crate) sets: &'a [(DataSet, f64)],
    pub(crate) group: &'a Group,
}

impl EstimatedRun<'_> {
    /// Estimates the memory of a step in bytes, rejects a run that needs more than the process can get, and warns if
    /// the memory may be insufficient.
    pub(crate) fn check_memory(
        &self,
        device: &Device,
        on_event: &mut dyn FnMut(PretrainEvent),
    ) -> Result<u64, Error> {
        let config = self.config;
        let step = |parts, recompute| self.memory_of_step(parts, recompute);
        let needed = step(config.micro_batches(), config.recompute);
        match judge(&needed, &MemoryLimit::for_device(device, self.group.local_ranks())) {
            Verdict::Fits => Ok(needed.total()),
            Verdict::Close(limit) => {
                let remedy = remedy(config, &limit, step);
                on_event(PretrainEvent::Warning(format!("{}; {remedy}", needed.describe(&limit))));
                Ok(needed.total())
            }
            Verdict::TooMuch(limit) => Err(Error::new(
                Class::Memory,
                format!("{}: {}", needed.describe(&limit), remedy(config, &limit, step)),
            )),
        }
    }

    /// Estimates the memory of a step whose batch is split into this number of micro-batches.
    fn memory_of_step(&self, parts: usize, recompute: bool) -> StepMemory {
        let Self { config, model, sets, group } = *self;
        let ranks = group.ranks();
        let sequences = config.batch_size.div_ceil(parts);
        let manifests = || sets.iter().map(|(data, _)| data.manifest());
        // All data sets have the same length; all samples of a batch may be from one of them.
        let length = manifests().map(|data| data.config.max_seq_length).max().unwrap_or(0);
        let targets = manifests().map(|data| {
            let masked = (length as f64 * data.config.masked_lm_prob).ceil() as usize;
            masked.min(data.config.max_predictions_per_seq).max(1)
        });
        let targets = targets.max().unwrap_or(1);
        let shape = StepShape {
            sequences,
            length,
            targets: sequences * targets,
            micro_batches: parts / ranks,
            optimizer_bytes: config.optimizer().update_rule().bytes_per_element(),
            ranks,
            recompute,
            on_gpu: !config.compute.device.is_cpu(),
        };
        // The data in memory: the rows of the largest shard of each data set, at most a block of the loader, and the
        // batches that are read ahead.
        let block = |data: &Manifest| {
            let rows = data.shards.iter().map(|shard| shard.rows).max().unwrap_or(0);
            (rows * length as u64).min(BLOCK_TOKENS)
        };
        let blocks: u64 = manifests().map(block).sum();
        let ahead = 8 * (config.batch_size * length) as u64;
        StepMemory::for_step(model, &shape).with_tokens_of_data(blocks + ahead)
    }
}

/// Returns a text that names a remedy: more micro-batches, then recomputation as well, then a smaller model.
fn remedy(config: &PretrainConfig, limit: &MemoryLimit, step: impl Fn(usize, bool) -> StepMemory) -> String {
    let now = config.micro_batches();
    let more = || (1..).map(|power| now << power).take_while(|&parts| parts <= config.batch_size);
    for recompute in [config.recompute, true] {
        let kept = (recompute && !config.recompute).then_some(now);
        for parts in kept.into_iter().chain(more()) {
            let needed = step(parts, recompute);
            if needed.fits(limit) {
                let flags = if recompute { " with `.recompute`" } else { "" };
                let bytes = bytes_in_words(needed.total());
                return format!("`.gradient_accumulation_steps {parts}`{flags} needs about {bytes}");
            }
        }
    }
    "use a smaller `.batch_size` with `.gradient_accumulation_steps` and `.recompute`, or a smaller model"
        .into()
}
