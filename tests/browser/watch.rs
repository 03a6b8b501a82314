//! The page of `bert watch`.

use super::driver::Browser;
use crate::common::{Folder, QUICK};
use crate::programs::watch::Watch;

#[test]
#[ignore = "needs Chromium"]
fn live_page_follows_a_run_that_is_killed_and_resumed() {
    let folder = Folder::with_data();
    let line = format!("pretrain {QUICK} --steps 100000 --save-every 5 --output run");
    let mut child = folder.start(&line);
    while !folder.at("run/metrics.jsonl").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let watch = Watch::start(&folder, "run --interval 1");
    let browser = Browser::start(390, true);
    browser.open(&format!("http://{}/", watch.address));
    let badge = |state: &str| format!("document.querySelector('.badge')?.dataset.state === '{state}'");
    browser.wait(&badge("running"));
    browser.wait("document.querySelector('.chart svg polyline')");
    let text = browser.text("section p.state");
    assert!(text.contains("of 100,000 steps"), "{text}");
    browser.wait(&format!(
        "document.querySelector('section p.state').innerText !== {}",
        serde_json::json!(text)
    ));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    browser.wait(&badge("stopped"));
    let stopped = browser.text("section p.state");
    let last = folder.json("run/metrics.jsonl").pop().expect("a step")["step"].as_u64().expect("a number");
    assert!(stopped.replace(',', "").contains(&format!("stopped at step {last}:")), "{last}: {stopped}");
    let mut child = folder.start(&format!("{line} --resume"));
    browser.wait(&badge("running"));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    browser.check_logs(&format!("http://{}/", watch.address));
}
