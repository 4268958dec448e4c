//! Commits of a thread one after the other, in the order in which they were called. What waits goes into one statement.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hier_core::checkpoint::SaverError;
use tokio::sync::oneshot;

use crate::rows::Batch;

/// How many rows share a statement at most.
const MOST: usize = 2_000;

/// A commit that waits.
pub(super) struct Job {
    token: u64,
    batch: Batch,
    answer: oneshot::Sender<Result<(), SaverError>>,
}

/// What waits, by thread. A thread is in here as long as somebody is at work for it.
#[derive(Default)]
pub(super) struct Queue(Mutex<HashMap<Arc<str>, VecDeque<Job>>>);

/// Commits of one thread under one token, as one.
pub(super) struct Group {
    pub(super) token: u64,
    pub(super) batch: Batch,
    answers: Vec<oneshot::Sender<Result<(), SaverError>>>,
}

impl Queue {
    /// Adds a commit, and says whether somebody has to start to work for the thread.
    pub(super) fn add(
        &self,
        thread: &Arc<str>,
        token: u64,
        batch: Batch,
    ) -> (bool, oneshot::Receiver<Result<(), SaverError>>) {
        let (answer, answered) = oneshot::channel();
        let mut threads = self.lock();
        let idle = !threads.contains_key(thread);
        threads.entry(thread.clone()).or_default().push_back(Job { token, batch, answer });
        (idle, answered)
    }

    /// What is to be done next for a thread; none if that was all.
    pub(super) fn next(&self, thread: &Arc<str>) -> Option<Group> {
        let mut threads = self.lock();
        let jobs = threads.get_mut(thread)?;
        let Some(first) = jobs.pop_front() else {
            threads.remove(thread);
            return None;
        };
        let mut group = Group { token: first.token, batch: first.batch, answers: vec![first.answer] };
        while group.batch.len() < MOST
            && jobs.front().is_some_and(|job| job.token == group.token)
            && let Some(job) = jobs.pop_front()
        {
            group.batch.append(job.batch);
            group.answers.push(job.answer);
        }
        drop(threads);
        group.batch.settle();
        Some(group)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, VecDeque<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    pub(super) fn answer(self, result: &Result<(), SaverError>) {
        for answer in self.answers {
            // A call that was dropped waits for no answer.
            let _ = answer.send(result.clone());
        }
    }
}

impl Batch {
    fn len(&self) -> usize {
        self.checkpoints.len() + self.pieces.len() + self.writes.len()
    }

    fn append(&mut self, mut other: Self) {
        self.checkpoints.append(&mut other.checkpoints);
        self.pieces.append(&mut other.pieces);
        self.writes.append(&mut other.writes);
    }

    /// Leaves of each row what would be left if they were stored one after the other: a statement may not change a row twice.
    fn settle(&mut self) {
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
