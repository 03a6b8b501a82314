//! The tokenization `13a` of mteval-v13a.pl, as in sacreBLEU: punctuation becomes separate tokens, except periods and
//! commas inside numbers, and hyphens that do not follow a digit.

use super::ngrams::split_like_python;

/// Returns the tokens of a line.
pub fn tokenize(line: &str) -> Vec<String> {
    let line = line.trim_end().replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let mut line = line;
    if line.contains('&') {
        for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
            line = line.replace(entity, character);
        }
    }
    let padded = format!(" {line} ");
    let separated: String =
        padded.chars().map(|c| if is_separate(c) { format!(" {c} ") } else { c.to_string() }).collect();
    let is_point = |c: char| c == '.' || c == ',';
    let is_digit = |c: char| c.is_ascii_digit();
    // Each rule looks at two characters, and continues after both where it applies.
    let text = replace_pairs(&separated, |a, b| (!is_digit(a) && is_point(b)).then(|| format!("{a} {b} ")));
    let text = replace_pairs(&text, |a, b| (is_point(a) && !is_digit(b)).then(|| format!(" {a} {b}")));
    let text = replace_pairs(&text, |a, b| (is_digit(a) && b == '-').then(|| format!("{a} {b} ")));
    split_like_python(&text).map(String::from).collect()
}

/// Returns whether a character is always a token of its own: ASCII punctuation except `'`, `,`, `-` and `.`.
fn is_separate(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '\'' | ',' | '-' | '.')
}

fn replace_pairs(text: &str, rule: impl Fn(char, char) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(first) = rest.next() {
        match rest.clone().next().and_then(|second| rule(first, second)) {
            Some(replaced) => {
                out.push_str(&replaced);
                rest.next();
            }
            None => out.push(first),
        }
    }
    out
}
