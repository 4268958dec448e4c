use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use uuid::{Timestamp, Uuid};

use super::{ContractViolation, Subject};
pub(super) use crate::contract::{CaseResult, cases, holds, same, some};
use hier_core::checkpoint::{
    ChannelBlob, Checkpoint, Claim, Lease, ListQuery, PendingWrite, Saved, SaverError, Schema, Source, SupersededBy,
    TaskWrites, WriteRecord,
};

/// Fails unless the error says that another writer has taken over the thread.
pub(super) fn superseded<T: Debug>(what: &str, result: &Result<T, SaverError>) -> CaseResult {
    superseded_by(SupersededBy::Claim, what, result)
}

/// Fails unless the error says that the thread was deleted or replaced.
pub(super) fn deleted<T: Debug>(what: &str, result: &Result<T, SaverError>) -> CaseResult {
    superseded_by(SupersededBy::Deletion, what, result)
}

fn superseded_by<T: Debug>(event: SupersededBy, what: &str, result: &Result<T, SaverError>) -> CaseResult {
    match result {
        Err(SaverError::Superseded { by, .. }) if *by == event => Ok(()),
        other => Err(ContractViolation(format!("{what}: {other:?} instead of `Superseded` by a `{event:?}`"))),
    }
}

/// Returns a new checkpoint id of the current time. Ids increase from call to call.
pub(super) fn new_id() -> Uuid {
    new_id_at(SystemTime::now())
}

/// Returns a new checkpoint id of this time. The id is greater than all ids that this function returned before for the
/// same or an earlier time.
pub(super) fn new_id_at(time: SystemTime) -> Uuid {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // The ids count ticks of 100 ns since 1582. A counter replaces the fraction of the second, so that the ids of one
    // second differ.
    let seconds = since.as_secs() + 12_219_292_800;
    let number = LAST.fetch_add(1, Ordering::Relaxed) % 10_000_000;
    let ticks = seconds * 10_000_000 + number;
    Uuid::new_v6(Timestamp::from_gregorian_time(ticks, 0), &[1, 2, 3, 4, 5, 6])
}

pub(super) const LONG_AGO: Duration = Duration::from_hours(8760);

/// A sequence of checkpoints in a namespace. Each checkpoint is the child of the previous one.
#[derive(Clone)]
pub(super) struct Branch {
    pub(super) namespace: Arc<str>,
    pub(super) tip: Option<Checkpoint>,
    pub(super) metadata: Map<String, Value>,
    pub(super) parents: BTreeMap<String, Uuid>,
    /// The age of new checkpoints, according to their ids.
    pub(super) age: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum ChannelChange<'a> {
    /// Sets the whole value.
    Set(&'a str, &'a [u8]),
    /// Adds a delta to the value.
    Add(&'a str, &'a [u8]),
    Drop(&'a str),
}

impl Branch {
    pub(super) fn root() -> Self {
        Self::within("")
    }

    pub(super) fn within(namespace: &str) -> Self {
        Self {
            namespace: Arc::from(namespace),
            tip: None,
            metadata: Map::new(),
            parents: BTreeMap::new(),
            age: Duration::ZERO,
        }
    }

    pub(super) fn of_run(mut self, run: &str) -> Self {
        self.metadata.insert("run_id".to_owned(), run.into());
        self
    }

    pub(super) fn called_from(mut self, root: Uuid) -> Self {
        self.parents.insert(String::new(), root);
        self
    }

    pub(super) fn aged(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    pub(super) fn fork(&self, from: &Checkpoint) -> Self {
        Self { tip: Some(from.clone()), ..self.clone() }
    }

    pub(super) fn next(&mut self, changes: &[ChannelChange<'_>]) -> WriteRecord {
        let (checkpoint, pieces) = self.next_checkpoint(changes);
        self.record(checkpoint, pieces)
    }

    pub(super) fn record(&self, checkpoint: Box<Checkpoint>, pieces: Vec<ChannelBlob>) -> WriteRecord {
        WriteRecord::Checkpoint { namespace: self.namespace.clone(), checkpoint, pieces }
    }

    /// Returns the next checkpoint without its record, so that a case can change the checkpoint.
    pub(super) fn next_checkpoint(&mut self, changes: &[ChannelChange<'_>]) -> (Box<Checkpoint>, Vec<ChannelBlob>) {
        let id = new_id_at(SystemTime::now() - self.age);
        let tip = self.tip.as_ref();
        let mut channels = tip.map(|tip| tip.channels.to_vec()).unwrap_or_default();
        let mut versions = tip.map(|tip| tip.versions.to_vec()).unwrap_or_default();
        let mut pieces = Vec::new();
        for change in changes {
            let (ChannelChange::Set(name, _) | ChannelChange::Add(name, _) | ChannelChange::Drop(name)) = *change;
            let known = channels.iter().position(|channel| &**channel == name);
            let channel = known.unwrap_or_else(|| {
                channels.push(Arc::from(name));
                versions.push(Uuid::nil());
                channels.len() - 1
            });
            let before = std::mem::replace(&mut versions[channel], id);
            match change {
                ChannelChange::Set(_, bytes) => pieces.push(ChannelBlob { channel, base: None, bytes: bytes.to_vec() }),
                ChannelChange::Add(_, bytes) => {
                    pieces.push(ChannelBlob { channel, base: Some(before), bytes: bytes.to_vec() });
                }
                ChannelChange::Drop(_) => versions[channel] = Uuid::nil(),
            }
        }
        let source = if tip.is_none() { Source::Input } else { Source::Loop };
        let mut checkpoint = Checkpoint::new(id, tip.map_or(-1, |tip| tip.step + 1), source, channels.into());
        checkpoint.parent = tip.map(|tip| tip.id);
        checkpoint.versions = versions.into();
        checkpoint.agenda.ready = [Arc::from("next")].into_iter().collect();
        checkpoint.schema = Arc::new(Schema::new("Suite", 1, u64::MAX));
        checkpoint.metadata = Arc::new(self.metadata.clone());
        checkpoint.parents = Arc::new(self.parents.clone());
        self.tip = Some(checkpoint.clone());
        (Box::new(checkpoint), pieces)
    }

    pub(super) fn tip(&self) -> Result<&Checkpoint, ContractViolation> {
        some("the line's last checkpoint", self.tip.as_ref())
    }
}

pub(super) fn writes(
    namespace: &str,
    checkpoint: Uuid,
    task: Uuid,
    path: &str,
    slots: &[(i32, &str, &[u8])],
) -> WriteRecord {
    let writes = slots.iter().map(|(slot, channel, value)| PendingWrite {
        slot: *slot,
        channel: Arc::from(*channel),
        value: value.to_vec(),
    });
    let writes = TaskWrites { checkpoint, task, path: Arc::from(path), writes: writes.collect() };
    WriteRecord::Writes { namespace: Arc::from(namespace), writes }
}

pub(super) async fn claim(saver: &Subject, thread: &str) -> Result<Lease, ContractViolation> {
    Ok(saver.acquire(thread, Claim::default()).await?)
}

pub(super) async fn get(
    saver: &Subject,
    thread: &str,
    namespace: &str,
    id: Option<Uuid>,
) -> Result<Saved, ContractViolation> {
    some("the checkpoint", saver.get(thread, namespace, id).await?)
}

/// Returns the ids of all checkpoints in a namespace, newest first.
pub(super) async fn ids(saver: &Subject, thread: &str, namespace: &str) -> Result<Vec<Uuid>, ContractViolation> {
    let query = ListQuery { namespace: Some(namespace.to_owned()), ..ListQuery::thread(thread) };
    Ok(saver.list(query).await?.into_iter().map(|listed| listed.checkpoint.id).collect())
}

/// Returns the parts of each channel's value: the whole value, then the deltas.
pub(super) fn parts(saved: &Saved) -> Result<BTreeMap<String, Vec<Vec<u8>>>, ContractViolation> {
    let mut found = BTreeMap::new();
    for (channel, chain) in &saved.values {
        let name = some("the name of a channel that has a value", saved.checkpoint.channels.get(*channel))?;
        let whole = some(&format!("the whole value of channel `{name}`"), chain.full.clone())?;
        let parts = std::iter::once(whole).chain(chain.deltas.iter().cloned()).collect();
        if found.insert(name.to_string(), parts).is_some() {
            return Err(ContractViolation(format!("channel `{name}` has two values")));
        }
    }
    Ok(found)
}

/// Fails unless exactly these channels have these values.
pub(super) fn has_values(what: &str, saved: &Saved, wanted: &[(&str, &[&[u8]])]) -> CaseResult {
    let wanted = wanted.iter().map(|(name, parts)| {
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        ((*name).to_owned(), parts)
    });
    same(what, &parts(saved)?, &wanted.collect())
}
