//! The page of `bert attention`.

use serde_json::Value;

use super::driver::Browser;
use crate::common::Folder;

const TEXT: &str = "'a river is a spring of unwatered land ||| the source of the water is long'";
const READOUT: &str = ".panel .readout";
/// The right arrow key in WebDriver.
const RIGHT: &str = "\u{e014}";

/// Returns a folder with `attention.html` of a trained model, and the numbers of `--json`.
fn page() -> (Folder, Value) {
    let folder = Folder::with_run();
    let json = folder.ok(&format!("bert attention --checkpoint run {TEXT} --json")).json();
    (folder, json["models"][0].clone())
}

/// Returns the weight of a head.
fn weight(model: &Value, [layer, head, query, key]: [usize; 4]) -> f64 {
    model["weights"][layer][head][query][key].as_f64().expect("a number")
}

fn open(folder: &Folder, width: u32, dark: bool) -> Browser {
    let browser = Browser::start(width, dark);
    browser.open(&format!("file://{}", folder.at("attention.html").display()));
    browser.wait("document.querySelector('.tokens button')");
    browser
}

/// Returns the numbers next to the keys.
fn shown_weights(browser: &Browser) -> Vec<f64> {
    let texts =
        browser.run("return [...document.querySelectorAll('.to .v')].map(value => value.textContent)");
    let parse = |text: &Value| text.as_str().expect("text").parse().expect("a number");
    texts.as_array().expect("a list").iter().map(parse).collect()
}

/// Checks the numbers next to the keys, whose first is token `first`, for a query: means over heads.
fn check_shown(browser: &Browser, model: &Value, layer: usize, heads: &[usize], query: usize, first: usize) {
    let shown = shown_weights(browser);
    assert!(!shown.is_empty());
    for (at, shown) in shown.iter().enumerate() {
        let sum: f64 = heads.iter().map(|&head| weight(model, [layer, head, query, first + at])).sum();
        let mean = sum / heads.len() as f64;
        assert!((mean - shown).abs() < 0.003, "{query} to {at}: {mean} but {shown} is shown");
    }
}

#[test]
#[ignore = "needs Chromium"]
fn head_view_shows_the_models_weights() {
    let (folder, model) = page();
    for (width, dark) in [(1280, false), (390, true)] {
        let browser = open(&folder, width, dark);
        browser.hover(".from [data-at='2']");
        check_shown(&browser, &model, 0, &[0, 1], 2, 0);
        browser.click("[data-head='1']", 2);
        browser.hover(".from [data-at='3']");
        check_shown(&browser, &model, 0, &[1], 3, 0);
        browser.click(".chips .all", 1);
        browser.click("[data-head='1']", 1);
        browser.click(".from [data-at='1']", 1);
        browser.hover("h1");
        check_shown(&browser, &model, 0, &[0], 1, 0);
        browser.run("document.activeElement.blur()");
        browser.key(RIGHT);
        check_shown(&browser, &model, 1, &[0], 1, 0);
        assert!(browser.text(READOUT).contains("layer 1, head 0"), "{}", browser.text(READOUT));
        let overflow = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(browser.run(&format!("return {overflow}")), true, "no sideways scroll at {width}");
        let dark_now = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches");
        assert_eq!(dark_now, dark);
        browser.check_logs("");
    }
}

#[test]
#[ignore = "needs Chromium"]
fn filters_choose_sentences_and_words() {
    let (folder, model) = page();
    let browser = open(&folder, 1280, true);
    let segments = model["segments"].as_array().expect("a list");
    let first_b = segments.iter().position(|segment| *segment == 1).expect("a pair");
    let choose = |label: &str, value: &str| {
        let select = format!("document.querySelector(\"select[aria-label='{label}']\")");
        browser.run(&format!("{select}.value = '{value}'; {select}.dispatchEvent(new Event('change'))"));
    };
    choose("Sentences", "AB");
    let count =
        |side: &str| browser.run(&format!("return document.querySelectorAll('.{side} button').length"));
    assert_eq!(count("from"), first_b);
    assert_eq!(count("to"), segments.len() - first_b);
    browser.hover(".from [data-at='1']");
    check_shown(&browser, &model, 0, &[0, 1], 1, first_b);
    choose("Sentences", "all");
    choose("Tokens", "1");
    let words = model["words"].as_array().expect("a list");
    let last = words[words.len() - 1].as_u64().expect("a number");
    assert!((last as usize) + 1 < words.len(), "some word has two pieces");
    assert_eq!(count("to"), last + 1);
    browser.hover(".from [data-at='1']");
    let sum: f64 = shown_weights(&browser).iter().sum();
    assert!((sum - 1.0).abs() < 0.05, "the weights of a word sum to 1, not {sum}");
    browser.check_logs("");
}

#[test]
#[ignore = "needs Chromium"]
fn model_and_neuron_views_show_the_models_weights() {
    let (folder, model) = page();
    let browser = open(&folder, 390, false);
    browser.click("[data-view='model']", 1);
    browser.click("[aria-label='layer 1, head 1']", 1);
    browser.run("document.querySelector('.enlarged canvas').focus()");
    browser.key(RIGHT);
    browser.key(RIGHT);
    let shown = browser.text(".enlarged .readout");
    let number: f64 = shown.rsplit(": ").next().and_then(|text| text.parse().ok()).expect("a number");
    assert!((number - weight(&model, [1, 1, 0, 1])).abs() < 0.003, "{shown}");
    browser.click(".enlarged button", 1);
    browser.wait("document.querySelector(\"[data-head='1'][aria-pressed=true]\")");
    browser.click("[data-view='neurons']", 1);
    let rows = browser.run(
        "return [...document.querySelectorAll('.keys tr')].slice(1).map(row => [...row.cells].slice(1, 3).map(cell => \
         Number(cell.textContent)))",
    );
    let rows: Vec<[f64; 2]> = serde_json::from_value(rows).expect("numbers");
    let total: f64 = rows.iter().map(|[score, _]| score.exp()).sum();
    for (key, [score, shown]) in rows.iter().enumerate() {
        assert!((shown - weight(&model, [1, 1, 1, key])).abs() < 0.003);
        assert!((score.exp() / total - shown).abs() < 0.01, "the softmax of the scores is the weight");
    }
    browser.check_logs("");
}
