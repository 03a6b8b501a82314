//! The page of an experiment: the question, the result, the table, and the parts of the experiment.

use bert_pages::{Head, chart_page};
use bert_storage::commit;
use maud::{Markup, html};

use super::table::Results;
use crate::output::progress::duration;
use crate::output::table::Tabular;

/// Renders the page.
pub(super) fn page(results: &Results, body: &Markup) -> String {
    let estimate = results.estimated_seconds.map(|seconds| format!(", estimated {}", duration(seconds)));
    let started = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let about = [
        format!("Experiment {}", results.experiment),
        results.checkpoints.join(", "),
        started.replace('T', " ").replace('Z', " UTC"),
        format!("{}{}", duration(results.seconds), estimate.unwrap_or_default()),
        format!("commit {}", commit().get(..7).unwrap_or(commit())),
    ];
    let page = html! {
        (results.table().section(body))
        details { summary { "About this experiment" } p { (results.about) } }
    };
    chart_page(&Head { title: &results.title, about: &about }, &page)
}
