//! The leases and the checkpoints of a sequence of calls.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_core::checkpoint::{ChannelBlob, Checkpoint, Lease, PendingWrite, Source, TaskWrites, WriteRecord};
use serde_json::json;
use uuid::{Timestamp, Uuid};

use crate::calls::{CHANNELS, Change, Entry, FIRST};

pub(crate) fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A claim of one thread on the saver in memory and on the other one.
pub(crate) struct Claimed {
    pub(crate) thread: &'static str,
    pub(crate) leases: [Lease; 2],
}

/// The leases, and the checkpoints that were made for a thread and a namespace.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) claimed: Vec<Claimed>,
    pub(crate) checkpoints: Vec<(&'static str, &'static str, Checkpoint)>,
}

impl World {
    /// One of the last leases.
    pub(crate) fn claimed(&self, back: usize) -> Option<&Claimed> {
        self.claimed.iter().rev().nth(back % self.claimed.len().max(1))
    }

    /// Forgets a lease that was released. A run does not use it again, and savers forget it at different times.
    pub(crate) fn forget(&mut self, back: usize) {
        if let Some(last) = self.claimed.len().checked_sub(1) {
            self.claimed.remove(last - back % (last + 1));
        }
    }

    /// Mostly a checkpoint of this thread, sometimes one of another.
    pub(crate) fn pick(&self, thread: &str, namespace: &str, which: usize) -> Option<&Checkpoint> {
        let fits = |of: &str, within: &str| within == namespace && (of == thread || which.is_multiple_of(7));
        let fit: Vec<_> = self.checkpoints.iter().filter(|(of, within, _)| fits(of, within)).collect();
        // Mostly a recent one.
        fit.iter().rev().nth(which / 7 % (fit.len().min(3) + 1)).map(|(_, _, checkpoint)| checkpoint)
    }

    pub(crate) fn record(&mut self, thread: &'static str, entry: &Entry) -> WriteRecord {
        match entry {
            Entry::Checkpoint { namespace, parent, replaces, changes, run } => {
                let parent = self.pick(thread, namespace, *parent).cloned();
                let (checkpoint, pieces) = self.checkpoint(namespace, parent, *replaces, changes, *run);
                self.checkpoints.push((thread, namespace, (*checkpoint).clone()));
                WriteRecord::Checkpoint { namespace: Arc::from(*namespace), checkpoint, pieces }
            }
            Entry::Writes { namespace, checkpoint, task, slot, value } => {
                let checkpoint = self.pick(thread, namespace, *checkpoint).map_or(Uuid::nil(), |found| found.id);
                let write = PendingWrite { slot: *slot, channel: "n\0".into(), value: vec![*value] };
                let (task, path) = (Uuid::from_u128(*task), Arc::from(format!("~\0{task}")));
                let writes = TaskWrites { checkpoint, task, path, writes: vec![write] };
                WriteRecord::Writes { namespace: Arc::from(*namespace), writes }
            }
        }
    }

    fn checkpoint(
        &self,
        namespace: &str,
        parent: Option<Checkpoint>,
        replaces: bool,
        changes: &[(usize, Change)],
        run: u128,
    ) -> (Box<Checkpoint>, Vec<ChannelBlob>) {
        let ticks = (FIRST + 12_219_292_800 + 60 * self.checkpoints.len() as u64) * 10_000_000;
        let next = Uuid::new_v6(Timestamp::from_gregorian_time(ticks, 0), &[1, 2, 3, 4, 5, 6]);
        let id = parent.as_ref().filter(|_| replaces).map_or(next, |parent| parent.id);
        let channels = CHANNELS.iter().map(|name| Arc::from(*name)).collect();
        let mut made = Checkpoint::new(id, 7, Source::Loop, channels);
        let mut versions = parent.as_ref().map_or_else(|| made.versions.to_vec(), |parent| parent.versions.to_vec());
        let mut pieces = Vec::new();
        for (channel, change) in changes {
            if pieces.iter().any(|piece: &ChannelBlob| piece.channel == *channel) {
                continue;
            }
            let before = std::mem::replace(&mut versions[*channel], id);
            let base = Some(before).filter(|before| matches!(change, Change::Add(_)) && !before.is_nil());
            match change {
                Change::Set(byte) | Change::Add(byte) => {
                    pieces.push(ChannelBlob { channel: *channel, base, bytes: vec![*byte; 3] });
                }
                Change::Drop => versions[*channel] = Uuid::nil(),
            }
        }
        (made.versions, made.parent) = (versions.into(), parent.map(|parent| parent.id).filter(|parent| *parent != id));
        made.metadata =
            Arc::new(json!({ "run_id": Uuid::from_u128(run).to_string() }).as_object().cloned().unwrap_or_default());
        let root = self.checkpoints.iter().rev().find(|(_, within, _)| within.is_empty());
        if let Some((_, _, root)) = root.filter(|_| !namespace.is_empty()) {
            made.parents = Arc::new([(String::new(), root.id)].into());
        }
        let sub = self.checkpoints.iter().rev().find(|(_, within, _)| *within == "sub");
        if let Some((_, _, sub)) = sub.filter(|_| namespace.is_empty()) {
            made.agenda.kept = Some(Arc::new([(Arc::from("sub"), sub.id)].into()));
        }
        (Box::new(made), pieces)
    }
}
