//! The agreements of the ranks at the start and at the end of a step.

use bert_inference::checkpoint::LoaderPosition;
use bert_storage::Class;

use crate::error::Error;
use crate::group::Group;

/// Number of steps between two comparisons of the weights.
const DIGEST_INTERVAL: u64 = 100;

/// Numbers that describe a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchTotals {
    /// Masked-LM targets.
    pub(crate) targets: usize,
    /// Number of tokens of the longest sequence.
    pub(crate) longest: usize,
}

/// Requests after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// The signal that requests a stop.
    pub(crate) signal: Option<i32>,
    /// Whether a checkpoint is requested.
    pub(crate) checkpoint: bool,
    /// The position of the last sample in the data.
    pub(crate) position: Option<LoaderPosition>,
}

impl Group {
    /// Sets the number of finished steps of a run that is continued.
    pub(crate) fn continue_after(&mut self, step: u64) {
        self.step = step;
    }

    /// Counts a finished step.
    pub(crate) fn count_step(&mut self) {
        self.step += 1;
        self.steps_here += 1;
    }

    /// Returns the totals of the whole batch of the next step, from the totals of each rank's rows. Every 100 steps, and
    /// before the first step of a process, the digests of the weights are compared.
    ///
    /// # Errors
    /// Fails when the weights of the ranks differ; otherwise as [`Group::gather`].
    pub(crate) fn start_step(
        &mut self,
        own: BatchTotals,
        digest: impl FnOnce() -> blake3::Hash,
    ) -> Result<BatchTotals, Error> {
        if self.is_alone() {
            return Ok(own);
        }
        let compares = self.steps_here == 0 || self.step.is_multiple_of(DIGEST_INTERVAL);
        let digest = if compares { *digest().as_bytes() } else { [0; 32] };
        let digest = digest.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let own = [own.targets as u64, own.longest as u64].into_iter().chain(digest).collect();
        let all = self.gather(own, |_| 6)?;
        self.check_digests(&all.iter().map(|words| &words[2..]).collect::<Vec<_>>())?;
        Ok(BatchTotals {
            targets: all.iter().map(|words| words[0] as usize).sum(),
            longest: all.iter().map(|words| words[1] as usize).max().unwrap_or(0),
        })
    }

    /// Compares the digests of all ranks; names the ranks that differ from most others.
    ///
    /// # Errors
    /// Fails when the weights of the ranks differ.
    fn check_digests(&self, digests: &[&[u64]]) -> Result<(), Error> {
        let count = |digest: &&[u64]| digests.iter().filter(|other| *other == digest).count();
        let most = digests.iter().map(count).max().unwrap_or(0);
        if most == digests.len() {
            return Ok(());
        }
        // Without a majority every rank may be wrong.
        let is_odd = |rank: &usize| 2 * most <= digests.len() || count(&digests[*rank]) < most;
        let members = (0..digests.len()).filter(is_odd).map(|rank| self.member(rank).to_string());
        Err(Error::new(
            Class::Numerical,
            format!(
                "after step {}: the weights of {} differ from the other ranks'; the computer may have a defect; the \
                 last checkpoint is intact, continue with `.resume`",
                self.step,
                members.collect::<Vec<_>>().join(", ")
            ),
        ))
    }

    /// Returns the requests of all ranks after a step: the first signal by rank, a checkpoint if any rank
    /// wants one, and the position of the last rank.
    ///
    /// # Errors
    /// Fails as [`Group::gather`] does.
    pub(crate) fn finish_step(&mut self, own: Requests) -> Result<Requests, Error> {
        if self.is_alone() {
            return Ok(own);
        }
        let Requests { signal, checkpoint, position } = own;
        let LoaderPosition { epoch, block, first_sample } = position.unwrap_or_default();
        let flags = [signal.unwrap_or(0) as u64, checkpoint.into(), position.is_some().into()];
        let all = self.gather([&flags[..], &[epoch, block, first_sample]].concat(), |_| 6)?;
        let last = all.last().expect("one per rank");
        let position = LoaderPosition { epoch: last[3], block: last[4], first_sample: last[5] };
        Ok(Requests {
            signal: all.iter().map(|words| words[0] as i32).find(|&signal| signal != 0),
            checkpoint: all.iter().any(|words| words[1] != 0),
            position: (last[2] != 0).then_some(position),
        })
    }
}
