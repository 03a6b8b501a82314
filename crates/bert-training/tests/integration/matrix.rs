//! The resume matrix: every step is a stop of some runs, with one and four micro-batches, across ends of epochs and
//! shards, for each layout of the data. Their results equal the uninterrupted run, bit for bit.

use std::collections::BTreeSet;
use std::fs;

use bert_data::{BuildConfig, Layout, Masking};
use bert_training::{DataLoader, PretrainConfig};

use crate::world::{World, run_to_end, run_until};

const STEPS: u64 = 40;
const BATCH: u64 = 8;
/// Steps between two stops of a run: a fault may show in the next step, or only some steps later.
const INTERVALS: [u64; 2] = [1, 7];

/// Names of the data layouts.
pub(crate) const LAYOUTS: [&str; 3] = ["static", "dynamic", "documents"];

pub(crate) fn lay_out(layout: &str, data: &mut BuildConfig) {
    match layout {
        "static" => {}
        "dynamic" => data.masking = Masking::Dynamic,
        "documents" => {
            data.layout = Layout::Documents;
            data.dupe_factor = BuildConfig::default().dupe_factor;
        }
        other => panic!("no layout {other:?}"),
    }
}

fn config(world: &World, data: &str, run: &str, accumulation: &str) -> PretrainConfig {
    let flags = ["--steps", "40", "--save-every", "1000", "--gradient-accumulation-steps", accumulation];
    PretrainConfig { data: world.at(data).into(), eval_data: None, ..world.config(run, &flags) }
}

fn same_end(world: &World, a: &str, b: &str) -> bool {
    let names = ["model.safetensors", "optimizer.safetensors"];
    let paths = names.map(|name| format!("checkpoints/step-{STEPS:08}/{name}"));
    let read = |run: &str, path: &str| fs::read(world.at(run).join(path)).unwrap();
    paths.iter().map(String::as_str).chain(["metrics.jsonl"]).all(|path| read(a, path) == read(b, path))
}

fn matrix(accumulation: &str) {
    let world = World::new(0.1);
    for layout in LAYOUTS {
        let data = format!("data-{layout}");
        world.build(&data, |data| lay_out(layout, data));
        run_to_end(&config(&world, &data, &format!("whole-{layout}"), accumulation), false);
        // Every step but the last is a stop of a run of each interval.
        for interval in INTERVALS {
            for first in 1..=interval {
                let run = format!("{layout}-{interval}-{first}");
                let config = config(&world, &data, &run, accumulation);
                for stop in (first..STEPS).step_by(interval as usize) {
                    run_until(&config, stop > first, stop);
                }
                run_to_end(&config, true);
                let what = format!(
                    "{layout} data, {accumulation} micro-batches, stopped after {first} + k {interval}"
                );
                assert!(same_end(&world, &format!("whole-{layout}"), &run), "{what}");
                fs::remove_dir_all(world.at(&run)).unwrap();
            }
        }
    }
}

#[test]
fn stopped_after_every_step_with_one_micro_batch() {
    matrix("1");
}

#[test]
fn stopped_after_every_step_with_four_micro_batches() {
    matrix("4");
}

/// Checks that the stops above come before, at and after ends of epochs and of shards, within batches and between them.
#[test]
fn matrix_covers_every_boundary() {
    let world = World::new(0.1);
    for layout in LAYOUTS {
        let data = format!("data-{layout}");
        world.build(&data, |data| lay_out(layout, data));
        let loader = DataLoader::open(&world.at(&data), 1).unwrap();
        let rows = loader.rows();
        let shards = loader.manifest().shards.len() as u64;
        let end = STEPS * BATCH;
        assert!(shards > 1 && end / rows >= 2, "{layout}: {rows} rows, {shards} shards");
        let offsets: BTreeSet<u64> = (1..=end / rows).map(|epoch| epoch * rows % BATCH).collect();
        // The size of an epoch of documents happens to be a multiple of the batch size.
        let within = offsets.iter().any(|&offset| offset != 0);
        assert!(within || layout == "documents", "{layout}: no epoch ends within a batch");
    }
}
