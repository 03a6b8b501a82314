//! Collects the optimizer's states of all ranks for a checkpoint, and divides the states in a checkpoint among the
//! ranks.

use bert_inference::host_tensors::float_vector;
use bert_model::Snapshot;
use burn::tensor::Device;

use crate::error::Error;
use crate::gradients::gradient_sum::{Segment, with_values, with_values_mut};
use crate::group::Group;
use crate::group::message::{Message, words_of_floats};
use crate::optimizer::{Optimizer, States};

impl Group {
    /// Returns the states of all ranks, on rank 0 only.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    pub(crate) fn gather_states(&mut self, optimizer: &Optimizer) -> Result<Option<Snapshot>, Error> {
        if self.is_alone() {
            return Ok(Some(optimizer.snapshot()));
        }
        let rank = self.rank();
        let mut send = self.empty_messages();
        let mut receive = self.empty_messages();
        if self.is_first() {
            let messages = receive.iter_mut().enumerate();
            messages.for_each(|(rank, message)| message.resize(words(optimizer, rank)));
        }
        let own = if self.is_first() { &mut receive[0] } else { &mut send[0] };
        own.resize(words(optimizer, rank));
        pack(optimizer, optimizer.layout().segments(rank), own);
        self.all_to_all(&mut send, &mut receive)?;
        Ok(self.is_first().then(|| optimizer.name_states(join(optimizer, &receive))))
    }

    /// Returns this rank's optimizer with its states from `whole`, an optimizer on rank 0 that owns all elements and
    /// was restored from a checkpoint.
    ///
    /// # Errors
    /// Fails when a rank of the group is lost.
    pub(crate) fn scatter_states(
        &mut self,
        whole: Option<Optimizer>,
        mut optimizer: Optimizer,
        device: &Device,
    ) -> Result<Optimizer, Error> {
        if let (true, Some(whole)) = (self.is_alone(), &whole) {
            return Ok(whole.clone());
        }
        let counts = self.value_of_first(whole.as_ref().map(|whole| whole.update_counts().clone()))?;
        if !counts.has_states.contains(&true) {
            return Ok(optimizer);
        }
        let rank = self.rank();
        let mut send = self.empty_messages();
        let mut receive = self.empty_messages();
        receive[0].resize(words(&optimizer, rank));
        if let Some(whole) = &whole {
            for (other, message) in send.iter_mut().enumerate() {
                let message = if other == 0 { &mut receive[0] } else { message };
                message.resize(words(&optimizer, other));
                pack(whole, optimizer.layout().segments(other), message);
            }
        }
        self.all_to_all(&mut send, &mut receive)?;
        let mut states: Vec<States> = vec![None; counts.has_states.len()];
        unpack(&optimizer, rank, &receive[0], |_, segment, values| {
            if counts.has_states[segment.tensor] {
                let states = states[segment.tensor].get_or_insert_default();
                states.push(float_vector(values.to_vec(), device));
            }
        });
        optimizer.set_states(counts, states);
        Ok(optimizer)
    }

    fn empty_messages(&self) -> Vec<Message> {
        (0..self.ranks()).map(|_| Message::new(0)).collect()
    }
}

/// Returns the number of words in the message with the states of a rank's elements, one state after the other.
fn words(optimizer: &Optimizer, rank: usize) -> usize {
    optimizer.states().len() * words_of_floats(optimizer.layout().elements(rank))
}

/// Writes the states of these elements into a message.
fn pack(optimizer: &Optimizer, segments: &[Segment], message: &mut Message) {
    let values = message.floats_mut(0);
    let length = (values.len() / optimizer.states().len().max(1)).max(1);
    for (state, values) in values.chunks_mut(length).enumerate() {
        for (Segment { tensor, range }, part) in with_values_mut(segments, values) {
            optimizer.read_state(state, *tensor, range, part);
        }
    }
}

/// Calls `each` for every state and every segment of a rank, with the index of the state, the segment, and
/// the values in the rank's message.
fn unpack(
    optimizer: &Optimizer,
    rank: usize,
    message: &Message,
    mut each: impl FnMut(usize, &Segment, &[f32]),
) {
    let values = message.floats(0);
    let length = (values.len() / optimizer.states().len().max(1)).max(1);
    for (state, values) in values.chunks(length).enumerate() {
        for (segment, part) in with_values(optimizer.layout().segments(rank), values) {
            each(state, segment, part);
        }
    }
}

/// Returns the states of all elements, from the messages of all ranks.
fn join(optimizer: &Optimizer, messages: &[Message]) -> Vec<States> {
    let layout = optimizer.layout();
    let kinds = optimizer.states().len();
    let lengths = layout.lengths().iter().zip(&optimizer.update_counts().has_states);
    let mut values: Vec<Option<Vec<Vec<f32>>>> =
        lengths.map(|(&length, has_states)| has_states.then(|| vec![vec![0.0; length]; kinds])).collect();
    for (rank, message) in messages.iter().enumerate() {
        unpack(optimizer, rank, message, |state, Segment { tensor, range }, part| {
            if let Some(states) = &mut values[*tensor] {
                states[state][range.clone()].copy_from_slice(part);
            }
        });
    }
    // The states are only written to a file, so their tensors stay in main memory.
    let tensor = |values| float_vector(values, &Device::flex());
    values.into_iter().map(|states| states.map(|states| states.into_iter().map(tensor).collect())).collect()
}
