//! What is stored of a thread in its virtual object, and how it is read.

use hier_core::drive::Settings;
use hier_core::graph::DynSnapshot;
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Failure;
use crate::host::Host;
use crate::slice::Progress;
use crate::wire::{Entry, Listener, Packed, Piece, Read, Source};

/// The key of what is known beside the log.
pub(crate) const META: &str = "meta";

/// What is known of a thread beside its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// Which of the threads of this name it is.
    pub(crate) epoch: Uuid,
    /// How many entries its log has.
    pub(crate) version: u64,
    /// The version that the head stands for, and its length; 0 if there is none.
    pub(crate) head: (u64, u64),
    /// How many heads were made so far.
    pub(crate) heads: u64,
    /// How long the entries since the head are.
    pub(crate) since: u64,
    /// Whether what came before the head is forgotten.
    pub(crate) latest_only: bool,
    /// The number of the message that ends the thread's life, if one is under way.
    pub(crate) expiry: Option<u64>,
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
    pub(crate) slice: u64,
    /// When the slice begins, in milliseconds since 1970.
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
            slice: self.slice,
            listener: self.listener.clone(),
        }
    }
}

impl Meta {
    /// The key of the head. Two take turns: who reads while a head is written finds the one before, and what follows it.
    pub(crate) fn head_key(&self) -> String {
        format!("head/{}", self.heads % 2)
    }

    /// The key of the entries that make this version. If what came before the head is forgotten, those since take the places of those
    /// before the head before.
    pub(crate) fn log_key(&self, version: u64) -> String {
        if self.latest_only {
            format!("log/{}/{}", self.heads % 2, version - self.head.0)
        } else {
            format!("log/{version}")
        }
    }
}

/// Loads the log of a thread.
pub(crate) async fn load(state: &ContextInternal, meta: &Meta, whole: bool) -> Result<Source, TerminalError> {
    let (from, head) = match meta.head {
        (at, _) if at > 0 && (meta.latest_only || !whole) => (at, state.get::<Vec<u8>>(&meta.head_key()).await?),
        _ => (0, None),
    };
    let mut entries = Vec::new();
    for version in from + 1..=meta.version {
        if let Some(Packed(more)) = state.get::<Packed<Vec<Entry>>>(&meta.log_key(version)).await? {
            entries.extend(more);
        }
    }
    Ok(Source { head, entries, whole })
}

/// The same beside a handler that may be changing the thread; nothing for a thread that is not there.
async fn load_beside(state: &ContextInternal, whole: bool) -> Result<Option<Source>, TerminalError> {
    loop {
        let Some(Packed(meta)) = state.get::<Packed<Meta>>(META).await? else { return Ok(None) };
        let source = load(state, &meta, whole).await?;
        if meta.head.0 == 0 {
            return Ok(Some(source));
        }
        // What was read has been overwritten only if two heads were made meanwhile.
        match state.get::<Packed<Meta>>(META).await? {
            Some(Packed(now)) if now.epoch == meta.epoch && now.heads < meta.heads + 2 => return Ok(Some(source)),
            _ => {}
        }
    }
}

/// What the thread is, or was.
pub(crate) async fn read(
    ctx: &SharedObjectContext<'_>,
    state: &ContextInternal,
    host: &Host,
    read: Read,
) -> Result<Packed<Result<Vec<DynSnapshot>, Failure>>, HandlerError> {
    let whole = read.history.is_some() || read.settings.checkpoint.is_some();
    let source = match &host.saver {
        None => load_beside(state, whole).await?.unwrap_or_default(),
        Some(_) => Source::default(),
    };
    Ok(Packed(host.read(ctx.key(), source, &read.settings, read.history).await?))
}

/// The thread as bytes, for a worker that does a task of it.
pub(crate) async fn base(ctx: &SharedObjectContext<'_>, state: &ContextInternal) -> Result<Vec<u8>, HandlerError> {
    let Some(source) = load_beside(state, false).await? else { return Ok(Vec::new()) };
    let saver = crate::log::rebuilt(ctx.key(), source).await?;
    Ok(hier_core::drive::dump(&saver, ctx.key(), false)?)
}
