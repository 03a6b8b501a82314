//! Serves vectors and classes of texts over HTTP. Texts of requests that wait at the same time share a batch.
//!
//! `cargo run --release --example service [-- MODEL [CLASSIFIER]]`, then
//! `curl 127.0.0.1:8080/embed --json '["a warm day", "the rain is cold"]'`
//!
//! MODEL is any model folder, by default the built-in `tiny-en`; CLASSIFIER is the folder of a fine-tuning. The address
//! is 127.0.0.1:8080, or the value of the variable ADDRESS. Each model has a thread of its own: while it computes a
//! batch, new requests wait, and the next batch has the texts of several requests.

use std::path::{Path, PathBuf};
use std::thread;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use bert::inference::{Error, ModelOptions};
use bert::prelude::{Classifier, Example, Extractor, resolve_model_folder};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// Maximum number of texts in a batch, apart from the texts of its last request.
const BATCH: usize = 256;
/// Maximum number of requests that wait for a model; more are refused.
const QUEUE: usize = 1024;

/// The texts of a request, and the channel for their results or an error.
struct Job {
    texts: Vec<String>,
    reply: oneshot::Sender<Result<Vec<Value>, String>>,
}

/// The queue of a model.
type Queue = mpsc::Sender<Job>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let model = folders.next().unwrap_or_else(|| "tiny-en".into());
    let mut service = Router::new().route("/embed", post(answer).with_state(embedder(&model)?));
    if let Some(folder) = folders.next() {
        service = service.route("/classify", post(answer).with_state(classifier(&folder)?));
    }
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_string());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, service).await?)
}

/// Starts a thread that computes one vector for each text. The pooling method comes from the folder of a sentence
/// model; for other models, it is the mean of the last layer.
fn embedder(folder: &Path) -> Result<Queue, Box<dyn std::error::Error>> {
    let folder = resolve_model_folder(folder, &mut |warning| eprintln!("{warning}"))?;
    let extractor = Extractor::open(&folder, ModelOptions::default())?.with_sentence_pooling()?;
    Ok(start(move |texts| {
        let lines = extractor.encode(texts)?;
        Ok(lines.into_iter().map(|line| json!(line.layers[0])).collect())
    }))
}

/// Starts a thread that computes the class of each text with its probabilities.
fn classifier(folder: &Path) -> Result<Queue, Box<dyn std::error::Error>> {
    let folder = resolve_model_folder(folder, &mut |warning| eprintln!("{warning}"))?;
    let classifier = Classifier::open(&folder, ModelOptions::default())?;
    Ok(start(move |texts| {
        let examples: Vec<Example> = texts.iter().map(|text| Example::from_text(*text)).collect();
        let answers = classifier.answer(&examples)?;
        Ok(answers.into_iter().map(|answer| json!(answer)).collect())
    }))
}

/// Starts the thread of a model, which passes the texts of waiting requests to `compute` in batches.
fn start(compute: impl Fn(&[&str]) -> Result<Vec<Value>, Error> + Send + 'static) -> Queue {
    let (queue, mut jobs) = mpsc::channel::<Job>(QUEUE);
    thread::spawn(move || {
        while let Some(first) = jobs.blocking_recv() {
            let mut batch = vec![first];
            while batch.iter().map(|job| job.texts.len()).sum::<usize>() < BATCH {
                let Ok(job) = jobs.try_recv() else { break };
                batch.push(job);
            }
            let texts: Vec<&str> = batch.iter().flat_map(|job| &job.texts).map(String::as_str).collect();
            let mut results = compute(&texts).map(Vec::into_iter).map_err(|error| error.to_string());
            for Job { texts, reply } in batch {
                let own = match &mut results {
                    Ok(results) => Ok(results.take(texts.len()).collect()),
                    Err(error) => Err(error.clone()),
                };
                // The error can be discarded, because it means that the client has closed the connection.
                drop(reply.send(own));
            }
        }
    });
    queue
}

/// Answers a request, whose body is a list of texts, with a list of results.
async fn answer(
    State(queue): State<Queue>,
    Json(texts): Json<Vec<String>>,
) -> Result<Json<Vec<Value>>, (StatusCode, String)> {
    let (reply, result) = oneshot::channel();
    let busy = |_| (StatusCode::SERVICE_UNAVAILABLE, "too many requests wait; try again".to_string());
    queue.try_send(Job { texts, reply }).map_err(busy)?;
    let ended = |_| (StatusCode::INTERNAL_SERVER_ERROR, "the model has ended".to_string());
    let results = result.await.map_err(ended)?;
    results.map(Json).map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error))
}
