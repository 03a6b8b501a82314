//! HTML reports show text and names from untrusted files.

use serde_json::json;

use super::BUILD;
use crate::common::Folder;

/// Checks that text and names in HTML reports never become markup.
#[test]
fn pages_escape_untrusted_text() {
    let folder = Folder::with_data();
    let evil = "<script>alert(1)</script><img src=http://x onerror='alert(2)'>\"&";
    let name = "a<script>alert(3)<b>";
    // Each character is a separate word, so that the text is returned piece by piece.
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n<script>\n<img\n<\n>\n/\n(\n)\n'\n\"\n&\n=\n:\nscript\nalert\nimg\nsrc\nhttp\n1\n2\nx\nonerror\n";
    folder.write(&format!("{name}/vocab.txt"), words);
    folder.write(&format!("{name}/text.txt"), format!("{evil}\n{evil}\n\n").repeat(12));
    folder.ok(&format!(
        "{BUILD} --input '{name}/text.txt' --vocab '{name}/vocab.txt' --num-shards 1 --output '{name}/data'"
    ));
    let mut config = folder.config();
    config["vocab_size"] = json!(words.lines().count());
    folder.write(&format!("{name}/config.json"), config.to_string());
    folder.ok(&format!(
        "pretrain --data '{name}/data' --model '{name}/config.json' --steps 2 --batch-size 4 --output '{name}/run'"
    ));
    folder.ok(&format!("bert inspect '{name}/data' --html=inspect.html"));
    folder.ok(&format!("bert report '{name}/run' --output report.html"));
    folder.ok(&format!(
        "bert attention --checkpoint '{name}/run' \"<script>alert(1)</script>\" --output attention.html"
    ));
    for page in ["inspect.html", "report.html", "attention.html"] {
        let html = folder.text(page);
        // The policy admits the page's own script by its digest.
        let own = [
            "<script type=\"application/json\"",
            "<script>'use strict';",
            "<img class=\"pixels\" src=\"data:image/png",
        ];
        let lower = own.iter().fold(html.clone(), |html, own| html.replace(own, "")).to_lowercase();
        assert_eq!(html.contains("</script>"), html.contains("script-src 'sha256-"), "{page}");
        for markup in
            ["<script", "<img", "<iframe", "<link", "@import", "src=\"", "href=\"", "url(", "alert(3)<b>"]
        {
            assert!(!lower.contains(markup), "{page} has {markup:?}");
        }
        assert!(html.contains("&lt;"), "{page} shows none of it");
    }
}
