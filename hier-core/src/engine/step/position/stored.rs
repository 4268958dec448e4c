//! A position as it is stored, by the names of nodes.

use std::sync::Arc;

use super::{Last, Position};
use crate::checkpoint::{CodecError, LastRan, NextTasks, SendRecord};
use crate::engine::program::{Plan, Program, SendArg};
use crate::engine::step::frontier::Frontier;
use crate::error::RunError;
use crate::state::Values;

impl<S: Values> Position<S> {
    /// What is to run next, by name: with the state and the input that waits all that has to be stored.
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
                what: format!("what was sent to node `{}`", plan.name(node)),
                reason: error.to_string(),
            })?;
            agenda.sends.push(record);
        }
        Ok(agenda)
    }

    /// The position has been stored as it is: what was sent is numbered as whoever reads it will.
    pub(crate) fn stored(&mut self) {
        self.first_send = 0;
        self.commanded.clear();
    }

    /// Goes on from what was stored.
    pub(crate) fn restore<C>(graph: &Program<S, C>, agenda: &NextTasks, is_child: bool) -> Result<Self, CodecError> {
        let plan = &graph.plan;
        let no_join = |name: &str| {
            CodecError::new(format!(
                "it waits for `{name}`, which the graph has no longer: bring the join back, or update the thread's state as the \
                 node that is to follow"
            ))
        };
        let frontier = Frontier::read(plan, agenda, |name| graph.node(name), no_join)?;
        let mut position = Self::at(frontier, graph, is_child);
        position.unentered = agenda.unentered;
        for SendRecord { node, payload, .. } in &agenda.sends {
            Arc::make_mut(&mut position.sends).push(graph.node(node)?, SendArg::stored(payload.clone()));
        }
        position.read_last(graph, &agenda.last);
        Ok(position)
    }

    /// Which node ran last, by name.
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
