//! Prints the text of each article of a Wikipedia dump as JSON Lines, and the time in seconds on stderr.
//!
//! ```sh
//! cargo run --release --example dump_text -- xxwiki-pages-articles.xml.bz2 > articles.jsonl
//! ```

use std::io::{BufWriter, Write, stdout};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a dump")?;
    let (start, mut articles, mut words) = (Instant::now(), 0u64, 0);
    let mut out = BufWriter::new(stdout().lock());
    let mut written = Ok(());
    bert_data::training_text::for_each_article(Path::new(&path), &mut |text| {
        articles += 1;
        words += text.split_whitespace().count();
        if written.is_ok() {
            written = writeln!(out, "{}", serde_json::json!({ "text": text }));
        }
    })?;
    written?;
    out.flush()?;
    eprintln!("{articles} articles, {words} words, {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}
