//! Shows the effect of every word of a text on its predictions: `bert probe --saliency`.

use std::collections::BTreeMap;

use bert_inference::{Prober, Saliency, WordSaliency};
use bert_pages::{Head, colored_words, page, verdict};
use maud::{Markup, html};

use crate::commands::evaluation::probe::args::Args;
use crate::commands::text_or_pair;
use crate::output::table::{Column, Table, print_table};

/// Returns a table with a row for each prediction and word.
fn table(saliency: &[Saliency]) -> Table {
    let row = |map: &Saliency, word: &WordSaliency| {
        let probability = map.probability.map_or("-".to_string(), |value| format!("{value:.4}"));
        let left_out = word.leave_one_out.map_or("-".to_string(), |value| format!("{value:.4}"));
        let gradient = format!("{:.4}", word.gradient_times_input);
        let prediction = [map.of.clone(), map.answer.clone(), probability];
        let about_word = [word.position.to_string(), word.word.clone(), gradient, left_out];
        prediction.into_iter().chain(about_word).collect()
    };
    let rows = saliency.iter().flat_map(|map| map.words.iter().map(move |word| row(map, word)));
    let columns = vec![
        Column::text("prediction of"),
        Column::text("answer"),
        Column::count("p"),
        Column::count("position"),
        Column::text("word"),
        Column::number("gradient x input"),
        Column::number("leave one out"),
    ];
    let table = Table { title: TITLE.into(), columns, rows: rows.collect(), ..Table::default() };
    Table { page: Some(page(&Head { title: TITLE, about: &[] }, &body(saliency, &table))), ..table }
}

/// Renders the text of each prediction, with its words coloured by their effects, and the table.
fn body(saliency: &[Saliency], table: &Table) -> Markup {
    let words = |map: &Saliency, value: fn(&WordSaliency) -> Option<f32>| {
        let effect = |word| f64::from(value(word).unwrap_or(0.0));
        colored_words(&map.words.iter().map(|word| (word.word.as_str(), effect(word))).collect::<Vec<_>>())
    };
    html! {
        @for map in saliency {
            (verdict("plain", &result(map), ""))
            h2 { "Without the word: the fall of the probability" }
            (words(map, |word| word.leave_one_out))
            h2 { "Gradient times input" }
            (words(map, |word| Some(word.gradient_times_input)))
        }
        p.note { "Blue words support the answer, orange words speak against it." }
        details { summary { "All values" } (table.section(&Markup::default())) }
    }
}

/// The title of the page of word effects.
const TITLE: &str = "Words that support the answer";

/// Returns a sentence with a prediction and its most important word.
fn result(map: &Saliency) -> String {
    let probability = map.probability.map_or(String::new(), |value| format!(" ({:.1} %)", 100.0 * value));
    let effect = |word: &&WordSaliency| word.leave_one_out.unwrap_or(f32::MIN);
    let most = map.words.iter().max_by(|a, b| effect(a).total_cmp(&effect(b)));
    let most = most.and_then(|word| {
        Some(format!("; without \u{201c}{}\u{201d} it falls by {:.3}", word.word, word.leave_one_out?))
    });
    format!("{}: {}{probability}{}.", map.of, map.answer, most.unwrap_or_default())
}

/// Prints the effect of every word.
pub(super) fn show_saliency(args: &Args, prober: &Prober) -> anyhow::Result<()> {
    let saliency = prober.saliency(text_or_pair(args.text.as_deref().unwrap_or_default()))?;
    print_table(args.format, &BTreeMap::from([("saliency", &saliency)]), table(&saliency), |_| {
        saliency.iter().map(Saliency::to_string).collect::<Vec<String>>().join("\n\n")
    })
}
