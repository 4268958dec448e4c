//! Threads in a database. Restate repeats work if a worker dies, or if the answer of the database is lost. Then an
//! earlier attempt may have stored a part of the work, which must not be stored again.
//!
//! All attempts of a run or an update make checkpoints with the same node field ([`has_made`]), a hash that other work
//! practically never has. The engine stores the same field with the command of a run. An [`Attempt`] searches for both
//! before it begins, and again after it has claimed the thread. If another attempt has stored something in between, the
//! attempt stores nothing, and Restate repeats it. It may already have ended another run that held the thread.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use hier_core::RunError;
use hier_core::checkpoint::{
    Checkpointer, Claim, CodecError, Lease, ListQuery, Listed, SaverError, SaverLayer, SupersededBy, WhenRunning,
};
use hier_core::drive::{self, Settings};
use hier_core::graph::{DynGraph, DynInput};
use uuid::Uuid;

use crate::error::RunFailure;
use crate::host::Host;
use crate::slice::{Slice, has_made, node_of};
use crate::wire::{SliceContext, UpdateState};
use crate::work::{SliceWork, WorkEnd, holder_of, with_claim};

/// The number of checkpoints that a worker reads at once to find those of earlier attempts.
const PAGE: usize = 8;

/// The largest difference between the clocks of machines for which the search is complete.
const SKEW: Duration = Duration::from_mins(1);

/// The first slice of a run, prepared to continue after earlier attempts.
pub(crate) struct BegunSlice {
    pub(crate) work: SliceWork,
    pub(crate) slice: Slice,
    pub(crate) saver: Arc<dyn Checkpointer>,
}

impl Host {
    /// Prepares the first slice of a run. If an earlier attempt has stored a part of the run, the slice continues the
    /// run. Other runs on the thread are not ended, because the engine has not checked the input yet.
    pub(crate) async fn begin_slice(
        &self,
        graph: &dyn DynGraph,
        saver: Arc<dyn Checkpointer>,
        work: SliceWork,
    ) -> Result<Result<BegunSlice, RunFailure>, SaverError> {
        if graph.check(&work.input).is_err() {
            return Ok(Ok(BegunSlice { work, slice: Slice::first(), saver }));
        }
        let SliceWork { input, piece: SliceContext { run, clock, settings, .. }, .. } = &work;
        let mut attempt = Attempt::new(saver, settings, *run, *clock);
        // If the run selects a checkpoint of the root graph, the engine itself finds the command at this checkpoint.
        let selects_root = settings.checkpoint.is_some() && settings.namespace.is_empty();
        attempt.is_command = matches!(input, DynInput::Command(_)) && !selects_root;
        let attempt = match attempt.begin().await {
            Ok(attempt) => attempt,
            Err(error) => return Ok(Err(self.refused_by_saver(graph, error)?)),
        };
        let stored = &attempt.stored;
        let work = if *stored == StoredWork::default() { work } else { SliceWork::later(work.piece, None) };
        let slice = if stored.of_root == 0 { Slice::first() } else { Slice::repeated(stored.of_root) };
        Ok(Ok(BegunSlice { work, slice, saver: Arc::new(attempt) }))
    }

    /// Applies the supersteps of an update. In a database, skips those that an earlier attempt has stored.
    pub(crate) async fn update(
        &self,
        graph: &dyn DynGraph,
        mut saver: Arc<dyn Checkpointer>,
        update: UpdateState,
        id: Uuid,
    ) -> Result<WorkEnd, SaverError> {
        let UpdateState { asked, mut settings, mut supersteps } = update;
        if self.saver.is_some() {
            let attempt = Attempt::new(saver, &settings, id, asked);
            let attempt = match attempt.begin().await {
                Ok(attempt) => attempt,
                Err(error) => return Ok(WorkEnd::Updated(Err(self.refused_by_saver(graph, error)?))),
            };
            let stored = &attempt.stored.checkpoints;
            supersteps.drain(..stored.len().min(supersteps.len()));
            if let Some(newest) = stored.first() {
                if supersteps.is_empty() {
                    return Ok(WorkEnd::Updated(Ok((settings.namespace, Some(*newest)))));
                }
                // Without a selected checkpoint, the update continues from the newest one, which may be other work.
                settings.checkpoint = settings.checkpoint.and(Some(*newest));
            }
            saver = Arc::new(attempt);
        }
        let slice = Arc::new(Slice::first().stopped_clock(Duration::from_millis(asked), id));
        let config = with_claim(drive::with_policy(settings.config(), slice), settings.when_running, id);
        let updated = graph.update_state(saver, config, supersteps).await;
        Ok(WorkEnd::Updated(match updated {
            Ok(config) => Ok((config.checkpoint_namespace().to_owned(), config.checkpoint_id())),
            Err(error) => Err(self.refused(&error, Some(id))?),
        }))
    }

    fn refused_by_saver(&self, graph: &dyn DynGraph, error: SaverError) -> Result<RunFailure, SaverError> {
        self.refused(&RunError::Saver { graph: graph.spec().name.to_string(), error }, None)
    }
}

/// The work that earlier attempts of a run or an update have stored.
#[derive(Debug, Default, PartialEq, Eq)]
struct StoredWork {
    /// The ids of the checkpoints of the root graph and of the selected subgraph, newest first.
    checkpoints: Vec<Uuid>,
    /// The number of checkpoints of the root graph.
    of_root: usize,
    /// True if the command of the run is stored with a checkpoint that is no longer the newest. The engine itself finds
    /// a command at the newest checkpoint.
    command: bool,
}

/// The database of one attempt of a run or an update.
struct Attempt {
    saver: Arc<dyn Checkpointer>,
    thread: String,
    /// The namespace of the selected subgraph. Empty for the root graph.
    namespace: String,
    work: Uuid,
    /// The time of the request, minus [`SKEW`]. The attempts make no older checkpoint.
    since: SystemTime,
    is_command: bool,
    stored: StoredWork,
}

impl Attempt {
    fn new(saver: Arc<dyn Checkpointer>, settings: &Settings, work: Uuid, since: u64) -> Self {
        let since = UNIX_EPOCH + Duration::from_millis(since).saturating_sub(SKEW);
        let (thread, namespace) = (settings.thread.clone(), settings.namespace.clone());
        Self { saver, thread, namespace, work, since, is_command: false, stored: StoredWork::default() }
    }

    async fn begin(mut self) -> Result<Self, SaverError> {
        self.end_earlier().await?;
        self.stored = self.find_stored().await?;
        Ok(self)
    }

    /// Ends an earlier attempt that still holds the thread. Does not end other runs.
    async fn end_earlier(&self) -> Result<(), SaverError> {
        let (holder, when_running) = (holder_of(self.work), WhenRunning::Reject);
        let claim = Claim { holder, when_running, keeps_time_to_live: true, ..Claim::default() };
        let lease = match self.saver.acquire(&self.thread, claim.clone()).await {
            Err(SaverError::Busy { holder, .. }) if holder == claim.holder => {
                self.saver.acquire(&self.thread, Claim { when_running: WhenRunning::TakeOver, ..claim }).await?
            }
            // The other run ended earlier attempts when it claimed the thread.
            Err(SaverError::Busy { .. }) => return Ok(()),
            claimed => claimed?,
        };
        self.give_up(&lease).await;
        Ok(())
    }

    async fn give_up(&self, lease: &Lease) {
        if let Err(error) = self.saver.release(lease).await {
            tracing::debug!(thread = %self.thread, %error, "cannot release the lease of a thread");
        }
    }

    async fn find_stored(&self) -> Result<StoredWork, SaverError> {
        let mut stored = StoredWork::default();
        self.find_in("", &mut stored).await?;
        stored.of_root = stored.checkpoints.len();
        if !self.namespace.is_empty() {
            self.find_in(&self.namespace, &mut stored).await?;
        }
        Ok(stored)
    }

    /// Searches also below newer checkpoints of other work.
    async fn find_in(&self, namespace: &str, stored: &mut StoredWork) -> Result<(), SaverError> {
        let mut newer = None;
        loop {
            let (namespace_of, limit) = (Some(namespace.to_owned()), Some(PAGE));
            let query = ListQuery { namespace: namespace_of, before: newer, limit, ..ListQuery::thread(&self.thread) };
            let page = self.saver.list(query).await?;
            for Listed { checkpoint, .. } in &page {
                if has_made(self.work, namespace, checkpoint.id) {
                    stored.checkpoints.push(checkpoint.id);
                } else if self.is_command && namespace.is_empty() && newer.is_some() {
                    stored.command |= self.has_command(checkpoint.id).await?;
                }
                if checkpoint.created_at() < self.since {
                    return Ok(());
                }
                newer = Some(checkpoint.id);
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    async fn has_command(&self, checkpoint: Uuid) -> Result<bool, SaverError> {
        let Some(saved) = self.saver.get(&self.thread, "", Some(checkpoint)).await? else { return Ok(false) };
        let damaged =
            |error: CodecError| SaverError::Damaged { thread: self.thread.clone(), reason: error.to_string() };
        drive::has_command(saved, node_of(self.work, "")).map_err(damaged)
    }
}

#[async_trait]
impl SaverLayer for Attempt {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.saver.acquire(thread, claim).await?;
        if *thread == *self.thread {
            let refused = match self.find_stored().await {
                Ok(stored) if stored == self.stored => return Ok(lease),
                Ok(_) => SaverError::Superseded { thread: thread.to_owned(), by: SupersededBy::Claim },
                Err(error) => error,
            };
            self.give_up(&lease).await;
            return Err(refused);
        }
        Ok(lease)
    }
}
