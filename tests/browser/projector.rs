//! The page of `bert projector`.

use super::driver::Browser;
use crate::common::Folder;

#[test]
#[ignore = "needs Chromium"]
fn projector_lists_the_nearest_words() {
    let folder = Folder::new();
    folder.ok("bert projector --words 200 --tensors tensors");
    let labels: Vec<String> = folder.text("tensors/metadata.tsv").lines().map(String::from).collect();
    let row = |line: &str| -> Vec<f64> { line.split('\t').map(|x| x.parse().expect("a number")).collect() };
    let vectors: Vec<Vec<f64>> = folder.text("tensors/vectors.tsv").lines().map(row).collect();
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
    let cosine = |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    let at = 100;
    let others = (0..labels.len()).filter(|other| *other != at);
    let best = others
        .max_by(|a, b| cosine(&vectors[at], &vectors[*a]).total_cmp(&cosine(&vectors[at], &vectors[*b])));
    let best = best.expect("a word");
    for (width, dark) in [(1280, true), (390, false)] {
        let browser = Browser::start(width, dark);
        browser.open(&format!("file://{}", folder.at("projector.html").display()));
        browser.wait("document.querySelector('canvas').height > 300");
        let search = "const input = document.querySelector('input[type=search]'); input.value =";
        let label = serde_json::json!(labels[at]);
        browser.run(&format!("{search} {label}; input.dispatchEvent(new Event('input'))"));
        let shown = browser.text(".list tr:nth-child(2)");
        let expected = format!("{}\t{:.3}", labels[best], cosine(&vectors[at], &vectors[best]));
        assert_eq!(shown.split_whitespace().collect::<Vec<_>>().join("\t"), expected);
        browser.click("[aria-label='zoom in']", 1);
        let overflow = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(browser.run(&format!("return {overflow}")), true, "no sideways scroll at {width}");
        browser.check_logs("");
    }
}
