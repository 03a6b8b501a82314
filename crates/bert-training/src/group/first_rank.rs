//! Work of rank 0 alone, such as counting the text, while the other ranks wait for it.

use std::time::{Duration, Instant};

use bert_inference::StopFlag;

use crate::error::Error;
use crate::group::Group;
use crate::group::message::Message;

/// Time between two messages of rank 0 while it works; less if the timeout of the group is shorter.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// Signal number of the stop that rank 0 requests when another rank is lost.
const SIGTERM: i32 = 15;

/// The state of a rank while rank 0 works.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Rank 0 works, or another rank waits.
    Busy,
    /// Rank 0 has finished.
    Done,
    /// A signal has asked the rank to stop.
    Stopping(i32),
}

impl State {
    fn to_word(self) -> u64 {
        match self {
            Self::Busy => 0,
            Self::Done => u64::MAX,
            Self::Stopping(signal) => signal as u64,
        }
    }

    fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Busy,
            u64::MAX => Self::Done,
            signal => Self::Stopping(signal as i32),
        }
    }
}

impl Group {
    /// Runs `work` on rank 0 and returns its result there; returns `None` on the other ranks when it is done. `work`
    /// gets a function that it must call often. By these calls, the other ranks learn that rank 0 is alive, however
    /// long the work takes, and rank 0 learns whether another rank is lost or was asked to stop. In that case, rank 0
    /// requests a stop itself.
    ///
    /// # Errors
    /// Fails when `work` fails, or when a rank of the group is lost.
    pub(crate) fn first_works<T>(
        &mut self,
        stop: &StopFlag,
        work: impl FnOnce(&mut dyn FnMut()) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.is_alone() {
            return work(&mut || {}).map(Some);
        }
        if !self.is_first() {
            loop {
                let own = stop.requested().map_or(State::Busy, State::Stopping);
                if self.exchange_states(own)?[0] == State::Done {
                    return Ok(None);
                }
            }
        }
        let pause = SIGN_OF_LIFE.min(self.timeout);
        let mut last = Instant::now();
        let mut lost = None;
        let result = work(&mut || {
            if lost.is_some() || last.elapsed() < pause {
                return;
            }
            last = Instant::now();
            match self.exchange_states(State::Busy) {
                Ok(states) => {
                    let stopping = states.into_iter().find_map(|state| match state {
                        State::Stopping(signal) => Some(signal),
                        _ => None,
                    });
                    stopping.into_iter().for_each(|signal| stop.request(signal));
                }
                Err(error) => {
                    lost = Some(error);
                    stop.request(SIGTERM);
                }
            }
        });
        if let Some(lost) = lost {
            return Err(lost);
        }
        self.exchange_states(State::Done)?;
        result.map(Some)
    }

    /// Returns the states of all ranks.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    fn exchange_states(&mut self, own: State) -> Result<Vec<State>, Error> {
        let mut messages: Vec<Message> = (0..self.ranks()).map(|_| Message::new(1)).collect();
        messages[self.rank()].content_mut()[0] = own.to_word();
        self.all_gather(&mut messages)?;
        Ok(messages.iter().map(|message| State::from_word(message.content()[0])).collect())
    }
}
