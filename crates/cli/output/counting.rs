//! Shows the progress of counting a text for initial weights.

use bert_training::CountingEvent;

use crate::output::progress::{Progress, print_warning};

/// Number of units of the whole work in the display; one unit is a tenth of a per cent.
const UNITS: f64 = 1000.0;

/// Progress display of the counting.
pub struct CountingView {
    quiet: bool,
    progress: Option<Progress>,
}

impl CountingView {
    /// Creates the display, which appears with the first event.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, progress: None }
    }

    /// Updates the display.
    pub fn show(&mut self, event: &CountingEvent) {
        let quiet = self.quiet;
        let progress = self.progress.get_or_insert_with(|| {
            let progress = Progress::percent("counting", UNITS as u64, quiet);
            if matches!(event, CountingEvent::Progress(_)) {
                progress.line("counting bigrams of the training text for the initial weights");
            }
            progress
        });
        match event {
            CountingEvent::Progress(share) => progress.set((UNITS * share) as u64, ""),
            CountingEvent::Reused => progress.line("initial weights: using the saved counts of this text"),
            CountingEvent::Warning(text) => print_warning(text),
            _ => {}
        }
    }

    /// Removes the display.
    pub fn finish(&mut self) {
        self.progress = None;
    }
}
