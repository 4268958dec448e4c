//! What is stored of a thread in its virtual object, and how it is read.

use hier_core::drive::{Progress, Settings};
use hier_core::graph::DynSnapshot;
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Failure;
use crate::host::Host;
use crate::wire::{Entry, Listener, Packed, Piece, Read, Source};

/// The key of what is known beside the log.
pub(crate) const META: &str = "meta";
/// The key of what stands for the beginning of the log.
pub(crate) const HEAD: &str = "head";

/// What is known of a thread beside its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// Which of the threads of this name it is.
    pub(crate) epoch: Uuid,
    /// How many entries its log has.
    pub(crate) version: u64,
    /// The version that the head stands for, and its length; 0 if there is none.
    pub(crate) head: (u64, u64),
    /// How long the entries since the head are.
    pub(crate) since: u64,
    pub(crate) run: Option<Running>,
    /// The settings of the last run, with which what is due goes on.
    pub(crate) last: Option<Settings>,
    /// When the thread is due, if somebody has been sent to look.
    pub(crate) wake: Option<u64>,
}

/// A run that is going.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) id: Uuid,
    pub(crate) awakeable: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) progress: Progress,
    pub(crate) turn: u64,
    /// When the turn begins, in milliseconds since 1970.
    pub(crate) clock: u64,
    pub(crate) listener: Option<Listener>,
}

impl Running {
    pub(crate) fn piece(&self) -> Piece {
        Piece {
            run: self.id,
            clock: self.clock,
            settings: self.settings.clone(),
            progress: self.progress.clone(),
            turn: self.turn,
            listener: self.listener.clone(),
        }
    }
}

/// The key of the entries that make this version.
pub(crate) fn key(version: u64) -> String {
    format!("log/{version}")
}

/// Loads the log of a thread.
pub(crate) async fn load(state: &ContextInternal, meta: &Meta, whole: bool) -> Result<Source, TerminalError> {
    let (from, head) = match meta.head {
        (at, _) if at > 0 && !whole => (at, state.get::<Vec<u8>>(HEAD).await?),
        _ => (0, None),
    };
    let mut entries = Vec::new();
    for version in from + 1..=meta.version {
        if let Some(Packed(more)) = state.get::<Packed<Vec<Entry>>>(&key(version)).await? {
            entries.extend(more);
        }
    }
    Ok(Source { head, entries, whole })
}

/// What the thread is, or was.
pub(crate) async fn read(
    ctx: &SharedObjectContext<'_>,
    state: &ContextInternal,
    host: &Host,
    read: Read,
) -> Result<Packed<Result<Vec<DynSnapshot>, Failure>>, HandlerError> {
    let source = match ctx.get::<Packed<Meta>>(META).await? {
        Some(Packed(meta)) if host.saver.is_none() => {
            let whole = read.history.is_some() || read.settings.checkpoint.is_some();
            load(state, &meta, whole).await?
        }
        _ => Source::default(),
    };
    Ok(Packed(host.read(ctx.key(), source, &read.settings, read.history).await?))
}

/// The thread as bytes, for a worker that does a task of it.
pub(crate) async fn base(ctx: &SharedObjectContext<'_>, state: &ContextInternal) -> Result<Vec<u8>, HandlerError> {
    let Some(Packed(meta)) = ctx.get::<Packed<Meta>>(META).await? else { return Ok(Vec::new()) };
    let source = load(state, &meta, false).await?;
    let saver = crate::log::rebuilt(ctx.key(), source).await?;
    Ok(hier_core::drive::dump(&saver, ctx.key(), false)?)
}
