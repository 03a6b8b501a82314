//! Adapting a model to a domain: new word pieces.

use crate::common::Folder;

/// Returns a text of words that the vocabulary of the tests splits into many pieces.
fn domain(sentences: usize) -> String {
    let words = ["thrombocytopenia", "anticoagulant", "haemoglobin", "transfusion"];
    let sentence = |at: usize| format!("The {} of the {} .\n", words[at % 4], words[(at / 4 + 1) % 4]);
    (0..sentences).map(sentence).collect()
}

#[test]
fn extended_model_reads_the_new_pieces() {
    let folder = Folder::new();
    folder.write("domain.txt", domain(200));
    folder.ok("bert export tiny-en base");
    let line = "bert extend-vocab --checkpoint base --input domain.txt --add 4 --output";
    let printed = folder.ok(&format!("{line} more --json")).json();
    let pieces: Vec<&str> = printed["pieces"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|piece| piece.as_str().expect("text"))
        .collect();
    assert!(pieces.contains(&"thrombocytopenia") && pieces.len() == 4, "{pieces:?}");
    let per_word = &printed["report"]["pieces_per_word"];
    assert!(per_word[1].as_f64() < per_word[0].as_f64(), "{per_word}");

    // The result does not depend on the number of threads.
    folder.ok(&format!("{line} again --threads 1"));
    for file in ["vocab.txt", "model.safetensors", "config.json", "tokenizer.json"] {
        assert!(folder.read(&format!("more/{file}")) == folder.read(&format!("again/{file}")), "{file}");
    }

    // Old texts get the predictions of the old model, apart from the new candidates.
    let features = |model: &str| {
        folder.write("old.txt", "the river flows into the sea\n");
        folder.ok(&format!("bert features --input old.txt --checkpoint {model}")).stdout
    };
    assert_eq!(features("base"), features("more"));
    folder.ok("make-pretrain-data --input domain.txt --vocab more --max-seq-length 32 --output data");
    folder.ok("pretrain --data data --init-checkpoint more --steps 1 --batch-size 4 --output run");
}

#[test]
fn new_rows_follow_the_rule() {
    let folder = Folder::new();
    folder.write("domain.txt", domain(200));
    folder.ok("bert export tiny-en base");
    let line = "bert extend-vocab --checkpoint base --input domain.txt --add 4";
    let tables = ["mean-of-pieces", "mean-of-all", "random"].map(|rule| {
        folder.ok(&format!("{line} --new-rows {rule} --output {rule}"));
        folder.tensors(&format!("{rule}/model.safetensors"))["bert.embeddings.word_embeddings.weight"].clone()
    });
    let (shape, old) = &folder.tensors("base/model.safetensors")["bert.embeddings.word_embeddings.weight"];
    let words = |model: &str| -> Vec<String> {
        folder.text(&format!("{model}/vocab.txt")).lines().map(String::from).collect()
    };
    let base = words("base");
    let new = words("random");
    let changed: Vec<usize> = (0..new.len()).filter(|row| base.get(*row) != Some(&new[*row])).collect();
    assert_eq!(changed.len(), 4);
    let row = |(shape, bytes): &(Vec<usize>, Vec<u8>), at: usize| -> Vec<u8> {
        bytes[at * 4 * shape[1]..(at + 1) * 4 * shape[1]].to_vec()
    };
    for at in 0..base.len() {
        for table in &tables {
            let same = row(table, at) == old[at * 4 * shape[1]..(at + 1) * 4 * shape[1]];
            assert_eq!(same, !changed.contains(&at), "row {at}");
        }
    }
    let rows = tables.each_ref().map(|table| row(table, changed[0]));
    assert!(rows[0] != rows[1] && rows[1] != rows[2]);
    folder.refused(
        "bert extend-vocab --checkpoint base --input domain.txt --add 0 --output none",
        2,
        "at least 1",
    );
}

/// Returns a folder with the data sets `data` (instances) and `general` (documents), and `held`.
fn with_two_data_sets() -> Folder {
    let folder = Folder::with_data();
    folder.write("general.txt", crate::common::articles(12, 8));
    let flags = "--vocab vocab.txt --max-seq-length 32 --max-predictions-per-seq 5 --layout documents";
    folder.ok(&format!("make-pretrain-data --input general.txt {flags} --output general"));
    folder
}

const MIXED: &str = "pretrain --data data=0.75 --data general=0.25 --model config.json --initialization reference \
                     --batch-size 8 --gradient-accumulation-steps 4 --steps 8 --save-every 4 --seed 3";

#[test]
fn mixture_gives_equal_bits_for_threads_resumes_and_ranks() {
    let folder = with_two_data_sets();
    folder.ok(&format!("{MIXED} --output whole --threads 1"));
    folder.ok(&format!("{MIXED} --output threads --threads 2"));
    folder.ok(&format!("bert launch --processes 2 -- {MIXED} --output ranks"));
    folder.copy("whole", "resumed");
    std::fs::remove_dir_all(folder.at("resumed/checkpoints/step-00000008")).expect("removed");
    folder.ok(&format!("{MIXED} --output resumed --resume"));
    for run in ["threads", "ranks", "resumed"] {
        for file in ["model.safetensors", "optimizer.safetensors"] {
            let path = format!("checkpoints/step-00000008/{file}");
            assert!(
                folder.read(&format!("whole/{path}")) == folder.read(&format!("{run}/{path}")),
                "{run}/{file}"
            );
        }
        assert!(folder.read("whole/metrics.jsonl") == folder.read(&format!("{run}/metrics.jsonl")), "{run}");
    }
    // The saved options repeat the run.
    folder.ok("pretrain --config whole --output repeated");
    let weights = "checkpoints/step-00000008/model.safetensors";
    assert!(folder.read(&format!("whole/{weights}")) == folder.read(&format!("repeated/{weights}")));
    // Another share is another run.
    let other = MIXED.replace("data=0.75", "data=0.5");
    folder.refused(&format!("{other} --output resumed --resume"), 4, "mixture[1].share was 0.25, now ");
}

#[test]
fn shares_are_in_the_run_and_in_the_card() {
    let folder = with_two_data_sets();
    folder.ok(&format!("{MIXED} --output run"));
    let mixture = &folder.json("run/run.json")[0]["identity"]["mixture"];
    assert_eq!((&mixture[0]["share"], &mixture[1]["share"]), (&0.75.into(), &0.25.into()));
    assert_eq!(mixture[1]["data_rules"]["layout"], "documents");
    folder.ok("bert export run card");
    assert!(folder.text("card/README.md").contains("0.7500 of "));
}

#[test]
fn data_sets_that_do_not_mix_are_refused() {
    let folder = with_two_data_sets();
    let make = "make-pretrain-data --input general.txt --vocab vocab.txt --output";
    folder.ok(&format!("{make} longer --max-seq-length 48"));
    folder.ok(&format!("{make} single --max-seq-length 32 --nsp off"));
    let train = "pretrain --data data=1 --model config.json --steps 1 --output out";
    folder.refused(&format!("{train} --data longer=1"), 4, "--max-seq-length of data is 32, of longer 48");
    folder.refused(&format!("{train} --data single=1"), 4, "--nsp of data and single differ");
    folder.refused(
        &format!("{train} --data ./data=1"),
        2,
        "8 of 8 documents of ./data (100.0 %) are in data too",
    );
    let same = format!("{train} --data ./data=1 --allow-overlap");
    folder.refused(&same, 4, "data and ./data have the same samples");
    folder.refused(
        &format!("{train} --data general"),
        2,
        "general: each of several data folders needs a positive weight",
    );
    folder.refused(&format!("{train} --data general=0"), 2, "needs a positive weight");
}
