//! Tests runs on stored documents: a resumed run equals an uninterrupted one, and evaluation uses its own pass.

use std::fs;

use bert_data::Layout;
use bert_inference::checkpoint::LoaderPosition;
use bert_training::DataLoader;

use crate::world::{World, files, run_to_end, run_until};

fn world() -> World {
    let world = World::new(0.1);
    fs::remove_dir_all(world.at("data")).unwrap();
    world.build("data", |data| {
        data.layout = Layout::Documents;
        data.dupe_factor = 10;
    });
    world
}

#[test]
fn resumed_documents_run_is_bit_identical() {
    let world = world();
    // Ten steps of 32 are several epochs.
    for (name, flags) in [("plain", vec![]), ("buckets", vec!["--length-buckets", "4"])] {
        let flags = [&["--batch-size", "32"], &flags[..]].concat();
        let whole = format!("{name}-whole");
        let parts = format!("{name}-parts");
        let metrics = run_to_end(&world.config(&whole, &flags), false);
        let config = world.config(&parts, &flags);
        run_until(&config, false, 2);
        run_until(&config, true, 5);
        run_until(&config, true, 8);
        let state = fs::read_to_string(world.at(&parts).join("checkpoints/step-00000008/trainer_state.json"));
        let state: serde_json::Value = serde_json::from_str(&state.unwrap()).unwrap();
        let place: LoaderPosition = serde_json::from_value(state["place"].clone()).unwrap();
        assert!(place.epoch >= 2 && place.first_sample < 8 * 32, "{place:?}");
        let rest = run_to_end(&config, true);
        assert_eq!(rest.last(), metrics.last());
        let pairs = files(&world.at(&whole)).into_iter().zip(files(&world.at(&parts)));
        for ((file, whole), (_, parts)) in pairs {
            assert!(whole == parts, "{name}: {file} differs");
        }
    }
}

#[test]
fn evaluation_does_not_depend_on_seed() {
    let world = world();
    let open = |seed| DataLoader::open(&world.at("data"), seed).unwrap();
    let mut one = open(1);
    let mut two = open(2);
    let rows = one.rows();
    let all = one.stored(0, rows).unwrap();
    assert_eq!(all, two.stored(0, rows).unwrap());
    assert!(all.num_predictions() as u64 > 2 * rows);
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
