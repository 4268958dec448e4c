//! The commands and the answers of callers for an open superstep, as they are stored with its checkpoint.

use std::collections::HashSet;

use serde_json::Value;

use crate::checkpoint::{CodecError, PendingWrite, Saved, TaskWrites, codec, slot};
use crate::engine::attempt::stored::{RESUME, ROUTING, RoutingRecord};
use crate::engine::durable::pending::{Pending, questions_of};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::program::Destinations;
use crate::state::{Values, Writes};

pub(crate) type OpenQuestionIds = HashSet<String>;

pub(in crate::engine) struct CommandEffect<S: Values> {
    pub(in crate::engine) writes: Writes<S>,
    pub(in crate::engine) destinations: Vec<Destinations>,
}

/// Returns true if the run with this node field ([`StoppedClock`](crate::drive::StoppedClock)) has stored its command.
pub fn has_command(saved: Saved, run: [u8; 6]) -> Result<bool, CodecError> {
    Pending::new(saved.writes, &[], None).has_command_of(Some(run))
}

impl Pending {
    fn caller_writes(&self) -> impl Iterator<Item = &PendingWrite> {
        self.caller.iter().flat_map(|record| &record.writes)
    }

    pub(in crate::engine) fn command_effect<S: Values, C>(
        &self,
        reader: ThreadReader<'_, S, C>,
        state: &S,
    ) -> Result<CommandEffect<S>, CodecError> {
        let rewriter = self.rewriter(reader, state);
        let mut effect = CommandEffect { writes: Writes::new(), destinations: Vec::new() };
        for (command, routing) in self.commands()? {
            for write in command {
                for write in rewriter.write(routing.rule_of(&write.channel), &write.channel, &write.value)? {
                    effect.writes.push(write);
                }
            }
            effect.destinations.push(rewriter.destinations(&routing)?);
        }
        Ok(effect)
    }

    /// The writes and the routing of each command, in order. The routing follows the writes and has their version.
    fn commands(&self) -> Result<Vec<(Vec<&PendingWrite>, RoutingRecord)>, CodecError> {
        let mut stored: Vec<&PendingWrite> = self.caller_writes().collect();
        stored.retain(|write| write.slot >= 0 && &*write.channel != RESUME);
        stored.sort_by_key(|write| write.slot);
        let (mut commands, mut open) = (Vec::new(), Vec::new());
        for write in stored {
            if &*write.channel == ROUTING {
                commands.push((std::mem::take(&mut open), codec::decode(&write.value)?));
            } else {
                open.push(write);
            }
        }
        if !open.is_empty() {
            commands.push((open, RoutingRecord::default()));
        }
        Ok(commands)
    }

    /// Returns true if an earlier attempt of this run has stored its command.
    pub(in crate::engine) fn has_command_of(&self, run: Option<[u8; 6]>) -> Result<bool, CodecError> {
        Ok(run.is_some() && self.commands()?.iter().any(|(_, routing)| routing.by == run))
    }

    pub(in crate::engine) fn free_command_slot(&self) -> i32 {
        self.caller_writes().map(|write| write.slot).max().unwrap_or(-1).max(-1) + 1
    }

    /// Returns true if a command has chosen destinations.
    pub(in crate::engine) fn is_redirected(&self) -> Result<bool, CodecError> {
        for write in self.caller_writes().filter(|write| &*write.channel == ROUTING) {
            let routing: RoutingRecord = codec::decode(&write.value)?;
            if !routing.go.is_empty() || !routing.sends.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The answer for the first task that asks. Returns `None` if a task has asked already.
    pub(in crate::engine) fn unaddressed_answer(&self) -> Result<Option<Value>, CodecError> {
        if self.has_asked()? {
            return Ok(None);
        }
        let found = self.caller_writes().find(|write| write.slot == slot::RESUME && &*write.channel == RESUME);
        found.map(|write| codec::decode_json(&write.value)).transpose()
    }

    /// Returns true if the superstep has, or had, an answer for the first task that asks.
    pub(in crate::engine) fn had_unaddressed_answer(&self) -> bool {
        self.caller_writes().any(|write| write.slot == slot::RESUME)
    }

    /// Returns true if a task has asked or been answered in this superstep.
    pub(in crate::engine) fn has_asked(&self) -> Result<bool, CodecError> {
        for record in self.records() {
            // A subgraph that stopped at a breakpoint has stored an empty list of questions, so the list must have an
            // entry.
            if record.writes.iter().any(|write| slot::answered(write.slot).is_some())
                || !questions_of(record)?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The open questions of a superstep in which some questions have been answered. Only the answered tasks run again.
    pub(in crate::engine) fn open_next_to_answered(&self) -> Result<Option<OpenQuestionIds>, CodecError> {
        let is_answered = |record: &TaskWrites| {
            record.writes.iter().any(|write| write.slot <= slot::answer(0) && &*write.channel == RESUME)
        };
        let mut any_answered = self.records().any(is_answered);
        let mut open = OpenQuestionIds::default();
        for record in self.records() {
            for question in questions_of(record)? {
                any_answered |= question.answered;
                if !question.answered {
                    open.insert(question.id);
                }
            }
        }
        Ok(any_answered.then_some(open))
    }
}
