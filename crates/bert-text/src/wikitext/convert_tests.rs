//! Tests of the conversion of wikitext.

use std::time::Instant;

use super::*;

fn text(source: &str) -> String {
    plain_text(source, &Namespaces::default())
}

fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(text(source).trim_end(), *expected, "{source}");
    }
}

#[test]
fn links_show_their_text() {
    check(&[
        ("A [[mill]] and [[Water wheel|wheels]]s.", "A mill and wheelss."),
        ("[[:Category:Mills]] and [[:de:Mühle|Mühle]].", "Category:Mills and Mühle."),
        (
            "An [https://example.org/a?b=c old mill], [http://example.org], https://example.org.",
            "An old mill, https://example.org.",
        ),
        ("[[Category:Mills| ]][[de:Mühle]][[zh-min-nan:Chúi]]The mill.", "The mill."),
        ("[[File:A.jpg|thumb|A [[mill]] by [http://a.org him]\n\nin two parts]]The mill.", "The mill."),
        ("[[Datei:A.jpg|mini|x]][[Файл:Б.jpg]]The mill.", "The mill."),
        ("[[Star Wars: A Film|the film]] and [[Re: Zero]].", "the film and Re: Zero."),
        ("Not [a link], not [[a\nlink]] and a [[Mill|mill", "Not [a link], not a\nlink and a mill"),
    ]);
}

#[test]
fn emphasis_and_entities_are_resolved() {
    check(&[
        ("'''Bold''', ''italic'', '''''both''''' and l''''eau'''.", "Bold, italic, both and l'eau."),
        (
            "It's 5&nbsp;&lt;&nbsp;6 &amp; 7&#x2013;8 &#8212; &unknown; A&B.",
            "It's 5 < 6 & 7–8 — &unknown; A&B.",
        ),
        ("__NOTOC__The mill __БЕЗ_ОГЛ__ is snake__case__name.", "The mill is snake__case__name."),
        ("The -{zh-hans:软件; zh-hant:軟體}- and -{mill}-.-{T|zh:x}-", "The 软件 and mill."),
    ]);
}

#[test]
fn templates_are_removed_unless_they_are_words() {
    check(&[
        ("{{Infobox mill|name={{PAGENAME}}\n| height = {{convert|5|m}}}}The mill.", "The mill."),
        ("It is {{convert|5|km|mi|abbr=on}} long, {{circa|1850}}.", "It is 5 km long, c. 1850."),
        ("''{{lang|de|Mühle}}'' and {{nowrap|1=3 [[mill]]s}}.", "Mühle and 3 mills."),
        ("It has {{formatnum:12345}} mills, {{langx|de|Mühlen}}.", "It has 12345 mills, Mühlen."),
        ("{{{parameter|default}}}A {{a|{{{b}}}}}mill.", "A mill."),
        ("The mill {{cite|[[a}} b]] stands.", "The mill b stands."),
        ("An unclosed {{template keeps its text.", "An unclosed template keeps its text."),
        ("Braces }} that close nothing.", "Braces that close nothing."),
    ]);
}

#[test]
fn references_and_extensions_are_removed() {
    check(&[
        (
            "The mill<ref name=\"a>b\">{{cite|x}} </ref> stands<ref name=b /> here.<REF>x</ref >",
            "The mill stands here.",
        ),
        ("The mill<ref name=a>x</ref>, <!-- [[old]] -->which<br />stands.", "The mill, which\nstands."),
        ("Where <math>\\frac{a}{{b}}</math> holds.<gallery>\nA.jpg|x\n</gallery>", "Where holds."),
        (
            "<nowiki>[[a]] &lt; ''b''</nowiki>; <nowiki/>H<sub>2</sub>O, <code>x</code>.",
            "[[a]] < ''b''; H2O, x.",
        ),
        ("<references>\n<ref>x</ref> y\n</references>The mill.", "The mill."),
        ("<div class=\"x\">The mill</div><p>It stands", "The mill\nIt stands"),
        (
            "If a < b and b > c, <foo> is text. A <ref>that never closes is text.",
            "If a < b and b > c, <foo> is text. A that never closes is text.",
        ),
    ]);
}

#[test]
fn exponents_keep_their_sign() {
    check(&[
        ("3·10<sup>8</sup> m/s, x<sup>2</sup> and 10<sup>-3</sup>.", "3·10^8 m/s, x^2 and 10^-3."),
        ("10{{sup|8}} and 10{{sup|−3}}", "10^8 and 10^−3"),
        ("The 4<sup>th</sup> mill of H<sub>2</sub>O.", "The 4th mill of H2O."),
    ]);
}

#[test]
fn tables_are_removed() {
    check(&[
        ("A\n{| class=\"x\"\n|-\n! h || i\n| a\n {|\n| inner\n|}\n| c\n|}\nB", "A\nB"),
        ("A\n:{|\n| a {{x|}} b\n|}\nB", "A\nB"),
        ("A\n{|\n| never closed\n== History ==\nB", "A\nB"),
        ("A\n<table><tr><td>x</td></tr></table>\nB", "A\nB"),
        ("A {| is no table | here.", "A {| is no table | here."),
    ]);
}

#[test]
fn headings_and_bare_lists_are_removed() {
    check(&[
        (
            "Intro.\n== History ==\nThe mill.\n* It burnt.\n* 1850\n: Indented.\n== See also ==\n* It is a book.\n",
            "Intro.\nThe mill.\nIt burnt.\nIndented.",
        ),
        ("----\nA\n\n\nB\n|-\n! x\n...\n", "A\nB"),
        (
            "Mill ({{IPA|x}}; born 1850) and ( , ) none (a .22 rifle) .",
            "Mill (born 1850) and none (a .22 rifle).",
        ),
        ("#redirect", ""),
        ("", ""),
    ]);
}

/// Repeated pieces of markup that never ends.
const HOSTILE_UNITS: [&str; 25] = [
    "[[a|",
    "{{a|",
    "\n{|\n|",
    "<ref>",
    "<ref",
    "''a",
    "<!--",
    "[http://a ",
    "-{",
    "__A",
    "&am",
    "]]",
    "}}",
    "[[File:a|\n\n",
    "<math></ref>",
    "<table><td>",
    "((((",
    "{{a|[[b|",
    "\n|}",
    "\n== a",
    "<nowiki>",
    "</",
    "[[a\n",
    "{{{",
    "\n{|\n== a ==\n",
];

/// Eight times the text takes at most about 24 times as long, and the output is at most one byte longer than the
/// source.
#[test]
fn time_is_linear_in_hostile_text() {
    for unit in HOSTILE_UNITS {
        let time = |bytes: usize| {
            let source = unit.repeat(bytes / unit.len());
            let one = |_| {
                let start = Instant::now();
                assert!(text(&source).len() <= source.len() + 1);
                start.elapsed().as_secs_f64()
            };
            (0..3).map(one).fold(f64::MAX, f64::min)
        };
        let short = time(50_000);
        let long = time(400_000);
        assert!(long < 24.0 * short + 0.05, "{unit}: {short} s and {long} s");
    }
}
