//! The stored form of a position. It contains the names of nodes.

use std::sync::Arc;

use super::{Last, Position};
use crate::channel::ChannelSpec;
use crate::checkpoint::{CodecError, LastRan, NextTasks, SendRecord};
use crate::engine::program::{Plan, Program, SendArg};
use crate::engine::step::frontier::Frontier;
use crate::engine::step::ledger::{StoredChannels, Unstored};
use crate::error::RunError;
use crate::state::Values;

impl<S: Values> Position<S> {
    /// Returns the stored form of the position. A checkpoint stores it together with the state and the input.
    pub(crate) fn agenda<C>(&self, graph: &Program<S, C>) -> Result<NextTasks, RunError> {
        let plan = &graph.plan;
        let mut agenda = NextTasks::default();
        agenda.start = self.start.is_some();
        agenda.unentered = self.waits_to_be_entered();
        agenda.last = self.last_ran(plan);
        self.frontier.note(plan, &mut agenda);
        for (node, arg) in self.sends.iter() {
            let record = graph.send_record(node, &arg);
            let record = record.map_err(|error| RunError::Encode {
                graph: plan.graph().to_owned(),
                what: format!("the payload sent to node `{}`", plan.name(node)),
                reason: error.to_string(),
            })?;
            agenda.sends.push(record);
        }
        Ok(agenda)
    }

    /// Numbers the Sends from zero, as they are numbered in a run that restores the position.
    pub(crate) fn renumber_sends(&mut self) {
        (self.first_send, self.sent_by_commands) = (0, false);
        self.commanded.clear();
    }

    pub(crate) fn restore<C>(graph: &Program<S, C>, agenda: &NextTasks, is_child: bool) -> Result<Self, CodecError> {
        let plan = &graph.plan;
        let find_join = |name: &str| {
            graph.join(name).ok_or_else(|| CodecError::new(format!(
                "it waits for `{name}`, but the graph no longer has this join: restore it, or update the thread's state as the \
                 next node"
            )))
        };
        let frontier = Frontier::read(plan, agenda, |name| graph.node(name), find_join)?;
        let mut position = Self::at(frontier, graph, is_child);
        position.unentered = agenda.unentered;
        for SendRecord { node, payload, .. } in &agenda.sends {
            Arc::make_mut(&mut position.sends).push(graph.node(node)?, SendArg::stored(payload.clone()));
        }
        position.read_last(graph, &agenda.last);
        Ok(position)
    }

    pub(crate) fn track_changes(&mut self, channels: &[ChannelSpec]) {
        self.ledger.track_changes(channels);
    }

    /// Makes the next checkpoint store the first `channels` channels, even if they have not changed.
    pub(crate) fn store_again(&mut self, channels: usize) {
        self.ledger.store_again(channels);
    }

    pub(crate) fn restore_channels(&mut self, channels: &[ChannelSpec], stored: StoredChannels<S::Write>) {
        self.ledger.restore(channels, stored);
    }

    /// Begins a checkpoint of the current position. Returns the changes that the checkpoint stores, or `None` if
    /// changes are not tracked.
    pub(crate) fn begin_checkpoint(&mut self) -> Option<Unstored<'_, S>> {
        self.renumber_sends();
        self.ledger.unstored(self.start.as_ref())
    }

    pub(crate) fn is_stored(&self, channel: usize) -> bool {
        self.ledger.is_stored(channel)
    }

    /// Makes the values that a subgraph starts with expire with its first superstep.
    pub(crate) fn restart_expiry(&mut self, channels: &[ChannelSpec]) {
        self.ledger.enter(channels);
    }

    pub(crate) fn return_only(&mut self, channels: &Arc<[bool]>) {
        self.ledger.return_only(channels);
    }

    pub(crate) fn forget_returned(&mut self) {
        self.ledger.forget_returned();
    }

    pub(crate) fn take_returned(&mut self, channels: &[ChannelSpec]) -> Vec<S::Write> {
        self.ledger.take_returned(channels)
    }

    fn last_ran(&self, plan: &Plan) -> LastRan {
        let name = |node: &usize| plan.shared_name(*node).clone();
        match self.last {
            Last::Nothing => LastRan::Nothing,
            Last::Start => LastRan::Start,
            Last::Node(node) => LastRan::Node(name(&node)),
            Last::Several if self.among.is_empty() => LastRan::Several,
            Last::Several => LastRan::Among(self.among.iter().map(name).collect()),
        }
    }

    fn read_last<C>(&mut self, graph: &Program<S, C>, record: &LastRan) {
        let find = |name: &Arc<str>| graph.node(name).ok();
        self.last = match record {
            LastRan::Nothing => Last::Nothing,
            LastRan::Start => Last::Start,
            LastRan::Node(name) => find(name).map_or(Last::Several, Last::Node),
            LastRan::Several | LastRan::Among(_) => Last::Several,
        };
        if let LastRan::Among(names) = record {
            self.among = names.iter().filter_map(find).collect();
        }
    }
}
