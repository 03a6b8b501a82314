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

/// The word that a rank sends while rank 0 works. A rank that was asked to stop sends the number of the
/// signal instead.
const BUSY: u64 = 0;
/// The word that rank 0 sends when it has finished.
const DONE: u64 = u64::MAX;

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
                let own = stop.requested().map_or(BUSY, |signal| signal as u64);
                if self.exchange_words(own)?[0] == DONE {
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
            match self.exchange_words(BUSY) {
                Ok(words) => {
                    if let Some(signal) = words.into_iter().find(|&word| word != BUSY) {
                        stop.request(signal as i32);
                    }
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
        self.exchange_words(DONE)?;
        result.map(Some)
    }

    /// Sends a word to all ranks and returns the words of all ranks.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    fn exchange_words(&mut self, own: u64) -> Result<Vec<u64>, Error> {
        let mut messages: Vec<Message> = (0..self.ranks()).map(|_| Message::new(1)).collect();
        messages[self.rank()].content_mut()[0] = own;
        self.all_gather(&mut messages)?;
        Ok(messages.iter().map(|message| message.content()[0]).collect())
    }
}
