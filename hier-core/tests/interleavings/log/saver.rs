//! A slow saver that can fail at a commit, and reports invalid records.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shuttle::future::yield_now;
use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::Notify;

use super::deferred::Deferred;
use crate::checkpoint::{Delivered, Lease, SaverError, SideEffects, WriteRecord};

/// The place of a record in the run: twice its step, and one more for the checkpoint behind the writes of the step.
pub(super) type Place = u32;

#[derive(Clone, Default)]
pub(crate) struct Saver(Arc<Store>);

#[derive(Default)]
struct Store {
    state: Mutex<State>,
    is_released: Notify,
}

#[derive(Default)]
struct State {
    stored: Vec<Place>,
    /// The number of commits until one fails.
    until_failure: Option<u32>,
    /// The first place of the commit that failed.
    failed: Option<Place>,
    releases: u32,
}

impl Saver {
    /// A saver that fails after this many commits.
    pub(super) fn failing(after: Option<u32>) -> Self {
        let saver = Self::default();
        saver.state().until_failure = after;
        saver
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of stored records of each place.
    pub(super) fn stored(&self) -> BTreeMap<Place, usize> {
        let mut stored = BTreeMap::new();
        self.state().stored.iter().for_each(|place| *stored.entry(*place).or_default() += 1);
        stored
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Waits until the lease is released.
    pub(super) async fn released(&self) {
        self.0.is_released.notified().await;
    }

    pub(super) fn releases(&self) -> u32 {
        self.state().releases
    }

    pub(crate) fn over(&self, _: Arc<Deferred>) -> Self {
        self.clone()
    }

    #[allow(clippy::unused_self)] // as the engine's
    pub(crate) fn leases_expire(&self) -> bool {
        true
    }

    pub(crate) async fn commit(&self, _: &Lease, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        let places: Vec<Place> = records.iter().map(place).collect();
        let first = places.iter().min().copied().expect("a commit has records");
        {
            let state = self.state();
            assert_eq!(state.releases, 0, "{places:?} are committed without the lease");
            assert!(state.failed.is_none_or(|failed| first <= failed), "{places:?} after a commit that failed");
        }
        pause().await;
        let mut state = self.state();
        assert_eq!(state.releases, 0, "the lease is released before {places:?} are stored");
        if let Some(left) = &mut state.until_failure {
            if *left == 0 {
                state.failed = Some(first);
                return Err(failure());
            }
            *left -= 1;
        }
        state.stored.extend(places);
        assert!(state.stored.is_sorted(), "{:?}", state.stored);
        Ok(())
    }

    pub(crate) async fn commit_also(
        &self,
        lease: &Lease,
        records: Vec<WriteRecord>,
        _: SideEffects,
    ) -> Result<(), SaverError> {
        self.commit(lease, records).await
    }

    /// Releases the lease too, or leaves that to the caller.
    pub(crate) async fn commit_last(
        &self,
        lease: &Lease,
        records: Vec<WriteRecord>,
        _: SideEffects,
    ) -> Result<bool, SaverError> {
        self.commit(lease, records).await?;
        let releases = thread_rng().gen_ratio(1, 2);
        if releases {
            self.state().releases += 1;
            self.0.is_released.notify_one();
        }
        Ok(releases)
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn mail(&self, _: &str) -> Ready<Result<Vec<Delivered>, SaverError>> {
        ready(Ok(Vec::new()))
    }

    pub(crate) async fn release(&self, _: &Lease) -> Result<(), SaverError> {
        pause().await;
        self.state().releases += 1;
        self.0.is_released.notify_one();
        Ok(())
    }
}

async fn pause() {
    for _ in 0..thread_rng().gen_range(0..3) {
        yield_now().await;
    }
}

pub(super) fn failure() -> SaverError {
    SaverError::database("storing", std::io::Error::other("the disk is full"))
}

fn place(record: &WriteRecord) -> Place {
    match record {
        WriteRecord::Checkpoint { namespace, .. } | WriteRecord::Writes { namespace, .. } => {
            namespace.parse().expect("a place")
        }
    }
}
