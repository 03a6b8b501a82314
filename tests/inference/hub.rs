//! Models by their names on the Hugging Face Hub, from a local server.

use std::fs;

use bert_testing::hub::{COMMIT, HubReply, HubServer};

use crate::common::{Ended, Folder, ended, entailment};

const ID: &str = "owner/model";

/// A folder with the run `run/`, and a server that has its model.
struct World {
    folder: Folder,
    server: HubServer,
}

impl World {
    fn new() -> Self {
        let folder = Folder::with_run();
        folder.ok("bert export run exported");
        let server = serve(&folder, |_| None);
        Self { folder, server }
    }

    fn run(&self, line: &str) -> Ended {
        run(&self.folder, &self.server.endpoint(), line)
    }

    fn ok(&self, line: &str) -> Ended {
        let ended = self.run(line);
        assert_eq!(ended.code, Some(0), "{line}\n{}", ended.stderr);
        ended
    }
}

/// Starts a server with the files of the folder `exported`, which answers some paths differently.
fn serve(folder: &Folder, other: impl Fn(&str) -> Option<HubReply> + Send + Sync + 'static) -> HubServer {
    let files: Vec<(String, Vec<u8>)> = folder
        .names("exported")
        .into_iter()
        .map(|name| (name.clone(), folder.read(&format!("exported/{name}"))))
        .collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    HubServer::with_rule(ID, &files, move |request, _, _| other(&request.path))
}

fn run(folder: &Folder, endpoint: &str, line: &str) -> Ended {
    let mut command = folder.command(line);
    command.env("HF_ENDPOINT", endpoint).env("HF_HUB_DOWNLOAD_TIMEOUT", "1").env_remove("HF_HUB_OFFLINE");
    ended(line, command.output().expect("the program starts"))
}

#[test]
fn every_command_accepts_names() {
    let world = World::new();
    world.folder.write("new.txt", "the sea is deep\n");
    let lines = [
        "bert features --checkpoint MODEL --layers=-1 --input new.txt",
        "bert fill-mask --checkpoint MODEL --json 'the [MASK] is deep'",
        "bert evaluate --checkpoint MODEL --data held --json",
        "bert inspect MODEL --json",
        "bert export MODEL exported-MODEL",
        "bert import MODEL imported-MODEL",
        "make-pretrain-data --input train.txt --vocab MODEL --dupe-factor 1 --output data-MODEL",
    ];
    for line in lines {
        let by_name = world.ok(&line.replace("-MODEL", "-hub").replace(" MODEL", &format!(" {ID}")));
        let by_folder = world.folder.ok(&line.replace("-MODEL", "-folder").replace(" MODEL", " exported"));
        if line.contains("--json") {
            let [name, folder] = [by_name, by_folder].map(|ended| {
                let mut result = ended.json();
                result.as_object_mut().expect("an object").remove("folder");
                result
            });
            assert_eq!(name, folder, "{line}");
        }
    }
    for name in ["exported", "imported"] {
        let weights = |end: &str| world.folder.read(&format!("{name}-{end}/model.safetensors"));
        assert!(weights("hub") == weights("folder"), "{name}");
    }
    let downloads = world
        .server
        .requests()
        .iter()
        .filter(|request| request.is_storage && request.path.contains("model.safetensors"))
        .count();
    assert_eq!(downloads, 1);
    // The cache is enough from now on, also by its folder.
    let cached = world.folder.root().join("cache/huggingface/hub/models--owner--model");
    world.folder.ok(&format!("bert inspect {ID}"));
    world.folder.ok(&format!("bert inspect {}", cached.display()));
    world.folder.ok(&format!("bert import {} imported-cached", cached.display()));
}

#[test]
fn an_existing_folder_takes_precedence_over_a_name() {
    let world = World::new();
    fs::rename(world.folder.at("exported"), world.folder.at("bert-own")).expect("renamed");
    world.ok("bert inspect bert-own");
    world.folder.copy("bert-own", "owner/model");
    world.ok("bert inspect owner/model");
    world.folder.refused("bert export owner/other out", 4, "owner/other: this folder does not exist");
    assert!(world.server.requests().is_empty());
}

#[test]
fn trainings_record_the_commit_and_use_it_again() {
    let world = World::new();
    let pinned = format!("{ID}@{COMMIT}");
    let line = format!(
        "pretrain --data data --batch-size 8 --steps 4 --save-every 2 --init-checkpoint {ID} --output more"
    );
    world.ok(&line);
    assert_eq!(world.folder.checksummed("more/run.json")["config"]["init_checkpoint"], *pinned);
    let weights = world.folder.read("more/checkpoints/step-00000004/model.safetensors");
    // A computer without the cache, when the branch has moved.
    fs::remove_dir_all(world.folder.at("more/checkpoints/step-00000004")).expect("removed");
    fs::remove_dir_all(world.folder.root().join("cache")).expect("removed");
    let moved = serve(&world.folder, |path| path.ends_with("/main").then(|| HubReply::new(404, "")));
    let resumed = run(&world.folder, &moved.endpoint(), &format!("{line} --resume"));
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(world.folder.read("more/checkpoints/step-00000004/model.safetensors") == weights);
    let other =
        run(&world.folder, &moved.endpoint(), &format!("{QUICK_TUNING} --checkpoint {ID} --output new"));
    assert_eq!(other.code, Some(4), "{}", other.stderr);
}

const QUICK_TUNING: &str =
    "finetune --task rte --data glue --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";

#[test]
fn adapters_find_their_encoder_by_name() {
    let world = World::new();
    world.folder.write("glue/RTE/train.tsv", entailment(0, 16));
    world.folder.write("glue/RTE/dev.tsv", entailment(16, 8));
    world.ok(&format!("{QUICK_TUNING} --adapter lora --checkpoint {ID} --output lora"));
    let report = &world.folder.json("lora/report.json")[0];
    let pinned = format!("{ID}@{COMMIT}");
    assert_eq!((&report["config"]["checkpoint"], &report["start"]), (&(*pinned).into(), &(*pinned).into()));
    let config = &world.folder.json("lora/model/adapter_config.json")[0];
    assert_eq!((&config["base_model_name_or_path"], &config["revision"]), (&ID.into(), &COMMIT.into()));
    let predict = "bert predict --checkpoint lora 'The sea is deep. ||| The sea is wet.'";
    let offline = world.folder.ok(predict);
    fs::remove_dir_all(world.folder.root().join("cache")).expect("removed");
    world.folder.refused(predict, 4, "give the checkpoint that it was trained on with --encoder");
    assert_eq!(world.ok(predict).stdout, offline.stdout);
    assert_eq!(world.folder.ok(&format!("{predict} --encoder exported")).stdout, offline.stdout);
}

#[test]
fn refusals_have_exit_codes_and_remedies() {
    let folder = Folder::new();
    let gated = HubServer::with_rule(ID, &[], |_, _, _| {
        Some(HubReply::new(403, "").with("x-error-code", "GatedRepo"))
    });
    let none = "http://127.0.0.1:1".to_string();
    let cases = [
        (gated.endpoint(), 4, "the model is gated: accept its conditions at http://127.0.0.1"),
        (none, 75, "cannot be read"),
        ("huggingface".into(), 2, "HF_ENDPOINT is not an address"),
    ];
    for (endpoint, code, part) in cases {
        for line in [
            "bert fill-mask --checkpoint owner/model 'a [MASK]'",
            "finetune --task rte --data . --checkpoint owner/model --output out",
        ] {
            let ended = run(&folder, &endpoint, line);
            assert_eq!(ended.code, Some(code), "{}", ended.stderr);
            ended.stderr_has(part);
        }
    }
    folder.refused(
        "pretrain --data data --init-checkpoint owner/model --steps 1 --output out",
        4,
        "HF_HUB_OFFLINE forbids",
    );
}
