//! Queues of ids, with which calls and results are matched.

/// The ids of calls or results, from which the positions of an id are taken in order.
///
/// A conversation can be a client's data: one message with 100,000 calls, and their results in any order. Code that
/// matches calls and results therefore uses this type instead of a loop in a loop.
#[doc(hidden)]
#[derive(Debug)]
pub struct IdQueues<'a> {
    /// Sorted by id, then by position.
    sorted: Vec<(&'a str, usize)>,
    /// For the first entry of an id, the number of its positions that are taken.
    taken: Vec<usize>,
}

impl<'a> IdQueues<'a> {
    /// Creates the queues of ids. The position of an id is its number in `ids`.
    pub fn of(ids: impl Iterator<Item = &'a str>) -> Self {
        Self::at(ids.enumerate().map(|(place, id)| (id, place)))
    }

    /// Creates the queues of ids with these positions.
    pub fn at(ids: impl Iterator<Item = (&'a str, usize)>) -> Self {
        let mut sorted: Vec<_> = ids.collect();
        sorted.sort_unstable();
        Self { taken: vec![0; sorted.len()], sorted }
    }

    /// Takes the first position of an id that is at least `start`. Drops the smaller positions of the id. `None` if no
    /// position is left.
    pub fn take(&mut self, id: &str, start: usize) -> Option<usize> {
        let first = self.sorted.partition_point(|(other, _)| *other < id);
        loop {
            let next = first + self.taken.get(first)?;
            let (_, place) = self.sorted.get(next).filter(|(other, _)| *other == id)?;
            self.taken[first] += 1;
            if *place >= start {
                return Some(*place);
            }
        }
    }
}
