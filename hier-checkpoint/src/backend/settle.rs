use std::collections::HashSet;
use std::hash::Hash;

use super::rows::Batch;

impl Batch {
    /// Removes repeated changes of a row from the batch, because an SQL statement may not change a row twice. Keeps the
    /// first of several writes to a slot from 0 upwards, and the last of several changes to any other row.
    pub fn settle(&mut self) {
        keep_last(&mut self.checkpoints, |row| (row.namespace.clone(), row.id));
        keep_last(&mut self.pieces, |row| (row.namespace.clone(), row.channel.clone(), row.version));
        let (mut once, mut again): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.writes).into_iter().partition(|row| row.slot >= 0);
        keep_first(&mut once, |row| (row.namespace.clone(), row.checkpoint, row.task, row.slot));
        keep_last(&mut again, |row| (row.namespace.clone(), row.checkpoint, row.task, row.slot));
        self.writes = once;
        self.writes.append(&mut again);
    }
}

fn keep_first<T, K: Eq + Hash>(rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
    if rows.len() > 1 {
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(key(row)));
    }
}

fn keep_last<T, K: Eq + Hash>(rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
    if rows.len() > 1 {
        rows.reverse();
        keep_first(rows, key);
        rows.reverse();
    }
}
