//! Finds unneeded values, and collects threads and rows that cannot be read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, SaverError};
use uuid::Uuid;

/// The identity of a stored value in a namespace: the channel, the version, and the base. The base of an addition is
/// the earlier version to which it was added. The base of a whole value is `None`.
pub type PieceKey = (Arc<str>, Uuid, Option<Uuid>);

/// Returns the stored values that no checkpoint of a namespace needs, as pairs of channel and version. `checkpoints`
/// must contain all checkpoints of the namespace, and `pieces` all its stored values.
pub fn unneeded<'a>(
    checkpoints: impl IntoIterator<Item = &'a Checkpoint>,
    pieces: &[PieceKey],
) -> Vec<(Arc<str>, Uuid)> {
    let bases: HashMap<(&str, Uuid), Option<Uuid>> =
        pieces.iter().map(|(channel, version, base)| ((&**channel, *version), *base)).collect();
    let mut needed: HashSet<(&str, Uuid)> = HashSet::new();
    for checkpoint in checkpoints {
        for (channel, version) in checkpoint.channels.iter().zip(checkpoint.versions.iter()) {
            let mut next = Some(*version).filter(|version| !version.is_nil());
            // A version in `needed` has already been followed to the end of its chain.
            while let Some(version) = next.filter(|version| needed.insert((channel, *version))) {
                next = bases.get(&(&**channel, version)).copied().flatten();
            }
        }
    }
    let all = pieces.iter().map(|(channel, version, _)| (channel.clone(), *version));
    all.filter(|(channel, version)| !needed.contains(&(&**channel, *version))).collect()
}

/// The threads that an operation on several threads has skipped, because it could not read them.
#[derive(Debug, Default)]
pub struct Unread {
    first: Option<(String, String)>,
    others: Vec<String>,
}

impl Unread {
    /// Returns `result` unchanged, unless it is the error [`SaverError::Damaged`]. In this case, records the id of the
    /// damaged thread, and returns the default value of `T`.
    pub fn pass<T: Default>(&mut self, result: Result<T, SaverError>) -> Result<T, SaverError> {
        match result {
            Err(SaverError::Damaged { thread, reason }) => {
                match &self.first {
                    None => self.first = Some((thread, reason)),
                    Some(_) => self.others.push(thread),
                }
                Ok(T::default())
            }
            result => result,
        }
    }

    /// Returns an error that names the skipped threads. Returns `Ok` if the operation skipped no thread.
    pub fn report(self) -> Result<(), SaverError> {
        let Some((thread, mut reason)) = self.first else { return Ok(()) };
        if !self.others.is_empty() {
            let (count, names) = (self.others.len(), self.others[..self.others.len().min(MOST_NAMES)].join("`, `"));
            reason = format!("{reason}; {count} more threads cannot be read either: `{names}`");
        }
        Err(SaverError::Damaged { thread, reason: format!("{reason} (the other threads were processed)") })
    }
}

const MOST_NAMES: usize = 10;

/// The maximum number of rows that a copy, or an encryption with another key, reads at a time. A page of rows ends with
/// the row with which it reaches [`PAGE_BYTES`].
pub const PAGE_ROWS: usize = 1_000;
pub const PAGE_BYTES: usize = 4 << 20;

/// The rows of a run store that a saver could not read when it encrypted all rows again.
#[cfg(feature = "encryption")]
#[derive(Debug, Default)]
pub struct UnreadRows {
    first: Option<(String, String)>,
    count: usize,
    /// The places of some further rows that could not be read, at most [`MOST_NAMES`].
    others: Vec<String>,
}

#[cfg(feature = "encryption")]
impl UnreadRows {
    /// Returns the value in `read` as `Some`. If `read` is the error [`SaverError::Unusable`], calls `on_error`,
    /// records the name of the unreadable row, and returns `None`. Returns every other error unchanged.
    pub fn pass<T>(
        &mut self,
        read: Result<T, SaverError>,
        on_error: impl FnOnce(&SaverError),
    ) -> Result<Option<T>, SaverError> {
        let error = match read {
            Ok(read) => return Ok(Some(read)),
            Err(error) => error,
        };
        let SaverError::Unusable { place, reason } = &error else { return Err(error) };
        on_error(&error);
        self.count += 1;
        match &self.first {
            None => self.first = Some((place.clone(), reason.clone())),
            Some(_) if self.others.len() < MOST_NAMES => self.others.push(place.clone()),
            Some(_) => {}
        }
        Ok(None)
    }

    pub fn add(&mut self, page: Self) {
        self.count += page.count;
        let mut places = page.others;
        match (&self.first, page.first) {
            (None, first) => self.first = first,
            (Some(_), first) => places.splice(0..0, first.map(|(place, _)| place)).for_each(drop),
        }
        self.others.extend(places);
        self.others.truncate(MOST_NAMES);
    }

    /// Returns an error that names the skipped rows and the skipped `threads`. Returns `Ok` if nothing was skipped.
    pub fn report(self, threads: Unread) -> Result<(), SaverError> {
        let Some((place, mut reason)) = self.first else { return threads.report() };
        if self.count > 1 {
            let (count, names) = (self.count - 1, self.others.join(", "));
            reason = format!("{reason}; {count} more rows cannot be read either: {names}");
        }
        match threads.report() {
            Err(SaverError::Damaged { thread, reason: of_thread }) => {
                Err(SaverError::Damaged { thread, reason: format!("{of_thread}; and {place}: {reason}") })
            }
            Err(error) => Err(error),
            Ok(()) => Err(SaverError::Unusable { place, reason: format!("{reason} (the other rows were processed)") }),
        }
    }
}
