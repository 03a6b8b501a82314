//! Runs one build on every engine.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt;
use ballista_core::utils::default_session_builder;
use ballista_executor::new_standalone_executor_from_state;
use ballista_scheduler::standalone::new_standalone_scheduler_from_state;
use bert_cluster::codec::Codec;
use bert_cluster::engine::{self, Engine};
use bert_data::{build_part, merge};
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
fn what_the_builder_refuses_arrives_in_its_own_words() {
    let text = Text::new(2, 20);
    std::fs::write(text.path("text-01.txt"), b"PK\x03\x04 not a text").unwrap();
    let (code, said) = Job::send("datafusion", &text.config("out"), 2).end();
    let cluster = Cluster::start(1);
    let (on_cluster, said_there) = Job::send(&cluster.engine(), &text.config("there"), 2).end();
    assert_eq!((code, on_cluster), (3, 3), "{said}{said_there}");
    for said in [said, said_there] {
        assert!(said.contains("text-01.txt"), "{said}");
    }
    let config = text.config("out").with_dupe_factor(0);
    let (code, said) = Job::send("datafusion", &config, 2).end();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("dupe"), "{said}");
}

#[test]
fn a_cluster_without_executors() {
    let (text, cluster) = (Text::new(1, 5), Cluster::start(0));
    let (code, said) = Job::send(&cluster.engine(), &text.config("out"), 2).end();
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("no executors for 8 s"), "{said}");
}

#[test]
fn nobody_there() {
    let text = Text::new(1, 5);
    let (code, said) = Job::send("ballista://127.0.0.1:9", &text.config("out"), 2).end();
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("ballista://127.0.0.1:9"), "{said}");
}
