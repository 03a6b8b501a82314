//! Renders pages with a script, which a Content-Security-Policy admits by its SHA-256 digest.
//!
//! The page remains one file that loads nothing. Its data is a JSON block, which browsers do not execute.

use std::io::Write;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::document::{Head, document};

/// The script of a page, its styles, and the JSON document that it reads from the element `data`.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// JavaScript. It must not contain `</script`.
    pub code: &'a str,
    /// CSS, added to the styles of every page.
    pub style: &'a str,
    /// A JSON document.
    pub data: &'a str,
    /// Whether the script may connect to the server of the page.
    pub connects: bool,
}

/// JavaScript with the class `Chart`, which draws a chart from the data of [`crate::chart_data`].
pub const CHART_SCRIPT: &str = include_str!("chart.js");

/// Renders a whole page with a script.
///
/// Without JavaScript the page shows `body` alone. The Content-Security-Policy admits this script and images in the
/// page. If the script connects, the policy also admits connections to the page's own server.
///
/// # Panics
/// Panics if the code contains `</script`.
#[must_use]
pub fn interactive_page(head: &Head<'_>, body: &Markup, script: Script<'_>) -> String {
    let Script { code, style, data, connects } = script;
    // Inside a JSON string `\u003c` is the same character, and the block cannot be ended from within.
    let data = data.replace('<', "\\u003c");
    let body = html! { (body) script type="application/json" id="data" { (PreEscaped(data)) } };
    with_script(head, &body, code, style, connects)
}

/// Renders a page with charts.
#[must_use]
pub fn chart_page(head: &Head<'_>, body: &Markup) -> String {
    with_script(head, body, &format!("'use strict';(() => {{\n{CHART_SCRIPT}}})();"), "", false)
}

fn with_script(head: &Head<'_>, body: &Markup, code: &str, style: &str, connects: bool) -> String {
    assert!(!code.to_ascii_lowercase().contains("</script"), "the code would end its own element");
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'{}",
        BASE64_STANDARD.encode(Sha256::digest(code)),
        if connects { "; connect-src 'self'" } else { "" }
    );
    document(head, &policy, style, &html! { (body) script { (PreEscaped(code)) } })
}

/// Compresses bytes with gzip and returns them in Base64, as a script can read them with `DecompressionStream`.
///
/// # Panics
/// Never panics: writing to memory cannot fail.
#[must_use]
pub fn packed(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    BASE64_STANDARD.encode(encoder.finish().expect("memory"))
}

/// Renders a matrix as an image of one pixel per value, from transparent (0) to the colour `rgb` (255). CSS may enlarge
/// it.
///
/// # Shapes
/// - values: `[rows * columns]`, row by row
///
/// # Panics
/// Panics if the number of values is not `rows * columns`, or if the number of rows or columns is zero.
#[must_use]
pub fn heat_map(values: &[u8], columns: usize, rgb: [u8; 3], description: &str) -> Markup {
    let rows = values.len() / columns;
    assert!(rows > 0 && rows * columns == values.len(), "{} values, {columns} columns", values.len());
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, columns as u32, rows as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.set_palette(rgb.repeat(256));
    encoder.set_trns((0..=255).collect::<Vec<u8>>());
    let mut writer = encoder.write_header().expect("a valid header");
    writer.write_image_data(values).expect("one byte per pixel");
    writer.finish().expect("memory");
    let source = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(file));
    html! { img.pixels src=(source) width=(columns) height=(rows) alt=(description); }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn policy_admits_the_script_by_digest() {
        let script =
            Script { code: "let a = 1;", style: "b{}", data: "{\"t\":\"</script><b>\"}", connects: false };
        let page = interactive_page(&Head { title: "t", about: &[] }, &html! { p { "x" } }, script);
        // echo -n 'let a = 1;' | openssl dgst -sha256 -binary | base64
        let policy = "script-src 'sha256-xY6QKfH9PRsQnLz56nj6MBwiK5oHg+im1Jkpdp1x/Ck='";
        assert!(page.contains(policy) && page.contains("<script>let a = 1;</script>"), "{page}");
        assert!(
            page.contains("\\u003c/script>\\u003cb>") && page.matches("</script>").count() == 2,
            "{page}"
        );
    }

    #[test]
    fn packed_bytes_can_be_read_back() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i % 7) as u8).collect();
        let file = BASE64_STANDARD.decode(packed(&bytes)).unwrap();
        let mut read = Vec::new();
        GzDecoder::new(&file[..]).read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        assert!(file.len() < 100);
    }

    #[test]
    fn heat_map_has_one_pixel_per_value() {
        let html = heat_map(&[0, 128, 255, 7, 8, 9], 3, [31, 111, 235], "a & b").into_string();
        assert!(html.contains("width=\"3\" height=\"2\" alt=\"a &amp; b\""), "{html}");
        let data = html.split("base64,").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let file = BASE64_STANDARD.decode(data).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [0, 128, 255, 7, 8, 9]);
    }
}
