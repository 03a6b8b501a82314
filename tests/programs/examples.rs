//! Runs the programs of `examples/` without arguments. Cargo builds them before this test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Returns the path of an example.
fn example(name: &str) -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(name)
}

/// Returns the output of an example.
fn output_of(name: &str) -> String {
    let program = example(name);
    let output = Command::new(&program).output().unwrap_or_else(|error| {
        panic!(
            "{}: {error} (cargo test builds it, cargo test --test integration does not)",
            program.display()
        )
    });
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{name}: {message}{}", String::from_utf8_lossy(&output.stderr));
    message
}

/// Returns a text with `#` for each number and `PATH` for each absolute path.
fn without_figures(text: &str) -> String {
    let word = |word: &str| {
        if word.starts_with('/') {
            return "PATH".to_string();
        }
        let digit = |c: char| c.is_ascii_digit() || c == '.';
        let parts = word.split_inclusive(|c| !digit(c));
        parts
            .map(|part| {
                if part.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("#{}", part.trim_start_matches(digit))
                } else {
                    part.to_string()
                }
            })
            .collect()
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<String>>().join(" ");
    text.trim_end().lines().map(line).collect::<Vec<String>>().join("\n")
}

#[test]
fn guide_shows_the_output_of_every_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("docs/guide/library.md")).expect("the page");
    for entry in std::fs::read_dir(root.join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension() != Some("rs".as_ref()) {
            continue;
        }
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // It runs until it is stopped.
        if name == "service" {
            continue;
        }
        let (_, after) = guide.split_once(&format!("<!-- output: {name} -->\n\n```text\n")).expect(&name);
        let (shown, _) = after.split_once("```").expect("the end of a block");
        assert_eq!(without_figures(&output_of(&name)), without_figures(shown), "{name}");
    }
}

#[test]
fn custom_training_loop_example_runs() {
    let message = output_of("training_loop");
    let losses: Vec<f64> = message
        .lines()
        .map(|line| line.split_whitespace().nth(3).unwrap().trim_end_matches(',').parse().unwrap())
        .collect();
    assert_eq!(losses.len(), 8, "{message}");
    assert!(losses[7] < losses[0], "the loss does not fall: {message}");
}

/// A process that is killed when the test ends.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the status line and the body of the answer to a list of texts.
fn post(address: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: service\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    (head.lines().next().unwrap().to_string(), body.to_string())
}

#[test]
fn service_example_embeds_texts_of_many_requests() {
    let mut command = Command::new(example("service"));
    let mut service = Service(command.env("ADDRESS", "127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(service.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("the address");

    let texts = ["a warm day", "the rain is cold", "a ship"];
    let alone: Vec<Vec<f32>> = texts
        .map(|text| {
            let (status, body) = post(address, "/embed", &serde_json::to_string(&[text]).unwrap());
            assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
            serde_json::from_str::<Vec<Vec<f32>>>(&body).unwrap().remove(0)
        })
        .to_vec();
    assert!(alone.iter().all(|vector| vector.len() == 128) && alone[0] != alone[1]);
    // Requests at the same time share batches, and each gets its own vectors.
    std::thread::scope(|scope| {
        for first in 0..8 {
            let alone = &alone;
            scope.spawn(move || {
                let own = [first % 3, (first + 1) % 3];
                let body = serde_json::to_string(&own.map(|text| texts[text])).unwrap();
                let (_, body) = post(address, "/embed", &body);
                let vectors: Vec<Vec<f32>> = serde_json::from_str(&body).unwrap();
                assert_eq!(vectors.len(), 2);
                for (vector, text) in vectors.iter().zip(own) {
                    let far = vector.iter().zip(&alone[text]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(far < 1e-5, "{far}");
                }
            });
        }
    });
    assert_eq!(post(address, "/embed", "[]"), ("HTTP/1.1 200 OK".to_string(), "[]".to_string()));
    assert!(post(address, "/embed", "{}").0.contains("422"));
    assert!(post(address, "/classify", "[]").0.contains("404"), "no classifier was named");
}
