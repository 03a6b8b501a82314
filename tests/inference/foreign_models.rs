//! Model folders of other projects: missing tensors, tokenizer settings, and files that are not read.

use serde_json::{Value, json};

use crate::common::{Folder, QUICK, entailment};

/// Rewrites the weights of a folder without some of the tensors.
fn without(folder: &Folder, model: &str, parts: &[&str]) {
    let path = folder.at(model).join("model.safetensors");
    let mut tensors = bert_model::read_safetensors(&path).expect("weights");
    tensors.retain(|name, _| !parts.iter().any(|part| name.starts_with(part)));
    std::fs::write(path, bert_model::named_tensors_to_bytes(&tensors)).expect("a file written");
}

/// Changes a JSON file of a folder.
fn change(folder: &Folder, file: &str, with: impl FnOnce(&mut Value)) {
    let mut value = folder.json(file).remove(0);
    with(&mut value);
    folder.write(file, value.to_string());
}

#[test]
fn bert_for_masked_lm_is_read() {
    let folder = Folder::with_run();
    folder.ok("bert export run whole");
    folder.copy("whole", "masked");
    without(&folder, "masked", &["bert.pooler.", "cls.seq_relationship."]);
    let fill =
        |model: &str| folder.ok(&format!("bert fill-mask --checkpoint {model} 'the [MASK] flows'")).stdout;
    assert_eq!(fill("masked"), fill("whole"));

    folder.ok(
        "make-pretrain-data --input train.txt --vocab whole --nsp off --max-seq-length 32 --output single",
    );
    let train = "pretrain --steps 1 --batch-size 8 --init-checkpoint masked";
    let ended = folder.ok(&format!("{train} --data single --output one"));
    ended.stderr_has("initialized at random");
    folder.ok("bert evaluate --checkpoint masked --data single");
    let ended = folder.run(&format!("{train} --data data --output two"));
    assert_eq!(ended.code, Some(4));
    assert!(ended.stderr.contains("no next-sentence head") && ended.stderr.contains("--fresh-heads"));
    folder.ok(&format!("{train} --data data --fresh-heads --output two"));
    without(&folder, "masked", &["cls."]);
    folder.refused("bert fill-mask --checkpoint masked 'the [MASK] flows'", 4, "no masked-LM head");
    folder.ok("bert export one card");
    assert!(folder.text("card/README.md").contains("pre-trained by masked LM.\n"));
}

#[test]
fn models_without_pooler_are_read() {
    let folder = Folder::with_run();
    let questions = json!({"data": [{"paragraphs": [{
        "context": "The river is long and the lake is deep",
        "qas": [{"id": "a", "question": "what is long", "answers": [{"text": "river", "answer_start": 4}]}]
    }]}]});
    for name in ["squad/train-v1.1.json", "squad/dev-v1.1.json"] {
        folder.write(name, questions.to_string());
    }
    for name in ["conll/train.txt", "conll/dev.txt", "conll/test.txt"] {
        folder.write(name, "The O\nriver B-LOC\nflows O\n\nlake B-LOC\n\n");
    }
    for (task, new, flags) in [
        ("squad", "what is long\tThe river is long\n", "--max-seq-length 32 --max-query-length 8"),
        ("conll", "The river\n", "--max-seq-length 16"),
    ] {
        folder.write("new.tsv", new);
        folder.ok(&format!(
            "finetune --task {task} --data {task} --checkpoint run {flags} --num-train-epochs 1 --allow-overlap --output {task}-tuned"
        ));
        let model = format!("{task}-tuned/model");
        let predict =
            || folder.ok(&format!("bert predict --checkpoint {model} --format tsv --input new.tsv")).stdout;
        let with_pooler = predict();
        without(&folder, &model, &["bert.pooler."]);
        assert_eq!(predict(), with_pooler);
        folder.ok(&format!("bert export {model} {task}-encoder --encoder-only"));
        let names: Vec<String> =
            folder.tensors(&format!("{task}-encoder/model.safetensors")).into_keys().collect();
        assert!(names.iter().all(|name| !name.contains("pooler")), "{names:?}");
    }
}

#[test]
fn adapter_without_classifier_is_rejected() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 16));
    folder.write("glue/RTE/dev.tsv", entailment(16, 8));
    folder.write("new.tsv", "the river\tthe lake\n");
    folder.ok("bert export run base");
    for (kind, head) in [("pfeiffer", "head_config.json"), ("lora", "adapter_model.safetensors")] {
        folder.ok(&format!(
            "finetune --task rte --data glue --checkpoint base --adapter {kind} --max-seq-length 48 \
             --num-train-epochs 1 --output {kind}"
        ));
        let predict = format!("bert predict --checkpoint {kind} --format tsv --input new.tsv");
        folder.ok(&predict);
        // Other weights under the name stored in the adapter folder.
        let weights = folder.read("base/model.safetensors");
        folder.flip("base/model.safetensors");
        folder.refused(&predict, 4, "trained on other weights");
        folder.write("base/model.safetensors", weights);
        match kind {
            "lora" => {
                let path = folder.at("lora/model").join(head);
                let mut tensors = bert_model::read_safetensors(&path).expect("weights");
                tensors.retain(|name, _| name.contains("lora_"));
                std::fs::write(path, bert_model::named_tensors_to_bytes(&tensors)).expect("a file");
            }
            _ => std::fs::remove_file(folder.at("pfeiffer/model").join(head)).expect("removed"),
        }
        folder.refused(&predict, 4, "no classifier");
    }
}

#[test]
fn tokenizer_json_alone_is_read_by_every_program() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 16));
    folder.write("glue/RTE/dev.tsv", entailment(16, 8));
    folder.write("new.txt", "The river flows\nCaf\u{e9}\n");
    folder.ok("bert export run whole");
    folder.copy("whole", "current");
    for file in ["vocab.txt", "special_tokens_map.json"] {
        std::fs::remove_file(folder.at("current").join(file)).expect("removed");
    }
    let same = |command: &str| {
        let [theirs, ours] = ["current", "whole"].map(|model| folder.ok(&command.replace("MODEL", model)));
        assert_eq!(theirs.stdout, ours.stdout, "{command}");
    };
    same("bert features --checkpoint MODEL --layers=-1 --input new.txt");
    same("bert fill-mask --checkpoint MODEL 'the [MASK] flows'");
    same("bert evaluate --checkpoint MODEL --data held");
    folder.ok("bert attention --checkpoint current 'the river' --output page.html");
    folder.ok("make-pretrain-data --input train.txt --vocab current --max-seq-length 32 --output again");
    assert_eq!(folder.read("again/vocab.txt"), folder.read("whole/vocab.txt"));
    folder.ok("pretrain --data again --init-checkpoint current --steps 1 --batch-size 4 --output on");
    folder.ok("finetune --task rte --data glue --checkpoint current --max-seq-length 48 --num-train-epochs 1 --output tuned");
    assert_eq!(folder.read("tuned/model/vocab.txt"), folder.read("whole/vocab.txt"));
    folder.ok("bert export current exported");
    assert_eq!(folder.names("exported"), folder.names("whole"));
    folder.ok("bert init --vocab current/tokenizer.json --model config.json --initialization reference --output fresh");
    assert_eq!(folder.read("fresh/vocab.txt"), folder.read("whole/vocab.txt"));
}

#[test]
fn tokenizer_settings_are_obeyed_saved_and_compared() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 16));
    folder.write("glue/RTE/dev.tsv", entailment(16, 8));
    folder.write("new.txt", "CAF\u{c9}\n");
    folder.ok("bert export run model");
    let words = folder.text("model/vocab.txt");
    let last = words.lines().last().expect("a word").to_string();
    folder.write("model/vocab.txt", words.replace(&format!("\n{last}\n"), "\ncaf\u{e9}\n"));
    change(&folder, "model/tokenizer_config.json", |config| config["strip_accents"] = json!(false));
    // It has the old word and setting.
    std::fs::remove_file(folder.at("model/tokenizer.json")).expect("removed");
    let features = |model: &str| {
        folder.ok(&format!("bert features --checkpoint {model} --layers=-1 --input new.txt")).stdout
    };
    assert!(features("model").contains("\"caf\u{e9}\""));
    folder.ok("finetune --task rte --data glue --checkpoint model --max-seq-length 48 --num-train-epochs 1 --output tuned");
    assert!(features("tuned/model").contains("\"caf\u{e9}\""));
    assert_eq!(folder.json("tuned/model/tokenizer.json")[0]["normalizer"]["strip_accents"], false);

    let build = "make-pretrain-data --input train.txt --vocab model --max-seq-length 32";
    folder.ok(&format!("{build} --output as-stated"));
    folder.ok(&format!("{build} --strip-accents true --output other"));
    folder.ok("pretrain --data as-stated --init-checkpoint model --steps 1 --batch-size 4 --output on");
    assert_eq!(folder.json("on/checkpoints/step-00000001/tokenizer_config.json")[0]["strip_accents"], false);
    let ended =
        folder.run("pretrain --data other --init-checkpoint model --steps 1 --batch-size 4 --output off");
    assert_eq!(ended.code, Some(4));
    ended.stderr_has("strip_accents true");
    change(&folder, "model/tokenizer_config.json", |config| {
        config["tokenizer_class"] = json!("BertJapaneseTokenizer")
    });
    folder.refused(
        "bert features --checkpoint model --layers=-1 --input new.txt",
        4,
        "BertJapaneseTokenizer",
    );
}

#[test]
fn vocabulary_larger_than_embeddings_is_rejected() {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 16));
    folder.write("glue/RTE/dev.tsv", entailment(16, 8));
    folder.write("new.txt", "a neologism\n");
    folder.ok("bert export run model");
    let words = folder.text("model/vocab.txt");
    let count = words.lines().count();
    // It has the old words.
    std::fs::remove_file(folder.at("model/tokenizer.json")).expect("removed");
    folder.write("model/vocab.txt", format!("{words}neologism\n"));
    folder.ok("make-pretrain-data --input train.txt --vocab model --max-seq-length 32 --output more");
    for line in [
        "bert features --checkpoint model --layers=-1 --input new.txt",
        "bert fill-mask --checkpoint model 'a [MASK] neologism'",
        "bert attention --checkpoint model 'a neologism' --output page.html",
        "bert evaluate --checkpoint model --data more",
        "bert probe --checkpoint model --input new.txt --replace a=the",
        "finetune --task rte --data glue --checkpoint model --max-seq-length 48 --output tuned",
        "pretrain --data more --init-checkpoint model --steps 1 --output on",
    ] {
        let ended = folder.run(line);
        assert_eq!(ended.code, Some(4), "{line}\n{}", ended.stderr);
        let numbers = [count, count + 1].map(|number| ended.stderr.contains(&number.to_string()));
        assert_eq!(numbers, [true, true], "{}", ended.stderr);
    }
    // The embedding table may have more rows than there are words.
    folder.write("model/vocab.txt", words.trim_end().rsplit_once('\n').expect("lines").0);
    folder.ok("bert features --checkpoint model --layers=-1 --input new.txt");
}

#[test]
fn foreign_weights_name_the_conversion() {
    let folder = Folder::with_data();
    folder.write("new.txt", "a\n");
    let config = folder.config().to_string();
    for (file, named) in [("tf_model.h5", "from_tf=True"), ("onnx/model.onnx", "exported from")] {
        for name in ["config.json", "bert_config.json"] {
            let model = format!("{name}-{}", file.replace('/', "-"));
            folder.write(&format!("{model}/{name}"), &config);
            folder.write(&format!("{model}/{file}"), [0; 64]);
            let ended =
                folder.run(&format!("bert features --checkpoint {model} --layers=-1 --input new.txt"));
            assert_eq!(ended.code, Some(4), "{model}: {}", ended.stderr);
            assert!(ended.stderr.contains(named) && ended.stderr.contains(file), "{}", ended.stderr);
        }
    }
    let ended = folder.run("bert features --checkpoint bert-base-uncased --input new.txt");
    ended.stderr_has("bert-base-uncased: no folder has this name, and it is not in the cache");
    for line in ["bert features --checkpoint nowhere --input new.txt", "bert report nowhere"] {
        let ended = folder.run(line);
        ended.stderr_has("does not exist");
    }
}

#[test]
fn config_without_vocab_size_uses_the_vocabulary() {
    let folder = Folder::with_data();
    change(&folder, "config.json", |config| {
        config.as_object_mut().expect("an object").remove("vocab_size");
    });
    let ended = folder.ok(&format!("pretrain {QUICK} --steps 1 --output run"));
    let words = folder.text("vocab.txt").lines().count();
    ended.stderr_has(&format!("no vocab_size; the size of the vocabulary is used: {words}"));
    assert_eq!(folder.json("run/checkpoints/step-00000001/config.json")[0]["vocab_size"], words);
}
