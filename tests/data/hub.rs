//! Data sets by their names on the Hugging Face Hub, from a local server.

use std::fs;

use bert_testing::hub::{COMMIT, HubReply, HubServer};

use crate::common::{Ended, Folder, articles, ended, entailment};

const NAME: &str = "hf://datasets/owner/data";

/// A folder with the files of a data set below `local/`, and a server that has them.
struct World {
    folder: Folder,
    server: HubServer,
}

impl World {
    fn new() -> Self {
        let files = [
            ("README.md", "# Data\n".to_string()),
            ("RTE/dev.tsv", entailment(16, 8)),
            ("RTE/train.tsv", entailment(0, 16)),
            ("text/a.txt", articles(0, 3)),
            ("text/b.txt", articles(3, 3)),
            ("text/deep/c.txt", articles(6, 3)),
        ];
        let folder = Folder::new();
        for (name, text) in &files {
            folder.write(&format!("local/{name}"), text);
        }
        let files = files.each_ref().map(|(name, text)| (*name, text.as_bytes()));
        let server = HubServer::start(&NAME["hf://".len()..], &files);
        Self { folder, server }
    }

    /// Runs a command line with the cache of a computer.
    fn run_on(&self, computer: &str, line: &str) -> Ended {
        let mut command = self.folder.command(line);
        command.env("HF_HOME", self.folder.at(computer)).env("HF_HUB_DOWNLOAD_TIMEOUT", "1");
        command.env("HF_ENDPOINT", self.server.endpoint()).env_remove("HF_HUB_OFFLINE");
        ended(line, command.output().expect("the program starts"))
    }

    fn ok(&self, line: &str) -> Ended {
        let ended = self.run_on("here", line);
        assert_eq!(ended.code, Some(0), "{line}\n{}", ended.stderr);
        ended
    }
}

#[test]
fn text_by_name_gives_the_same_data() {
    let world = World::new();
    let folder = &world.folder;
    let inputs = [
        ("'NAME/text/*.txt'", 2),
        ("NAME/text", 3),
        ("NAME/text/a.txt,NAME@main/text/deep", 2),
        ("local/text/b.txt NAME@refs%2Fconvert%2Fparquet/text/a.txt", 2),
    ];
    for (at, (input, files)) in inputs.into_iter().enumerate() {
        let local = input.replace("NAME@main", "local").replace("NAME@refs%2Fconvert%2Fparquet", "local");
        let local = local.replace("NAME", "local");
        let named = input.replace("NAME", NAME);
        world.ok(&format!("bert make-vocab --input {named} --vocab-size 300 --output vocab-{at}.txt"));
        folder.ok(&format!("bert make-vocab --input {local} --vocab-size 300 --output local-{at}.txt"));
        assert_eq!(folder.text(&format!("vocab-{at}.txt")), folder.text(&format!("local-{at}.txt")));
        let build = format!("make-pretrain-data --vocab vocab-{at}.txt --dupe-factor 2 --num-shards 1");
        world.ok(&format!("{build} --input {named} --output data-{at}"));
        folder.ok(&format!("{build} --input {local} --output local-{at}"));
        let [named, local] =
            ["data", "local"].map(|name| folder.checksummed(&format!("{name}-{at}/manifest.json")));
        assert_eq!(named["shards"], local["shards"], "{input}");
        assert_eq!(named["inputs"].as_array().expect("a list").len(), files, "{input}");
    }
}

#[test]
fn records_name_the_commit_not_the_cache() {
    let world = World::new();
    let folder = &world.folder;
    folder.ok("bert make-vocab --input local/text --vocab-size 300 --output vocab.txt");
    let build = format!("make-pretrain-data --vocab vocab.txt --num-shards 1 --input {NAME}/text/*.txt");
    for computer in ["here", "there"] {
        let ended = world.run_on(computer, &format!("{build} --output {computer}-data"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr_has(&format!("downloaded {NAME}@{COMMIT}/text/*.txt"));
    }
    let manifest = folder.checksummed("here-data/manifest.json");
    let commit = format!("{NAME}@{COMMIT}/text");
    assert_eq!(manifest["config"]["input"][0], format!("{commit}/*.txt"));
    assert_eq!(manifest["inputs"][1]["path"], format!("{commit}/b.txt"));
    for name in folder.names("here-data") {
        let [here, there] = ["here", "there"].map(|computer| folder.read(&format!("{computer}-data/{name}")));
        assert!(here == there, "{name}");
    }
    // Another computer finds the data set complete, and builds it again from its record.
    let again = world.run_on("third", &format!("{build} --output here-data"));
    assert!(again.code == Some(0) && again.stderr.contains("already complete"), "{}", again.stderr);
    let saved = world.run_on("fourth", "make-pretrain-data --config here-data --output saved-data");
    assert_eq!(saved.code, Some(0), "{}", saved.stderr);
    assert!(folder.read("saved-data/manifest.json") == folder.read("here-data/manifest.json"));
    world.ok("bert verify here-data");
}

#[test]
fn tasks_and_texts_are_found_by_name() {
    let world = World::new();
    let tuning = "finetune --task rte --max-seq-length 48 --num-train-epochs 1 --train-batch-size 8";
    world.ok(&format!("{tuning} --data {NAME}/RTE --output tuned"));
    world.folder.ok(&format!("{tuning} --data local/RTE --output local-tuned"));
    let [tuned, local] =
        ["tuned", "local-tuned"].map(|name| world.folder.json(&format!("{name}/report.json")).remove(0));
    assert_eq!(tuned["config"]["data"], format!("{NAME}@{COMMIT}/RTE"));
    assert_eq!(tuned["runs"][0]["dev"], local["runs"][0]["dev"]);
    let again = world.run_on("there", "finetune --config tuned --output again");
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let by_name = world.ok(&format!("bert features --layers=-1 --input={NAME}/text/a.txt"));
    assert_eq!(by_name.stdout, world.folder.ok("bert features --layers=-1 --input local/text/a.txt").stdout);
}

#[test]
fn wrong_names_of_data_have_reasons() {
    let world = World::new();
    let vocab = "bert make-vocab --output vocab.txt --input";
    let cases = [
        (format!("{vocab} hf://owner/data/x.txt"), 2, "names a model"),
        (format!("{vocab} hf://spaces/owner/data/x.txt"), 2, "a space has no data sets"),
        (format!("{vocab} {NAME}"), 2, "names no file"),
        (format!("{vocab} {NAME}/text/*.csv"), 3, "there is text/a.txt, text/b.txt, text/deep/"),
        (format!("{vocab} {NAME}@v2/text"), 3, "no such version of the data set"),
        (format!("bert make-vocab --input local/text --output {NAME}/vocab.txt"), 2, "--output: hf://"),
        (format!("bert merge {NAME}/text"), 2, "takes no data set of the Hub"),
        ("bert fill-mask --checkpoint hf://owner/model 'a [MASK]'".into(), 2, "a model is named OWNER/MODEL"),
    ];
    for (line, code, part) in cases {
        let ended = world.run_on("here", &line);
        assert_eq!(ended.code, Some(code), "{line}\n{}", ended.stderr);
        ended.stderr_has(part);
    }
    world.folder.refused(&format!("{vocab} {NAME}/text"), 3, "HF_HUB_OFFLINE forbids");
    let gated = HubServer::with_rule("datasets/owner/data", &[], |_, _, _| {
        Some(HubReply::new(403, "").with("x-error-code", "GatedRepo"))
    });
    let world = World { server: gated, ..world };
    let ended = world.run_on("here", &format!("{vocab} {NAME}/text"));
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    ended.stderr_has("the data set is gated: accept its conditions at http://127.0.0.1");
    assert!(fs::metadata(world.folder.at("vocab.txt")).is_err());
}
