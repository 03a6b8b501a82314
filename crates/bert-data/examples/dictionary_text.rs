//! Prints dictionaries as text for pre-training: sentences on lines, and a blank line between documents.
//!
//! ```sh
//! cargo run --example dictionary_text -- moby words.txt > moby.txt          # Moby thesaurus
//! cargo run --example dictionary_text -- webster gcide.dict.dz > webster.txt   # Webster's of 1913, from GCIDE
//! cargo run --example dictionary_text -- wordnet /usr/share/wordnet > wordnet.txt
//! ```

use std::fs;
use std::io::{BufWriter, Read, Write, stdout};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use regex::Regex;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Maximum number of synonyms in a line of the output.
const SYNONYMS: usize = 24;
/// Minimum number of words of an entry of the thesaurus; shorter ones are left out.
const MIN_WORDS: usize = 6;
/// Number of entries in a document of Webster's, which are neighbours in the alphabet.
const WEBSTER_ENTRIES: usize = 12;
/// Number of entries in a document of WordNet, which are related words.
const WORDNET_ENTRIES: usize = 20;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dictionary, path] = arguments.as_slice() else {
        return Err("usage: dictionary_text moby|webster|wordnet PATH".into());
    };
    let (path, mut out) = (Path::new(path), BufWriter::new(stdout().lock()));
    match dictionary.as_str() {
        "moby" => moby(&fs::read(path)?, &mut out)?,
        "webster" => {
            let mut text = Vec::new();
            MultiGzDecoder::new(fs::File::open(path)?).read_to_end(&mut text)?;
            webster(&String::from_utf8_lossy(&text), &mut out)?;
        }
        "wordnet" => {
            for part in ["adj", "adv", "noun", "verb"] {
                wordnet(&fs::read_to_string(path.join(format!("data.{part}")))?, &mut out)?;
            }
        }
        other => return Err(format!("{other}: not moby, webster or wordnet").into()),
    }
    Ok(out.flush()?)
}

/// Writes a document for each line `word,synonym,...` of the Moby thesaurus, which is in Latin-1.
fn moby(file: &[u8], out: &mut impl Write) -> Outcome {
    let text: String = file.iter().map(|&byte| char::from(byte)).collect();
    for line in text.lines() {
        let words: Vec<&str> = line.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.len() < MIN_WORDS {
            continue;
        }
        write!(out, "{}: ", words[0])?;
        for synonyms in words[1..].chunks(SYNONYMS) {
            writeln!(out, "{}.", synonyms.join(", "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the synonym sets of a data file of WordNet: the words with their definition, then the examples.
fn wordnet(file: &str, out: &mut impl Write) -> Outcome {
    let marker = Regex::new(r"\(\w+\)$")?;
    let quotation = Regex::new(r#""([^"]*)""#)?;
    let quotation_and_source = Regex::new(r#""[^"]*"(,? *[-–]*[^;"]*)?"#)?;
    let sets = file.lines().filter(|line| !line.starts_with("  "));
    for (index, line) in sets.enumerate() {
        let (head, gloss) = line.trim_end().split_once(" | ").ok_or("a synonym set without a gloss")?;
        let fields: Vec<&str> = head.split(' ').collect();
        let words = usize::from_str_radix(fields[3], 16)?;
        let words = fields[4..].iter().step_by(2).take(words);
        let words: Vec<String> = words.map(|word| marker.replace(word, "").replace('_', " ")).collect();
        let definition = quotation_and_source.replace_all(gloss, "");
        writeln!(out, "{}: {}.", words.join(", "), definition.trim_end_matches([';', ' ']).trim())?;
        for example in quotation.captures_iter(gloss) {
            let example = example[1].trim();
            if example.split_whitespace().count() > 2 {
                let (first, rest) = example.split_at(example.chars().next().map_or(0, char::len_utf8));
                let stop = if example.ends_with(['.', '!', '?']) { "" } else { "." };
                writeln!(out, "{}{rest}{stop}", first.to_uppercase())?;
            }
        }
        if (index + 1) % WORDNET_ENTRIES == 0 {
            writeln!(out)?;
        }
    }
    Ok(writeln!(out)?)
}

/// Writes the entries of GCIDE of which every part is marked as Webster's of 1913: the headword with the first
/// definition, then further definitions and quotations.
fn webster(text: &str, out: &mut impl Write) -> Outcome {
    let source = Regex::new(r"\[([^\]\n]*(?:Webster|WordNet|PJC|Century|RP|CP|AS)[^\]\n]*)\]")?;
    let bracket = Regex::new(r"\[[^\]]*\]")?;
    let headword = Regex::new(r"(?s)^(.*?)\\.*?\\,?")?;
    let author = Regex::new(r"--[A-Z][\w. ']*(?:\n|\z)")?;
    let number = Regex::new(r"(?m)^\s*(?:\d+\.|\([a-z]\))\s*")?;
    let paragraph = Regex::new(r"\n\s*\n")?;
    let abbreviations = Regex::new(r"^(?:[a-z]{1,4}\.?[ ;,&]*)+")?;
    let subject = Regex::new(r"\((?:[A-Z][a-z]*\.? ?&? ?)+\)")?;
    let mut written = 0;
    for entry in entries(&text.replace('\r', "")) {
        let mut sources = source.captures_iter(entry).peekable();
        if sources.peek().is_none() || !sources.all(|source| source[1].contains("1913")) {
            continue;
        }
        let entry = bracket.replace_all(entry, "");
        let Some(head) = headword.captures(&entry) else { continue };
        let body = entry[head[0].len()..].replace(['{', '}'], "");
        let body = author.replace_all(&body, "\n");
        let body = number.replace_all(&body, "\n\n");
        let mut sentences = Vec::new();
        for part in paragraph.split(&body) {
            let mut part = part.split_whitespace().collect::<Vec<_>>().join(" ");
            if sentences.is_empty() {
                part = abbreviations.replace(&part, "").into_owned();
            }
            let part = subject.replace_all(&part, "");
            let part = part.trim_matches([' ', ';', ',']);
            if part.split_whitespace().count() > 2 {
                sentences.push(part.to_owned());
            }
        }
        if sentences.is_empty() {
            continue;
        }
        let head = head[1].split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(out, "{}: {}", head.trim_matches([' ', ',']), sentences.join("\n"))?;
        written += 1;
        if written % WEBSTER_ENTRIES == 0 {
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Returns the entries of a dictionary in which only headwords begin at the start of a line.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts = starts.filter(|&at| text[at..].chars().next().is_some_and(|first| !first.is_whitespace()));
    let mut starts = std::iter::once(0).chain(starts).peekable();
    std::iter::from_fn(move || {
        let start = starts.next()?;
        let end = starts.peek().map_or(text.len(), |&next| next - 1);
        Some(&text[start..end])
    })
}
