//! Checks that every dependency of the programs and tests has a licence that `deny.toml` allows. `cargo deny` also
//! checks the packages of other systems and features, but is not installed everywhere.

use std::process::Command;

/// Returns whether an SPDX expression is satisfied by the allowed licences: `AND` binds more tightly than `OR`; `/` is
/// an old form of `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = alternatives(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn alternatives(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut met = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all_of(words, allowed);
    }
    met
}

fn all_of(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        return alternatives(words, allowed) & words.next_if_eq(&")").is_some();
    }
    match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
        Some(exception) => allowed.contains(&format!("{word} WITH {exception}").as_str()),
        None => allowed.contains(&word),
    }
}

#[test]
fn licence_expressions_are_parsed() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("MIT AND Unicode-3.0 OR GPL-3.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(GPL-3.0 OR Apache-2.0) AND Unicode-3.0", false),
        ("Apache-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT MIT", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_licence_is_allowed() {
    let deny = include_str!("../../deny.toml");
    let (_, list) = deny.split_once("allow = [").expect("a list");
    let (list, _) = list.split_once(']').expect("its end");
    let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains(&"MIT"), "{allowed:?}");
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{l}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("UTF-8");
    let lines = tree.lines().filter(|line| !line.is_empty()).map(|line| line.trim_end_matches(" (*)"));
    let mut seen = 0;
    for line in lines {
        let (package, licence) = line.split_once('|').expect("a package and its licence");
        assert!(
            is_allowed(licence, &allowed),
            "{package} has the licence {licence:?}, which deny.toml lacks"
        );
        seen += 1;
    }
    assert!(seen > 100, "{seen} packages");
}
