//! Counts the statistics of the rows of a data set.

use std::collections::BTreeMap;

use bert_data::{BuildConfig, Row};

pub(super) type Scalars = BTreeMap<String, f64>;

pub(super) struct Sample {
    pub scalars: Scalars,
    pub lengths: Vec<f64>,
    pub masks: Vec<f64>,
}

#[derive(Default)]
pub(super) struct Mean {
    n: f64,
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: usize) {
        self.n += 1.0;
        self.sum += value as f64;
        self.squares += (value * value) as f64;
    }

    fn mean(&self) -> f64 {
        self.sum / self.n
    }

    fn sd(&self) -> f64 {
        (self.squares / self.n - self.mean().powi(2)).sqrt()
    }
}

/// Sums over rows.
pub(super) struct Tally<'a> {
    config: &'a BuildConfig,
    continues: &'a [bool],
    mask: u32,
    length: Mean,
    a: Mean,
    b: Mean,
    masks: Mean,
    random_next: Mean,
    actual_next: Mean,
    random_id: Mean,
    masked: usize,
    shown: usize,
    kept: usize,
    low: usize,
    pieces: usize,
    full: usize,
    capped: usize,
    lengths: Vec<f64>,
    mask_counts: Vec<f64>,
}

impl<'a> Tally<'a> {
    /// Sums over rows under a vocabulary with `[MASK]` at `mask`.
    pub(super) fn new(config: &'a BuildConfig, continues: &'a [bool], mask: u32) -> Self {
        let mean = Mean::default;
        Self {
            config,
            continues,
            mask,
            length: mean(),
            a: mean(),
            b: mean(),
            masks: mean(),
            random_next: mean(),
            actual_next: mean(),
            random_id: mean(),
            masked: 0,
            shown: 0,
            kept: 0,
            low: 0,
            pieces: 0,
            full: 0,
            capped: 0,
            lengths: vec![0.0; 16],
            mask_counts: vec![0.0; config.max_predictions() + 1],
        }
    }

    pub(super) fn add(&mut self, row: Row<'_>) {
        let (tokens, count) = (row.input_ids.len(), row.masked_lm_ids.len());
        let first = row.segment_ids.iter().filter(|&&segment| segment == 0).count();
        let longest = self.config.max_seq_length;
        self.length.add(tokens);
        self.a.add(first - 2);
        self.b.add(tokens - first - 1);
        self.masks.add(count);
        let of_label =
            if row.next_sentence_label == 1 { &mut self.random_next } else { &mut self.actual_next };
        of_label.add(tokens);
        self.full += usize::from(tokens == longest);
        self.capped += usize::from(count == self.config.max_predictions());
        self.lengths[(tokens - 1) * 16 / longest] += 1.0;
        self.mask_counts[count] += 1.0;
        self.masked += count;
        for (&position, &original) in row.masked_lm_positions.iter().zip(row.masked_lm_ids) {
            let token = row.input_ids[position as usize];
            self.pieces += usize::from(self.continues[original as usize]);
            if token == self.mask {
                self.shown += 1;
            } else if token == original {
                self.kept += 1;
            } else {
                self.random_id.add(token as usize);
                self.low += usize::from(token < 999);
            }
        }
    }

    pub(super) fn finish(self) -> Sample {
        let Self { length, a, b, masks, random_next, actual_next, random_id, .. } = self;
        let Self { masked, shown, kept, low, pieces, full, capped, lengths, mask_counts, .. } = self;
        let longest = self.config.max_seq_length;
        let share = |part: usize| part as f64 / masked as f64;
        let scalars = [
            ("n_instances", length.n),
            ("n_tokens_real", length.sum),
            ("padding_fraction", 1.0 - length.sum / (length.n * longest as f64)),
            ("is_random_next_fraction", random_next.n / length.n),
            ("masked_total", masked as f64),
            ("masked_per_seq_mean", masks.mean()),
            ("masked_per_seq_sd", masks.sd()),
            ("masked_over_real_tokens", masked as f64 / length.sum),
            ("masked_over_maskable_tokens", masked as f64 / (length.sum - 3.0 * length.n)),
            ("frac_mask_token", share(shown)),
            ("frac_kept_original_(incl_random_hit)", share(kept)),
            ("frac_random_other", share(masked - shown - kept)),
            ("frac_random_ids_below_999_(special+unused)", low as f64 / random_id.n),
            ("random_id_mean", random_id.mean()),
            ("frac_masked_labels_continuation_piece", share(pieces)),
            ("seq_len_mean", length.mean()),
            ("seq_len_sd", length.sd()),
            ("frac_full_length", full as f64 / length.n),
            ("len_a_mean", a.mean()),
            ("len_a_sd", a.sd()),
            ("len_b_mean", b.mean()),
            ("len_b_sd", b.sd()),
            ("len_mean_random_next", random_next.mean()),
            ("len_mean_actual_next", actual_next.mean()),
            ("frac_capped_at_max_predictions", capped as f64 / length.n),
        ];
        let n = length.n;
        Sample {
            scalars: scalars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            lengths: lengths.into_iter().map(|count| count / n).collect(),
            masks: mask_counts.into_iter().map(|count| count / n).collect(),
        }
    }
}
