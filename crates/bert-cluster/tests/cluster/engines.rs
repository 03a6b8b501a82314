//! Runs one build on every engine.

use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::extension::SessionConfigExt;
use ballista_core::utils::default_session_builder;
use ballista_executor::new_standalone_executor_from_state;
use ballista_scheduler::standalone::new_standalone_scheduler_from_state;
use bert_cluster::codec::Codec;
use bert_cluster::engine::{self, Engine};
use bert_data::{build_held_out, build_part, held_out_folder, merge};
use datafusion::prelude::SessionConfig;

use crate::processes::{Cluster, Job, build, local};
use crate::text::{Text, digests};

#[test]
fn all_engines_make_the_same_bytes() {
    let text = Text::new(9, 150);
    local(&text.config("local"));
    let expected = digests(&text.path("local"));

    let parts = text.config("parts").with_parts(3);
    bert_data::tokenize_part(&parts.clone().with_part(2), &mut |_| {}).unwrap();
    bert_data::tokenize_part(&parts.clone().with_part(3), &mut |_| {}).unwrap();
    for part in 1..=3 {
        build_part(&parts.clone().with_part(part), &mut |_| {}).unwrap();
    }
    merge(&text.path("parts"), &mut |_| {}).unwrap();
    assert_eq!(digests(&text.path("parts")), expected, "--part");

    build("datafusion", &text.config("datafusion"), 5);
    assert_eq!(digests(&text.path("datafusion")), expected, "datafusion");

    for executors in [1, 2, 4] {
        let (cluster, output) = (Cluster::start(executors), format!("ballista-{executors}"));
        build(&cluster.engine(), &text.config(&output), 7);
        assert_eq!(digests(&text.path(&output)), expected, "{executors} executors");
    }
}

#[test]
fn engines_hold_out_the_documents_of_a_local_build() {
    let text = Text::new(3, 80);
    let config = |output: &str| text.config(output).with_hold_out("10%".parse().unwrap());
    let training = bert_data::build(&config("local"), &mut |_| {}).unwrap();
    build_held_out(&config("local"), &training.manifest, &mut |_| {}).unwrap().unwrap();
    build("datafusion", &config("datafusion"), 4);
    for folder in [|output| output, |output: PathBuf| held_out_folder(&output)] {
        assert_eq!(digests(&folder(text.path("datafusion"))), digests(&folder(text.path("local"))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_this_process() {
    let text = Text::new(5, 60);
    local(&text.config("local"));
    let config =
        SessionConfig::new_with_ballista().with_ballista_physical_extension_codec(Arc::new(Codec::default()));
    let state = default_session_builder(config).unwrap();
    let address = new_standalone_scheduler_from_state(&state).await.unwrap();
    let address = format!("localhost:{}", address.port());
    let scheduler = ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient::connect(
        format!("http://{address}"),
    );
    let scheduler = scheduler.await.unwrap();
    new_standalone_executor_from_state(scheduler, 2, &state).await.unwrap();
    let engine: Engine = format!("ballista://{address}").parse().unwrap();
    engine::build(&engine, &text.config("cluster"), 4, &mut |_| {}).await.unwrap();
    assert_eq!(digests(&text.path("cluster")), digests(&text.path("local")));
}

#[test]
fn cluster_reports_the_builder_error() {
    let text = Text::new(2, 20);
    std::fs::write(text.path("text-01.txt"), b"PK\x03\x04 not a text").unwrap();
    let (code, message) = Job::send("datafusion", &text.config("out"), 2).end();
    let cluster = Cluster::start(1);
    let (on_cluster, said_there) = Job::send(&cluster.engine(), &text.config("there"), 2).end();
    assert_eq!((code, on_cluster), (3, 3), "{message}{said_there}");
    for message in [message, said_there] {
        assert!(message.contains("text-01.txt"), "{message}");
    }
    let config = text.config("out").with_dupe_factor(0);
    let (code, message) = Job::send("datafusion", &config, 2).end();
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("dupe"), "{message}");
}

#[test]
fn cluster_without_executors_is_reported() {
    let (text, cluster) = (Text::new(1, 5), Cluster::start(0));
    let (code, message) = Job::send(&cluster.engine(), &text.config("out"), 2).end();
    assert_eq!(code, 75, "{message}");
    assert!(message.contains("no executors for 8 s"), "{message}");
}

#[test]
fn unreachable_scheduler_is_reported() {
    let text = Text::new(1, 5);
    let (code, message) = Job::send("ballista://127.0.0.1:9", &text.config("out"), 2).end();
    assert_eq!(code, 75, "{message}");
    assert!(message.contains("ballista://127.0.0.1:9"), "{message}");
}
