//! Sets of small numbers as rows of words, one bit each.

const BITS: usize = u64::BITS as usize;

/// Returns the number of words of a set of numbers below `count`.
pub(super) const fn words(count: usize) -> usize {
    count.div_ceil(BITS)
}

pub(super) fn insert(set: &mut [u64], item: usize) {
    set[item / BITS] |= 1 << (item % BITS);
}

pub(super) fn contains(set: &[u64], item: usize) -> bool {
    set[item / BITS] & (1 << (item % BITS)) != 0
}

pub(super) fn is_empty(set: &[u64]) -> bool {
    set.iter().all(|word| *word == 0)
}

pub(super) fn contains_all(set: &[u64], other: &[u64]) -> bool {
    set.iter().zip(other).all(|(word, other)| word & other == *other)
}

pub(super) fn add_all(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
}

pub(super) fn remove_all(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word &= !other);
}

pub(super) fn keep_all(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word &= other);
}

/// Calls `visit` with each item, in ascending order.
pub(super) fn for_each(set: &[u64], mut visit: impl FnMut(usize)) {
    for (place, word) in set.iter().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            visit(place * BITS + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

pub(super) fn to_vec(set: &[u64]) -> Vec<usize> {
    let mut items = Vec::new();
    for_each(set, |item| items.push(item));
    items
}

/// Numbered rows of equal length, each once.
pub(super) struct Rows {
    width: usize,
    words: Vec<u64>,
    /// An open hash table of the numbers, each plus one. Zero is a free slot.
    slots: Vec<u32>,
}

impl Rows {
    pub(super) fn new(width: usize) -> Self {
        Self { width, words: Vec::new(), slots: vec![0; 64] }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len() / self.width
    }

    pub(super) fn row(&self, number: usize) -> &[u64] {
        &self.words[number * self.width..][..self.width]
    }

    /// Returns the number of a row. Adds it if it is new.
    pub(super) fn number(&mut self, row: &[u64]) -> usize {
        let slot = self.slot(row);
        if let Some(known) = self.slots[slot].checked_sub(1) {
            return known as usize;
        }
        let number = self.len();
        self.words.extend_from_slice(row);
        self.slots[slot] = u32::try_from(number + 1).unwrap_or(u32::MAX);
        if 2 * number > self.slots.len() {
            self.grow();
        }
        number
    }

    /// Returns the rows in the order of their numbers.
    pub(super) fn into_vecs(self) -> Vec<Vec<u64>> {
        self.words.chunks(self.width).map(<[u64]>::to_vec).collect()
    }

    /// Returns the slot of this row, or the free slot for it.
    fn slot(&self, row: &[u64]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = usize::try_from(hash(row) & u64::from(u32::MAX)).unwrap_or_default() & mask;
        while let Some(known) = self.slots[slot].checked_sub(1)
            && self.row(known as usize) != row
        {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.slots = vec![0; 4 * self.slots.len()];
        for number in 0..self.len() {
            let slot = self.slot(self.row(number));
            self.slots[slot] = u32::try_from(number + 1).unwrap_or(u32::MAX);
        }
    }
}

/// Hashes words. The input is not hostile: a graph can only slow down its own check, and the check counts its work.
fn hash(row: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = row.iter().fold(0, mix);
    (hash ^ (hash >> 32)) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_once_in_order() {
        let mut rows = Rows::new(3);
        let row = |number: u64| [number % 7, number / 7, number];
        for round in 0..2 {
            for number in 0..1_000 {
                assert_eq!(rows.number(&row(number)), usize::try_from(number).unwrap(), "round {round}");
            }
        }
        assert_eq!((rows.len(), rows.row(999)), (1_000, row(999).as_slice()));
    }

    #[test]
    fn sets_contain_inserted_items() {
        let mut set = vec![0; words(130)];
        for item in [0, 63, 64, 129] {
            insert(&mut set, item);
        }
        assert_eq!(to_vec(&set), [0, 63, 64, 129]);
        assert!(contains(&set, 64) && !contains(&set, 65) && !is_empty(&set));
        let other = set.clone();
        remove_all(&mut set, &other);
        assert!(is_empty(&set) && contains_all(&other, &set) && !contains_all(&set, &other));
    }
}
