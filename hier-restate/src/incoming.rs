//! The events of a run that workers have sent, before the stream returns them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hier_core::runs::NewEvent;
use tokio::sync::Notify;

/// An item of a [`RemoteStream`](crate::RemoteStream).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// An event of the run.
    Event(NewEvent),
    /// Some events are missing, or a worker repeated work and its new events differ from the earlier ones. This happens
    /// if a worker dies, if a worker cannot reach the client, if a worker is faster than the network, or if more than
    /// 64 MiB of events wait for the client. The state of the graph is not affected: see
    /// [`RemoteGraph::state`](crate::RemoteGraph::state).
    Lost,
}

/// The maximum size of the waiting events of a stream, in bytes. A single larger event is accepted if no other event
/// waits. It is also the maximum size of the events that a stream remembers to detect repeated events.
pub(crate) const WAITING: usize = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct IncomingRun {
    /// The items that the stream has not returned yet, each with its size in bytes.
    waiting: VecDeque<(StreamItem, usize)>,
    bytes: usize,
    pub(crate) arrived: Arc<Notify>,
    slice: u64,
    /// The parts of the current slice, by their names.
    pub(crate) pieces: HashMap<String, ReceivedPart>,
    /// The size of the remembered events of the current slice, in bytes.
    remembered: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ReceivedPart {
    /// The remembered events.
    pub(crate) events: Vec<NewEvent>,
    /// True if the part has more events than the stream remembers.
    is_cut: bool,
    /// True if the worker has sent all events.
    is_complete: bool,
}

/// A part of a run, such as a task, whose events arrive on one connection.
pub(crate) struct IncomingPart {
    slice: u64,
    part: String,
    /// The number of events that this attempt has repeated without a difference from the previous attempt. `None` in
    /// the first attempt, and after the first difference.
    again: Option<usize>,
}

impl IncomingRun {
    /// Begins a part, or another attempt of a part. Returns `None` for a part of an earlier slice.
    pub(crate) fn begin(&mut self, slice: u64, part: String) -> Option<IncomingPart> {
        if slice < self.slice {
            return None;
        }
        if slice > self.slice {
            if slice > self.slice + 1 || self.pieces.is_empty() || !self.has_all() {
                self.push(StreamItem::Lost, 0);
            }
            self.slice = slice;
            self.pieces.clear();
            self.remembered = 0;
        }
        let received = self.pieces.entry(part.clone()).or_default();
        received.is_complete = false;
        Some(IncomingPart { slice, part, again: (!received.events.is_empty()).then_some(0) })
    }

    /// Returns true if the parts of the current slice that have begun have sent all their events.
    fn has_all(&self) -> bool {
        self.pieces.values().all(|part| part.is_complete)
    }

    pub(crate) fn complete(&mut self, piece: &IncomingPart) {
        if piece.slice == self.slice
            && let Some(received) = self.pieces.get_mut(&piece.part)
        {
            received.is_complete = true;
        }
    }

    /// Ends the stream. `executed` is true if at least one slice has been executed.
    pub(crate) fn end(&mut self, executed: bool) {
        if !self.has_all() || (executed && self.pieces.is_empty()) {
            self.push(StreamItem::Lost, 0);
        }
    }

    /// Adds an event that takes this number of bytes.
    pub(crate) fn event(&mut self, piece: &mut IncomingPart, event: NewEvent, bytes: usize) {
        if piece.slice != self.slice {
            return;
        }
        let received = self.pieces.entry(piece.part.clone()).or_default();
        if let Some(again) = &mut piece.again {
            if received.events.get(*again) == Some(&event) {
                *again += 1;
                return;
            }
            let differs = *again < received.events.len() || received.is_cut;
            received.events.truncate(*again);
            piece.again = None;
            if differs {
                self.push(StreamItem::Lost, 0);
            }
        }
        let received = self.pieces.entry(piece.part.clone()).or_default();
        received.is_cut |= self.remembered + bytes > WAITING;
        if !received.is_cut {
            self.remembered += bytes;
            received.events.push(event.clone());
        }
        self.push(StreamItem::Event(event), bytes);
    }

    /// Adds an item. If the queue is full, drops the oldest items.
    pub(crate) fn push(&mut self, item: StreamItem, bytes: usize) {
        let mut is_lost = false;
        while self.bytes + bytes > WAITING && self.pop().is_some() {
            is_lost = true;
        }
        if is_lost {
            self.waiting.push_front((StreamItem::Lost, 0));
        }
        if item != StreamItem::Lost || self.waiting.back().is_none_or(|(last, _)| *last != StreamItem::Lost) {
            self.bytes += bytes;
            self.waiting.push_back((item, bytes));
        }
        self.arrived.notify_one();
    }

    pub(crate) fn pop(&mut self) -> Option<StreamItem> {
        let (item, bytes) = self.waiting.pop_front()?;
        self.bytes -= bytes;
        Some(item)
    }
}
