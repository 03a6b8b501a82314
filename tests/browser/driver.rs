//! Drives Chromium over WebDriver (W3C), and collects console errors and requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser window. Dropping it ends the browser.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with a window of this width, in dark or light mode.
    pub(crate) fn start(width: u32, dark: bool) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed");
        let lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok())
            .expect("chromedriver prints its port");
        let profile = tempfile::tempdir().expect("a folder");
        let mut args: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]
        .map(String::from)
        .into();
        args.push(format!("--user-data-dir={}", profile.path().display()));
        let options = json!({ "args": args });
        let logs = json!({ "browser": "ALL", "performance": "ALL" });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": logs });
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let session = browser.post("", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("/{}", session["sessionId"].as_str().expect("a session"));
        let device = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        for (command, parameters) in [
            ("Emulation.setDeviceMetricsOverride", device),
            ("Emulation.setEmulatedMedia", json!({ "features": [scheme] })),
        ] {
            browser.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
        }
        browser
    }

    /// Opens an address.
    pub(crate) fn open(&self, address: &str) {
        self.post("/url", &json!({ "url": address }));
    }

    /// Runs a function body in the page and returns its result.
    pub(crate) fn run(&self, code: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": code, "args": [] }))
    }

    /// Returns the text of the first element that a selector finds.
    pub(crate) fn text(&self, selector: &str) -> String {
        let value = self.run(&format!("return document.querySelector({}).innerText", json!(selector)));
        value.as_str().unwrap_or_default().to_string()
    }

    /// Waits up to 20 seconds until an expression is true.
    pub(crate) fn wait(&self, expression: &str) {
        let start = Instant::now();
        while self.run(&format!("return Boolean({expression})")) != Value::Bool(true) {
            assert!(start.elapsed() < Duration::from_secs(20), "not true after 20 s: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks the center of the first element that a selector finds, `count` times, with a real pointer.
    pub(crate) fn click(&self, selector: &str, count: usize) {
        let pointer = |action: Value| -> Value {
            json!({ "actions": [{ "type": "pointer", "id": "mouse", "actions": action }] })
        };
        let press =
            [json!({ "type": "pointerDown", "button": 0 }), json!({ "type": "pointerUp", "button": 0 })];
        let mut actions = vec![self.move_to(selector)];
        actions.extend((0..count).flat_map(|_| press.clone()));
        self.post("/actions", &pointer(json!(actions)));
    }

    /// Moves the pointer to the center of an element.
    pub(crate) fn hover(&self, selector: &str) {
        let actions = json!([{ "type": "pointer", "id": "mouse", "actions": [self.move_to(selector)] }]);
        self.post("/actions", &json!({ "actions": actions }));
    }

    fn move_to(&self, selector: &str) -> Value {
        let code = "const element = document.querySelector(arguments[0]); element.scrollIntoView({ block: 'center' }); \
                    return element;";
        let element = self.post("/execute/sync", &json!({ "script": code, "args": [selector] }));
        json!({ "type": "pointerMove", "origin": element, "x": 0, "y": 0 })
    }

    /// Presses a key (WebDriver's code or a character).
    pub(crate) fn key(&self, key: &str) {
        let keys = [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })];
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] }));
    }

    /// Checks that the console has no error and that all requests went to files, data, the browser itself or `host`.
    pub(crate) fn check_logs(&self, host: &str) {
        let errors = self.post("/se/log", &json!({ "type": "browser" }));
        let severe: Vec<&Value> =
            errors.as_array().expect("a list").iter().filter(|entry| entry["level"] == "SEVERE").collect();
        assert!(severe.is_empty(), "{severe:?}");
        let events = self.post("/se/log", &json!({ "type": "performance" }));
        for event in events.as_array().expect("a list") {
            let event: Value = serde_json::from_str(event["message"].as_str().expect("JSON")).expect("JSON");
            if event["message"]["method"] == "Network.requestWillBeSent" {
                let url = event["message"]["params"]["request"]["url"].as_str().expect("an address");
                let own = ["file:", "data:", "blob:", "chrome:", "chrome-untrusted:"]
                    .iter()
                    .any(|scheme| url.starts_with(scheme));
                assert!(own || (!host.is_empty() && url.starts_with(host)), "a request to {url}");
            }
        }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let path = format!("/session{}{path}", self.session);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
        write!(stream, "POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            .expect("a request");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        for line in reader.by_ref().lines() {
            let line = line.expect("a header").to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).expect("an answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let head = "Host: localhost\r\nConnection: close\r\n\r\n";
            let _ = write!(stream, "DELETE /session{} HTTP/1.1\r\n{head}", self.session);
            // chromedriver keeps the connection open, so the end of the stream never comes.
            let _ = stream.read(&mut [0; 1024]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
