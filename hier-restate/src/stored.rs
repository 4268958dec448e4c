//! The data of a thread in its virtual object: the log, its head and the [`ThreadMeta`].

use hier_core::drive::{self, Settings};
use hier_core::graph::DynSnapshot;
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::RunFailure;
use crate::host::Host;
use crate::message::{Message, Packed};
use crate::slice::SliceProgress;
use crate::wire::{LogEntry, LogSource, SliceContext, StateRequest, StreamListener, ThreadDump};

pub(crate) const META: &str = "meta";

/// The data of a thread in addition to its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ThreadMeta {
    /// An id that distinguishes threads of the same name.
    pub(crate) epoch: Uuid,
    /// The number of entries in the log.
    pub(crate) version: u64,
    /// The version and the size of the head. Both are 0 without a head.
    pub(crate) head: (u64, u64),
    /// The number of heads that have been written.
    pub(crate) heads: u64,
    /// The size of the entries after the head.
    pub(crate) since: u64,
    /// True if the thread discards the entries before the head.
    pub(crate) latest_only: bool,
    /// The number of the pending [`Expire`](crate::wire::Expire) message.
    pub(crate) expiry: Option<u64>,
    pub(crate) run: Option<ActiveRun>,
    /// The settings of the last run. A run that a due time starts uses them.
    pub(crate) last: Option<Settings>,
    /// The time of the scheduled wake-up, in milliseconds since 1970.
    pub(crate) wake: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ActiveRun {
    pub(crate) id: Uuid,
    pub(crate) awakeable: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) progress: SliceProgress,
    pub(crate) slice: u64,
    /// The time at which the slice begins, in milliseconds since 1970.
    pub(crate) clock: u64,
    pub(crate) listener: Option<StreamListener>,
}

impl ActiveRun {
    pub(crate) fn piece(&self) -> SliceContext {
        SliceContext {
            run: self.id,
            clock: self.clock,
            settings: self.settings.clone(),
            progress: self.progress.clone(),
            slice: self.slice,
            listener: self.listener.clone(),
        }
    }
}

impl ThreadMeta {
    /// Returns the key of the head. Two keys alternate, so that a concurrent reader still finds the previous head and
    /// the entries after it.
    pub(crate) fn head_key(&self) -> String {
        format!("head/{}", self.heads % 2)
    }

    /// Returns the key of the entries of this version. If the thread discards entries, the entries after the head
    /// overwrite the entries before the previous head.
    pub(crate) fn log_key(&self, version: u64) -> String {
        if self.latest_only {
            format!("log/{}/{}", self.heads % 2, version - self.head.0)
        } else {
            format!("log/{version}")
        }
    }
}

pub(crate) async fn load(state: &ContextInternal, meta: &ThreadMeta, whole: bool) -> Result<LogSource, TerminalError> {
    let (from, head) = match meta.head {
        (at, _) if at > 0 && (meta.latest_only || !whole) => (at, state.get::<Vec<u8>>(&meta.head_key()).await?),
        _ => (0, None),
    };
    let mut entries = Vec::new();
    for version in from + 1..=meta.version {
        if let Some(Packed(more)) = state.get::<Packed<Vec<LogEntry>>>(&meta.log_key(version)).await? {
            entries.extend(more);
        }
    }
    Ok(LogSource { head, entries, whole })
}

/// Like [`load`], if another handler may change the thread at the same time. Returns `None` for an unknown thread.
async fn load_concurrently(state: &ContextInternal, whole: bool) -> Result<Option<LogSource>, TerminalError> {
    loop {
        let Some(Packed(meta)) = state.get::<Packed<ThreadMeta>>(META).await? else { return Ok(None) };
        let source = load(state, &meta, whole).await?;
        // The entries that were read are overwritten only if two heads were written, or the thread was deleted,
        // meanwhile.
        match state.get::<Packed<ThreadMeta>>(META).await? {
            Some(Packed(now)) if now.epoch == meta.epoch && now.heads < meta.heads + 2 => return Ok(Some(source)),
            _ => {}
        }
    }
}

pub(crate) async fn read(
    ctx: &SharedObjectContext<'_>,
    state: &ContextInternal,
    host: &Host,
    read: StateRequest,
) -> Result<Message<Result<Vec<DynSnapshot>, RunFailure>>, HandlerError> {
    let whole = read.history.is_some() || read.settings.checkpoint.is_some();
    let source = match &host.saver {
        None => load_concurrently(state, whole).await?.unwrap_or_default(),
        Some(_) => LogSource::default(),
    };
    let what = match &read.history {
        Some(_) => "the answer with the history (a smaller `limit` selects less)",
        None => "the answer with the state",
    };
    let found = host.read(ctx.key(), source, &read.settings, read.history).await?;
    Ok(Message::answer(what, &found, host.limit))
}

/// Returns the dump of the thread, for a worker that executes a task of the thread.
pub(crate) async fn base(
    ctx: &SharedObjectContext<'_>,
    state: &ContextInternal,
    host: &Host,
) -> Result<Message<Result<ThreadDump, RunFailure>>, HandlerError> {
    let dump = match load_concurrently(state, false).await? {
        Some(source) => drive::dump(&crate::log::rebuilt(ctx.key(), source).await?, ctx.key(), false)?,
        None => Vec::new(),
    };
    Ok(Message::answer("the state for a worker with a task", &Ok(ThreadDump(dump)), host.limit))
}
