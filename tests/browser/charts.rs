//! The charts of report pages.

use super::driver::Browser;
use crate::common::Folder;

#[test]
#[ignore = "needs Chromium"]
fn charts_show_values_and_zoom() {
    let folder = Folder::with_run();
    folder.ok("bert report run");
    let steps = folder.json("run/metrics.jsonl");
    for (width, dark) in [(1280, false), (390, true)] {
        let browser = Browser::start(width, dark);
        browser.open(&format!("file://{}", folder.at("run/report.html").display()));
        browser.wait("document.querySelectorAll('.plot svg').length >= 3");
        // The last chart: the gradient norm, without smoothing.
        browser.run("[...document.querySelectorAll('.plot')].pop().id = 'last'");
        browser.run("document.getElementById('last').focus()");
        browser.key("\u{e014}");
        let shown = browser.text("#last .tip");
        let norm = steps[5]["gradient_norm"].as_f64().expect("a number");
        let number: f64 = shown.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("a number");
        assert!(shown.starts_with("step 6\n") && (number - norm).abs() < 1e-3 * norm, "{norm}: {shown}");
        assert_eq!(
            browser.run("return document.querySelectorAll('.axes').length"),
            1,
            "one bar for all charts"
        );
        let first = "Number(document.querySelector('#last svg text[text-anchor=middle]').textContent)";
        assert_eq!(browser.run(&format!("return {first}")), 0);
        browser.key("+");
        browser.wait(&format!("{first} > 0"));
        browser.key("0");
        browser.wait(&format!("{first} === 0"));
        let clipped = "[...document.querySelectorAll('.plot')].some(plot => [...plot.querySelectorAll('text')].some(text \
                       => { const [a, b] = [text, plot].map(one => one.getBoundingClientRect()); return a.right > \
                       b.right + 1 || a.left < b.left - 1; }))";
        assert_eq!(browser.run(&format!("return {clipped}")), false, "a label is cut at {width}");
        let overflow = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(browser.run(&format!("return {overflow}")), true, "no sideways scroll at {width}");
        browser.check_logs("");
    }
}
