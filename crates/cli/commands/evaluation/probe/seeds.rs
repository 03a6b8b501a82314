//! Probes the models of all seeds of a fine-tuning: `bert probe --all-seeds`.

use std::path::Path;

use bert_inference::{Error, ModelOptions, Prober, SeedModel, seed_models};
use bert_tasks::Statistics;
use serde::Serialize;

use crate::commands::evaluation::probe::args::Args;
use crate::commands::evaluation::probe::changes::Probes;
use crate::commands::selected_device;
use crate::output::table::{Column, Table, print_table};

/// The result as JSON.
#[derive(Serialize)]
struct SeedsProbed {
    seeds: Vec<ProbedSeed>,
    /// The fraction of the predictions that flip, over the seeds.
    flip_rate: Statistics,
}

#[derive(Serialize)]
struct ProbedSeed {
    seed: u64,
    #[serde(flatten)]
    probes: Probes,
}

/// Probes the model of every seed, and prints the results with mean and SD.
pub(super) fn probe_seeds(args: &Args, encoder: Option<&Path>) -> anyhow::Result<()> {
    if args.input.as_deref().is_some_and(|input| input.as_os_str() == "-") {
        let reason =
            "is -, but --all-seeds reads the texts once for each seed: write them to a file".to_string();
        return Err(Error::option("input", reason).into());
    }
    let models = seed_models(&args.checkpoint)?;
    let options = ModelOptions::default().with_encoder(encoder).with_device(selected_device(args.device)?);
    let probe = |SeedModel { seed, folder, .. }: SeedModel| {
        let prober = Prober::open(&folder, options)?;
        Ok(ProbedSeed { seed, probes: Probes::new(args, &folder, &prober)? })
    };
    let seeds = models.into_iter().map(probe).collect::<anyhow::Result<Vec<_>>>()?;
    let rates: Vec<f64> = seeds.iter().map(|seed| seed.probes.flip_rate()).collect();
    let probed = SeedsProbed { seeds, flip_rate: Statistics::new(&rates) };
    print_table(args.format, &probed, probed.table(), |_| probed.text())
}

impl SeedsProbed {
    fn text(&self) -> String {
        let section =
            |ProbedSeed { seed, probes }: &ProbedSeed| format!("seed {seed}\n{}\n\n", probes.text());
        self.seeds.iter().map(section).collect::<String>() + &self.verdict()
    }

    /// Returns a sentence about the share of predictions that flip, over all seeds.
    fn verdict(&self) -> String {
        let Self { seeds, flip_rate: Statistics { mean, sd, .. } } = self;
        let predictions = seeds[0].probes.predictions;
        let sd = sd.map_or(String::new(), |sd| format!(", SD {:.1} %", 100.0 * sd));
        format!(
            "Mean over {} seeds: {:.1} % of {predictions} predictions flip{sd}.",
            seeds.len(),
            100.0 * mean
        )
    }

    /// Returns a table with a row for each seed and prediction.
    fn table(&self) -> Table {
        let mut table = Table { rows: Vec::new(), notes: Vec::new(), ..self.seeds[0].probes.table() };
        table.columns.insert(0, Column::count("seed"));
        for ProbedSeed { seed, probes } in &self.seeds {
            let with_seed = |row: Vec<String>| [vec![seed.to_string()], row].concat();
            table.rows.extend(probes.table().rows.into_iter().map(with_seed));
            table.notes.push(format!("seed {seed}: {}", probes.totals()));
        }
        Table { verdict: self.verdict(), ..table }
    }
}
