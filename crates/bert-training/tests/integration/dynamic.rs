//! Tests data without masks: the loader generates them, as a pure function of seed, epoch and instance.

use std::fs;

use bert_data::Masking;
use bert_training::{DataLoader, PretrainingBatch};

use crate::world::{World, files, run_to_end, run_until};

/// Returns a world whose data has no masks.
fn world() -> World {
    let world = World::new(0.1);
    fs::remove_dir_all(world.at("data")).unwrap();
    world.build("data", |data| data.masking = Masking::Dynamic);
    world
}

/// Returns each row's tokens with the masks undone.
fn originals(batch: &PretrainingBatch) -> Vec<Vec<i32>> {
    let mut ids = batch.padded.input_ids.clone();
    for (&position, &id) in batch.masked_lm_positions.iter().zip(&batch.masked_lm_ids) {
        ids[position as usize] = id;
    }
    let mut rows: Vec<Vec<i32>> = ids.chunks(batch.padded.seq_length).map(<[i32]>::to_vec).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn every_epoch_has_new_masks() {
    let world = world();
    let mut loader = DataLoader::open(&world.at("data"), 5).unwrap();
    let rows = loader.rows();
    let stored = loader.stored(0, rows).unwrap();
    assert!(stored.num_predictions() as u64 > 2 * rows);
    let batches: Vec<_> = (0..3).map(|e| loader.batch(e * rows, rows as usize).unwrap()).collect();
    let sorted = |batch: &PretrainingBatch| {
        let mut rows: Vec<Vec<i32>> =
            batch.padded.input_ids.chunks(batch.padded.seq_length).map(<[i32]>::to_vec).collect();
        rows.sort_unstable();
        rows
    };
    for (epoch, batch) in batches.iter().enumerate() {
        assert_eq!(originals(batch), originals(&stored));
        assert_eq!(batch.num_predictions(), stored.num_predictions());
        assert_ne!(sorted(batch), sorted(&batches[(epoch + 1) % 3]), "other masks in another epoch");
    }
    // Any position can be reached directly, with any batch size.
    let mut fresh = DataLoader::open(&world.at("data"), 5).unwrap();
    let start = 2 * rows + 3;
    let whole = fresh.batch(start, 7).unwrap();
    let last = fresh.batch(start + 6, 1).unwrap();
    let place = 6 * whole.padded.seq_length;
    assert_eq!(whole.padded.input_ids[place..], last.padded.input_ids);
    assert_eq!(
        batches[2].padded.input_ids[3 * whole.padded.seq_length..10 * whole.padded.seq_length],
        whole.padded.input_ids
    );
    assert_ne!(DataLoader::open(&world.at("data"), 6).unwrap().batch(start, 7).unwrap(), whole);
}

#[test]
fn evaluation_masks_do_not_depend_on_seed() {
    let world = world();
    let open = |seed| DataLoader::open(&world.at("data"), seed).unwrap();
    let mut one = open(1);
    let mut two = open(2);
    let rows = one.rows();
    let all = one.stored(0, rows).unwrap();
    assert_eq!(all, two.stored(0, rows).unwrap());
    // After some training, and in two parts.
    one.batch(rows, 9).unwrap();
    let a = one.stored(0, 11).unwrap();
    let b = one.stored(11, rows).unwrap();
    assert_eq!([a.masked_lm_ids, b.masked_lm_ids].concat(), all.masked_lm_ids);
    let mut targets: Vec<i32> = Vec::new();
    (0..rows).for_each(|row| {
        targets.extend(two.stored_row(row).unwrap().masked_lm_ids.iter().map(|&id| id as i32))
    });
    assert_eq!(targets, all.masked_lm_ids);
}

#[test]
fn length_buckets_keep_every_instance_and_save_padding() {
    let world = world();
    let open = || DataLoader::open(&world.at("data"), 5).unwrap();
    let rows = open().rows();
    let batch_size = 4;
    let bucketed = || open().with_length_buckets(8, batch_size);
    let mut loader = bucketed();
    let mut plain = open();
    let width = plain.batch(0, 1).unwrap().padded.seq_length;
    let wide = |batch: &PretrainingBatch| -> Vec<Vec<i32>> {
        let ids = batch.padded.input_ids.chunks(batch.padded.seq_length);
        ids.map(|row| [row, &vec![0; width - batch.padded.seq_length]].concat()).collect()
    };
    // Two epochs of each, with a batch size that does not divide them.
    let mut cells = 0;
    let mut steps = 0;
    let mut seen = Vec::new();
    while (steps + 1) * batch_size as u64 <= 2 * rows {
        let batch = loader.batch(steps * batch_size as u64, batch_size).unwrap();
        assert_eq!(batch.padded.input_mask.len(), batch_size * batch.padded.seq_length);
        for (&position, &id) in batch.masked_lm_positions.iter().zip(&batch.masked_lm_ids) {
            assert!(batch.padded.input_mask[position as usize] == 1 && id > 0);
        }
        assert_eq!(
            bucketed().batch(steps * batch_size as u64, batch_size).unwrap(),
            batch,
            "any place directly"
        );
        cells += batch.padded.input_ids.len();
        seen.extend(wide(&batch));
        steps += 1;
    }
    let epoch = |seen: &[Vec<i32>]| {
        let mut rows = seen.to_vec();
        rows.sort_unstable();
        rows
    };
    // The same instances with the same masks, in another order.
    let expected = wide(&plain.batch(0, rows as usize).unwrap());
    assert_eq!(epoch(&seen[..rows as usize]), epoch(&expected));
    assert_ne!(seen[..rows as usize], expected);
    assert!(cells < steps as usize * batch_size * width, "{cells} cells in {steps} steps");
}

#[test]
fn one_length_bucket_changes_nothing() {
    let world = world();
    let open = || DataLoader::open(&world.at("data"), 5).unwrap();
    assert_eq!(open().with_length_buckets(1, 4).batch(7, 9).unwrap(), open().batch(7, 9).unwrap());
    // Evaluation is unaffected.
    assert_eq!(open().with_length_buckets(8, 4).stored(2, 9).unwrap(), open().stored(2, 9).unwrap());
}

#[test]
fn resumed_run_has_the_same_masks() {
    let world = world();
    // Ten steps of 32 are more than an epoch.
    let flags = ["--batch-size", "32"];
    assert!(DataLoader::open(&world.at("data"), 0).unwrap().rows() < 320);
    let whole = run_to_end(&world.config("whole", &flags), false);
    let config = world.config("parts", &flags);
    run_until(&config, false, 4);
    run_until(&config, true, 8);
    let rest = run_to_end(&config, true);
    assert_eq!(rest.last(), whole.last());
    for ((name, whole), (_, parts)) in files(&world.at("whole")).into_iter().zip(files(&world.at("parts"))) {
        assert!(whole == parts, "{name} differs");
    }
}
