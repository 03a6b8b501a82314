//! The text of templates that are part of a sentence.
//!
//! A dump of articles contains the calls of templates, not their text. Most calls are outside of sentences: boxes,
//! notes, maintenance. [`shown`] knows some that many Wikipedias share and without which a sentence would be
//! incomplete; all others have no text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Templates whose text is their first parameter.
static FIRST_PARAMETER: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("first_parameter.txt").lines().collect());

/// Returns the text of a template with these parameters, which may be empty.
pub(super) fn shown(name: &str, parameters: &[&str]) -> Cow<'static, str> {
    let name = name.trim().to_lowercase();
    let name = name.replace('_', " ");
    if let Some(number) = name.strip_prefix("formatnum:") {
        return number.trim().to_owned().into();
    }
    let positional = positional(parameters);
    let parameter = |number: usize| positional.get(number).copied().unwrap_or_default().to_owned();
    match name.as_str() {
        "lang" | "tlit" | "transl" | "transliteration" | "langue" | "lang2" => {
            positional.last().map_or(String::new(), |_| parameter(positional.len().min(3) - 1))
        }
        "langx" => parameter(1),
        _ if name.starts_with("lang-") => parameter(0),
        name if FIRST_PARAMETER.contains(name) => parameter(0),
        "convert" | "cvt" | "conv" => convert(&positional),
        "circa" | "c." | "ca" | "c" => format!("c. {}", parameter(0)).trim_end().to_owned(),
        "sup" => match parameter(0) {
            number
                if number
                    .trim_start_matches(['-', '+', '\u{2212}', '\u{2013}'])
                    .starts_with(|c: char| c.is_ascii_digit()) =>
            {
                format!("^{number}")
            }
            other => other,
        },
        "as of" => format!("as of {}", date(&positional)).trim_end().to_owned(),
        "frac" | "fraction" | "sfrac" => fraction(&positional),
        "spaced ndash" | "spnd" | "snd" | "spaced en dash" | "sndash" => " – ".to_owned(),
        "ndash" | "en dash" | "–" => "–".to_owned(),
        "mdash" | "em dash" | "—" => "—".to_owned(),
        "nbsp" | "space" | "thinsp" | "·" | "dot" => " ".to_owned(),
        "'" | "apostrophe" => "'".to_owned(),
        "!" => "|".to_owned(),
        "=" => "=".to_owned(),
        "uss" | "hms" | "ss" | "rms" | "mv" | "hmcs" | "hmas" => {
            format!("{} {}", name.to_uppercase(), parameter(0))
        }
        _ => return Cow::Borrowed(""),
    }
    .into()
}

/// Returns the positional parameters, which may be written with their numbers (`1=text`). Parameters with names are
/// options.
fn positional<'a>(parameters: &[&'a str]) -> Vec<&'a str> {
    let value = |parameter: &&'a str| match parameter.split_once('=') {
        None => Some(parameter.trim()),
        Some((key, value)) => {
            let key = key.trim();
            (!key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit())).then_some(value.trim())
        }
    };
    parameters.iter().filter_map(value).collect()
}

/// Returns a date with the name of its month: `{{as of|2012|3}}` is "as of March 2012".
fn date(positional: &[&str]) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let month = |number: &str| {
        number.parse().ok().and_then(|number: usize| MONTHS.get(number.wrapping_sub(1)).copied())
    };
    match positional {
        [year, number, day, ..] if month(number).is_some() => {
            format!("{day} {} {year}", month(number).unwrap_or_default())
        }
        [year, number] => format!("{} {year}", month(number).unwrap_or(number)),
        all => all.join(" "),
    }
}

/// Returns a measure in its original unit: `{{convert|5|km|mi}}` is "5 km".
fn convert(positional: &[&str]) -> String {
    match positional {
        [from, word @ ("to" | "-" | "–" | "and" | "or" | "x" | "×" | "by"), to, unit, ..] => {
            let word = if *word == "-" { "–" } else { word };
            format!("{from} {word} {to} {unit}")
        }
        [number, unit, ..] => format!("{number} {unit}"),
        _ => String::new(),
    }
}

/// Returns a fraction in a line: `{{frac|1|2}}` is "1/2", `{{frac|3|1|2}}` "3 1/2".
fn fraction(positional: &[&str]) -> String {
    match positional {
        [whole, above, below, ..] => format!("{whole} {above}/{below}"),
        [above, below] => format!("{above}/{below}"),
        [below] => format!("1/{below}"),
        [] => String::new(),
    }
}
