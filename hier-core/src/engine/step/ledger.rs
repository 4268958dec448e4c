//! Applies the writes of a superstep. Checks conflicts first, and then merges the writes in path order.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::changes::Changes;
use super::returns::Returns;
use crate::channel::ChannelSpec;
use crate::engine::attempt::route::reducer_panicked;
use crate::engine::program::{Plan, TaskOutcome};
use crate::error::{ConflictKind, RunError};
use crate::panics;
use crate::reducer::ReduceError;
use crate::state::{ChannelWrite, Values, Writes};

/// The outcome of a task. The tasks of a superstep are in task order: first the tasks of Sends, then the other tasks by
/// name.
pub(crate) struct Applied<S: Values> {
    /// The node. None for START.
    pub(crate) node: Option<usize>,
    pub(crate) pushed: bool,
    pub(crate) done: TaskOutcome<S>,
}

/// Returns the tasks of a superstep in path order: first the tasks of edges by name, then the tasks of Sends.
#[inline]
pub(crate) fn path_order<S: Values>(tasks: &mut [Applied<S>]) -> impl Iterator<Item = &mut Applied<S>> {
    let pushed = tasks.iter().take_while(|task| task.pushed).count();
    let (pushed, pulled) = tasks.split_at_mut(pushed);
    pulled.iter_mut().chain(pushed)
}

/// The changes that the next checkpoint stores.
pub(crate) struct Unstored<'a, S: Values> {
    /// An input that waits to be applied.
    pub(crate) input: Option<&'a Writes<S>>,
    pub(crate) changes: &'a mut Changes,
    /// The writes that a subgraph returns. None for a root graph.
    pub(crate) returned: Option<&'a mut Returns<S::Write>>,
}

/// The channels of a stored position.
pub(crate) struct StoredChannels<W> {
    /// The channels with a value.
    pub(crate) held: Vec<usize>,
    /// The channels whose values an older version of the state has stored. The next checkpoint stores them again.
    pub(crate) migrated: Vec<usize>,
    /// True if an older version of the state has stored the checkpoint.
    pub(crate) is_upgraded: bool,
    /// The writes that a subgraph had made before it stopped.
    pub(crate) returned: Vec<W>,
    /// The size of the stored form of `returned`, in bytes.
    pub(crate) returned_bytes: usize,
}

impl<W> Default for StoredChannels<W> {
    fn default() -> Self {
        Self { held: Vec::new(), migrated: Vec::new(), is_upgraded: false, returned: Vec::new(), returned_bytes: 0 }
    }
}

/// Tracks channels: their versions, the expiry of their values, and the writes that a subgraph returns.
pub(crate) struct Ledger<S: Values> {
    /// The version in which each channel was last written. 0 if it was never written.
    versions: Vec<u64>,
    /// The current version. It rises with each superstep, and with each update from outside.
    version: u64,
    /// Expiring channels with a value.
    live: FixedBitSet,
    expires: bool,
    /// The writes that a subgraph returns to its parent. None for a root graph.
    pub(super) returned: Option<Returns<S::Write>>,
    /// The changes since the last checkpoint. None if the run is not durable.
    changes: Option<Box<Changes>>,
    /// The channels whose values contain writes of a superstep that was not applied.
    previewed: Vec<usize>,
    scratch: Vec<Writers>,
}

/// The tasks that write a channel in the superstep `version`.
#[derive(Clone, Copy, Default)]
struct Writers {
    version: u64,
    writer: usize,
    overwriter: Option<usize>,
}

impl<S: Values> Ledger<S> {
    pub(crate) fn new(channels: &[ChannelSpec], is_child: bool) -> Self {
        let expires = channels.iter().any(|spec| spec.kind.expires());
        let mut ledger = Self {
            versions: vec![0; channels.len()],
            version: 0,
            expires,
            live: if expires { FixedBitSet::with_capacity(channels.len()) } else { FixedBitSet::new() },
            returned: is_child.then(|| Returns::new(channels.len())),
            changes: None,
            previewed: Vec::new(),
            scratch: Vec::new(),
        };
        // The initial state of a subgraph may have values that expire with its first superstep.
        ledger.enter(channels);
        ledger
    }

    pub(crate) fn is_child(&self) -> bool {
        self.returned.is_some()
    }

    /// Returns true if the next superstep clears a value that expires.
    pub(crate) fn is_expiring(&self) -> bool {
        self.expires && !self.live.is_clear()
    }

    /// Merges the writes of a superstep into the state. Returns true if the superstep has writes.
    pub(crate) fn apply(
        &mut self,
        plan: &Plan,
        channels: &[ChannelSpec],
        state: &mut S,
        tasks: &mut [Applied<S>],
    ) -> Result<bool, RunError> {
        self.version += 1;
        if tasks.len() > 1 {
            self.resolve_conflicts(plan, channels, tasks)?;
        }
        // The input of a subgraph expires with its first superstep instead of START.
        let enters = self.returned.is_some() && tasks.first().is_some_and(|task| task.node.is_none());
        if self.expires && !enters {
            self.expire(state);
        }
        let mut written = false;
        for task in path_order(tasks) {
            written |= self.merge(plan, channels, state, task)?;
        }
        Ok(written)
    }

    /// Clears the values that expire.
    fn expire(&mut self, state: &mut S) {
        for channel in self.live.ones() {
            state.clear(channel);
            if let Some(changes) = &mut self.changes {
                changes.cleared(channel);
            }
        }
        self.live.clear();
    }

    /// Merges writes from outside the supersteps. Nothing expires.
    pub(crate) fn apply_outside(
        &mut self,
        plan: &Plan,
        channels: &[ChannelSpec],
        state: &mut S,
        writes: Writes<S>,
    ) -> Result<(), RunError> {
        self.version += 1;
        self.merge(
            plan,
            channels,
            state,
            &mut Applied { node: None, pushed: false, done: TaskOutcome::input(writes) },
        )?;
        Ok(())
    }

    /// Merges the writes of finished tasks into a state that is only displayed. Returns true if the tasks have writes.
    /// The writes are not tracked as changes.
    pub(crate) fn preview(
        &mut self,
        plan: &Plan,
        channels: &[ChannelSpec],
        state: &mut S,
        tasks: &mut [Applied<S>],
    ) -> bool {
        self.version += 1;
        if tasks.iter().all(|task| task.done.writes.is_empty()) {
            return false;
        }
        // A conflict is only reported when the superstep is applied.
        let _ = self.resolve_conflicts(plan, channels, tasks);
        let mut written = false;
        for task in path_order(tasks) {
            written |= !task.done.writes.is_empty();
            for write in task.done.writes.drain() {
                self.previewed.push(write.channel());
                // An error of the reducer is only reported when the superstep is applied.
                let merged = panics::catch(|| state.reduce(write));
                if !matches!(merged, Ok(Ok(()))) {
                    break;
                }
            }
        }
        written
    }

    /// Restores the tracked data of channels from a checkpoint, and begins to track changes.
    pub(crate) fn restore(&mut self, channels: &[ChannelSpec], stored: StoredChannels<S::Write>) {
        let StoredChannels { held, migrated, is_upgraded, returned, returned_bytes } = stored;
        self.live.clear();
        self.live.extend(held.into_iter().filter(|channel| channels[*channel].kind.expires()));
        if let Some(known) = &mut self.returned {
            for write in returned {
                self.version += 1;
                self.versions[write.channel()] = self.version;
                known.push(channels, self.version, write);
            }
            known.are_stored(returned_bytes);
            if is_upgraded {
                known.store_again();
            }
        }
        let mut changes = Box::new(Changes::new(channels));
        changes.store_again(&migrated);
        self.changes = Some(changes);
    }

    /// Marks all expiring channels of a subgraph as live, so that the values that it starts with expire with its first
    /// superstep.
    pub(crate) fn enter(&mut self, channels: &[ChannelSpec]) {
        self.live.extend((0..).zip(channels).filter(|(_, spec)| spec.kind.expires()).map(|(channel, _)| channel));
    }

    pub(crate) fn track_changes(&mut self, channels: &[ChannelSpec]) {
        self.changes = Some(Box::new(Changes::new(channels)));
    }

    pub(crate) fn store_again(&mut self, channels: usize) {
        if let Some(changes) = &mut self.changes {
            changes.store_again(&(0..channels).collect::<Vec<_>>());
        }
    }

    /// Returns the changes since the last checkpoint and the waiting input, or `None` if changes are not tracked.
    pub(crate) fn unstored<'a>(&'a mut self, input: Option<&'a Writes<S>>) -> Option<Unstored<'a, S>> {
        let changes = self.changes.as_mut()?;
        Some(Unstored { input, changes, returned: self.returned.as_mut() })
    }

    /// Returns true if the last checkpoint contains the current value of the channel.
    pub(crate) fn is_stored(&self, channel: usize) -> bool {
        let has_changed = |changes: &Changes| changes.changed.contains(&channel);
        self.changes.as_deref().is_some_and(|changes| !has_changed(changes)) && !self.previewed.contains(&channel)
    }

    fn merge(
        &mut self,
        plan: &Plan,
        channels: &[ChannelSpec],
        state: &mut S,
        task: &mut Applied<S>,
    ) -> Result<bool, RunError> {
        let written = !task.done.writes.is_empty();
        let mut at = 0;
        let merge = || {
            for write in task.done.writes.drain() {
                at = write.channel();
                self.note(channels, task.node, &write);
                state.reduce(write)?;
            }
            Ok(())
        };
        match panics::catch(merge) {
            Ok(Ok(())) => Ok(written),
            outcome => Err(refused(plan, channels, at, task.node, outcome)),
        }
    }

    /// Returns true if a write only changes the value of its channel: the state has no expiring channels, and the graph
    /// is not a subgraph.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        !self.expires && self.returned.is_none()
    }

    /// Merges a superstep of one node for which [`Self::is_simple`] returns true.
    #[inline]
    pub(crate) fn merge_simply(
        &mut self,
        plan: &Plan,
        channels: &[ChannelSpec],
        state: &mut S,
        node: usize,
        writes: &mut Writes<S>,
    ) -> Result<(), RunError> {
        self.version += 1;
        let mut at = 0;
        let merge = || {
            writes.take_each(|write| {
                at = write.channel();
                if let Some(changes) = &mut self.changes {
                    changes.write(&write, self.versions[at] != self.version);
                }
                self.versions[at] = self.version;
                state.reduce(write)
            })
        };
        match panics::catch(merge) {
            Ok(Ok(())) => Ok(()),
            outcome => Err(refused(plan, channels, at, Some(node), outcome)),
        }
    }

    #[inline]
    fn note(&mut self, channels: &[ChannelSpec], node: Option<usize>, write: &S::Write) {
        let channel = write.channel();
        if let Some(changes) = &mut self.changes {
            let first = self.versions[channel] != self.version && !changes.changed.contains(&channel);
            changes.write(write, first);
        }
        self.versions[channel] = self.version;
        if self.expires && channels[channel].kind.expires() {
            self.live.insert(channel);
        }
        // All writes are kept if the run is durable. Another version of the program may continue from the checkpoint
        // and return more channels.
        if let Some(returned) = self.returned.as_mut().filter(|_| node.is_some())
            && (self.changes.is_some() || returned.takes(channel))
        {
            returned.push(channels, self.version, write.clone());
        }
    }

    /// Refuses conflicts. Drops writes of tasks whose channel another task overwrites.
    fn resolve_conflicts(
        &mut self,
        plan: &Plan,
        channels: &[ChannelSpec],
        tasks: &mut [Applied<S>],
    ) -> Result<(), RunError> {
        self.scratch.resize(channels.len(), Writers::default());
        let mut overwritten = false;
        for (number, task) in tasks.iter().enumerate() {
            for write in &task.done.writes {
                let channel = write.channel();
                let fresh = Writers { version: self.version, writer: number, overwriter: None };
                let seen = &mut self.scratch[channel];
                if seen.version != self.version {
                    *seen = fresh;
                }
                if channels[channel].kind.single_writer() && seen.writer != number {
                    let first = &tasks[seen.writer];
                    if !(plan.last_sent_counts && first.pushed && task.pushed) {
                        return Err(conflict(plan, &channels[channel], [first, task], ConflictKind::Writes));
                    }
                    seen.writer = number;
                }
                if write.is_overwrite() {
                    overwritten = true;
                    match seen.overwriter.replace(number) {
                        Some(first) if first != number => {
                            let first = &tasks[first];
                            return Err(conflict(plan, &channels[channel], [first, task], ConflictKind::Overwrites));
                        }
                        _ => {}
                    }
                }
            }
        }
        if overwritten {
            for (number, task) in tasks.iter_mut().enumerate() {
                let scratch = &self.scratch;
                task.done.writes.retain(|write| scratch[write.channel()].overwriter.is_none_or(|task| task == number));
            }
        }
        Ok(())
    }

    pub(crate) fn return_only(&mut self, channels: &Arc<[bool]>) {
        if let Some(returned) = &mut self.returned {
            returned.take_only(channels);
        }
    }

    /// Drops the writes that earlier calls of a subgraph have returned.
    pub(crate) fn forget_returned(&mut self) {
        self.returned.iter_mut().for_each(Returns::clear);
    }

    /// Takes the writes that a subgraph returns, without those that a later overwrite made void. A channel with a single writer
    /// returns only its last value, and an expiring channel only values that have not expired.
    pub(crate) fn take_returned(&mut self, channels: &[ChannelSpec]) -> Vec<S::Write> {
        let Some(returned) = self.returned.take() else { return Vec::new() };
        returned.into_writes(|channel, version| {
            !channels[channel].kind.expires() || (self.live.contains(channel) && self.versions[channel] == version)
        })
    }
}

/// The error of a write whose reducer failed or panicked.
fn refused(
    plan: &Plan,
    channels: &[ChannelSpec],
    channel: usize,
    node: Option<usize>,
    outcome: std::thread::Result<Result<(), ReduceError>>,
) -> RunError {
    let message = match outcome {
        Ok(outcome) => outcome.err().map_or_else(String::new, |error| error.to_string()),
        Err(payload) => reducer_panicked(channels.get(channel).is_some_and(|spec| spec.secret), &*payload),
    };
    RunError::Reduce {
        graph: plan.graph().to_owned(),
        channel: channels.get(channel).map_or_else(String::new, |spec| spec.name.clone().into_owned()),
        node: node.map_or(hier_spec::START, |node| plan.name(node)).to_owned(),
        message,
    }
}

fn conflict<S: Values>(plan: &Plan, channel: &ChannelSpec, tasks: [&Applied<S>; 2], kind: ConflictKind) -> RunError {
    let nodes = tasks.map(|task| task.node.map_or(hier_spec::START, |node| plan.name(node)).to_owned());
    RunError::Conflict {
        graph: plan.graph().to_owned(),
        channel: channel.name.clone().into_owned(),
        nodes: nodes.to_vec(),
        kind,
    }
}
