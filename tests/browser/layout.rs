//! The layout of every page, at two widths, in light and dark mode.

use super::driver::Browser;
use crate::common::{Folder, entailment};
use crate::programs::watch::Watch;

/// Returns a folder with every kind of page, and their names.
fn pages() -> (Folder, Vec<&'static str>) {
    let folder = Folder::with_run();
    folder.write("glue/RTE/train.tsv", entailment(0, 64));
    folder.write("glue/RTE/dev.tsv", entailment(64, 32));
    folder.write("one.txt", "the river flows to the sea .");
    let tune = "finetune --task rte --data glue --num-train-epochs 2 --checkpoint tiny-en";
    folder.ok(&format!("{tune} --seeds 1-6 --output tuned"));
    folder.ok(&format!("{tune} --seeds 1,2 --learning-rate 1e-3 --output other"));
    for line in [
        "bert report run",
        "bert report tuned",
        "bert report tuned other --output comparison.html",
        "bert inspect data --html",
        "bert attention 'a river ||| the water is long' --output attention.html",
        "bert projector --words 100 --output projector.html",
        "bert experiment masking --input one.txt --output masking",
        "bert experiment small-models --data glue --tasks rte --seeds 1,2 --output small -- --max-train-examples 32 --num-train-epochs 1",
    ] {
        folder.ok(line);
    }
    for (name, line) in [
        (
            "saliency.html",
            "bert probe --checkpoint tuned 'a river ||| a stream' --saliency --output-format html",
        ),
        (
            "probe.html",
            "bert probe --checkpoint tuned 'a river ||| a stream' --replace river=pipe --output-format html",
        ),
        ("scores.html", "bert scores tuned other --format html"),
        ("words.html", "bert fill-mask 'The river is [MASK].' --format html"),
    ] {
        let page = folder.ok(line).stdout;
        folder.write(name, page);
    }
    let names = vec![
        "run/report.html",
        "tuned/report.html",
        "comparison.html",
        "data.html",
        "attention.html",
        "projector.html",
        "masking/experiment.html",
        "small/experiment.html",
        "saliency.html",
        "probe.html",
        "scores.html",
        "words.html",
    ];
    (folder, names)
}

#[test]
#[ignore = "needs Chromium"]
fn every_page_is_readable_at_every_width() {
    let (folder, names) = pages();
    let watch = Watch::start(&folder, "run tuned");
    let live = format!("http://{}/", watch.address);
    let files = names.iter().map(|name| format!("file://{}", folder.at(name).display()));
    let addresses: Vec<String> = files.chain([live.clone()]).collect();
    let mut faults = Vec::new();
    for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
        let browser = Browser::start(width, dark);
        for name in &addresses {
            browser.open(name);
            browser.wait("document.readyState === 'complete' && !document.querySelector('.chart script')");
            browser.wait("!document.getElementById('runs') || document.querySelector('.badge')");
            let found = browser.run(include_str!("layout.js"));
            let found = found.as_array().expect("a list of faults");
            faults.extend(found.iter().map(|fault| format!("{name} at {width}, dark {dark}: {fault}")));
        }
        browser.check_logs(&live);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
