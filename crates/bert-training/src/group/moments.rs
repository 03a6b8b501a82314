//! Collects the optimizer's moments of all ranks for a checkpoint, and divides the moments in a checkpoint among the
//! ranks.

use bert_inference::Error;
use bert_inference::compute::host_tensors::float_vector;
use bert_kernels::host_values;
use bert_model::Snapshot;
use burn::tensor::{Device, Tensor, TensorData};

use crate::gradients::layout::Segment;
use crate::group::Group;
use crate::group::message::{Message, words_of_floats};
use crate::optimizer::adamw::{AdamW, Moments};

impl Group {
    /// Returns the moments of all ranks, on rank 0 only.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn gather_moments(&mut self, optimizer: &AdamW) -> Result<Option<Snapshot>, Error> {
        if self.is_alone() {
            return Ok(Some(optimizer.snapshot()));
        }
        let layout = optimizer.layout();
        let rank = self.rank();
        let words = |rank: usize| 2 * words_of_floats(layout.elements(rank));
        let mut send = self.empty_messages();
        let mut receive = self.empty_messages();
        if self.is_first() {
            receive.iter_mut().enumerate().for_each(|(rank, message)| message.resize(words(rank)));
        }
        let own = if self.is_first() { &mut receive[0] } else { &mut send[0] };
        own.resize(words(rank));
        let (first, second) = halves(own);
        let mut first = &mut first[..];
        let mut second = &mut second[..];
        for Segment { tensor, range } in layout.segments(rank) {
            let n = range.len();
            if let Some(moments) = &optimizer.moments()[*tensor] {
                host_values::read(&moments.first, 0..n, &mut first[..n]);
                host_values::read(&moments.second, 0..n, &mut second[..n]);
            }
            (first, second) = (&mut first[n..], &mut second[n..]);
        }
        self.all_to_all(&mut send, &mut receive)?;
        Ok(self.is_first().then(|| optimizer.snapshot_of(whole_moments(optimizer, &receive))))
    }

    /// Sets the state of every rank's optimizer from rank 0's, which has been restored from a checkpoint: `whole`
    /// is an optimizer that owns all elements, on rank 0.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn scatter_moments(
        &mut self,
        whole: Option<AdamW>,
        mut optimizer: AdamW,
        device: &Device,
    ) -> Result<AdamW, Error> {
        if let (true, Some(whole)) = (self.is_alone(), &whole) {
            return Ok(whole.clone());
        }
        let state = whole
            .as_ref()
            .map(|whole| (whole.updates(), whole.counts().to_vec(), whole.has_moments().to_vec()));
        let (updates, counts, has_moments) = self.value_of_first(state)?;
        if !has_moments.contains(&true) {
            return Ok(optimizer);
        }
        let layout = optimizer.layout();
        let rank = self.rank();
        let words = |rank: usize| 2 * words_of_floats(layout.elements(rank));
        let mut send = self.empty_messages();
        let mut receive = self.empty_messages();
        receive[0].resize(words(rank));
        if let Some(whole) = &whole {
            for (other, message) in send.iter_mut().enumerate() {
                let message = if other == 0 { &mut receive[0] } else { message };
                message.resize(words(other));
                let (first, second) = halves(message);
                let mut first = &mut first[..];
                let mut second = &mut second[..];
                for Segment { tensor, range } in layout.segments(other) {
                    let n = range.len();
                    if let Some(moments) = &whole.moments()[*tensor] {
                        host_values::read(&moments.first, range.clone(), &mut first[..n]);
                        host_values::read(&moments.second, range.clone(), &mut second[..n]);
                    }
                    (first, second) = (&mut first[n..], &mut second[n..]);
                }
            }
        }
        self.all_to_all(&mut send, &mut receive)?;
        let (first, second) = halves(&mut receive[0]);
        let mut moments = vec![None; counts.len()];
        let mut start = 0;
        for Segment { tensor, range } in layout.segments(rank) {
            let end = start + range.len();
            let values = |values: &[f32]| float_vector(values[start..end].to_vec(), device);
            moments[*tensor] =
                has_moments[*tensor].then(|| Moments { first: values(first), second: values(second) });
            start = end;
        }
        optimizer.set_state(updates, counts, has_moments, moments);
        Ok(optimizer)
    }

    fn empty_messages(&self) -> Vec<Message> {
        (0..self.ranks()).map(|_| Message::new(0)).collect()
    }
}

/// Returns the first moments and the second moments of a message.
fn halves(message: &mut Message) -> (&mut [f32], &mut [f32]) {
    let values = message.floats_mut(0);
    let middle = values.len() / 2;
    values.split_at_mut(middle)
}

/// Returns the moments of all elements, from the messages of all ranks.
fn whole_moments(optimizer: &AdamW, messages: &[Message]) -> Vec<Option<Moments>> {
    let layout = optimizer.layout();
    let lengths = layout.lengths().iter().zip(optimizer.has_moments());
    let mut values: Vec<Option<[Vec<f32>; 2]>> = lengths
        .map(|(&length, has_moments)| has_moments.then(|| [vec![0.0; length], vec![0.0; length]]))
        .collect();
    for (rank, message) in messages.iter().enumerate() {
        let all = message.floats(0);
        let halves = all.split_at(all.len() / 2);
        let mut start = 0;
        for Segment { tensor, range } in layout.segments(rank) {
            let end = start + range.len();
            if let Some([first, second]) = &mut values[*tensor] {
                first[range.clone()].copy_from_slice(&halves.0[start..end]);
                second[range.clone()].copy_from_slice(&halves.1[start..end]);
            }
            start = end;
        }
    }
    // A snapshot is written to a file: its tensors stay in main memory.
    let tensor = |values: Vec<f32>| {
        let length = values.len();
        Tensor::from_data(TensorData::new(values, [length]), &Device::flex())
    };
    let moments = |[first, second]: [Vec<f32>; 2]| Moments { first: tensor(first), second: tensor(second) };
    values.into_iter().map(|values| values.map(moments)).collect()
}
