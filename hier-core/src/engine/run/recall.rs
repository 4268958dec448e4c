//! Conversations that are in memory since the last run of a thread: they are neither read nor decoded again.

use uuid::Uuid;

use crate::checkpoint::{Conversation, Saved, SaverError, Since};
use crate::config::Config;
use crate::engine::durable::journal::schema;
use crate::engine::log::committer::Committer;
use crate::engine::log::saver::Saver;
use crate::engine::program::Program;
use crate::engine::run::runner::Runner;
use crate::message::Messages;
use crate::state::Values;

/// What is in memory of a thread.
#[derive(Default)]
pub(super) struct Recalled {
    pub(super) conversations: Vec<Conversation>,
    /// None if nothing of the thread is to be kept.
    pub(super) since: Option<Since>,
}

impl Recalled {
    /// What is in memory for a run of this graph. A run that goes on from an earlier checkpoint needs other versions; one that is done in
    /// turns may make an id twice, so that the same version could be another value.
    pub(super) fn of<S: Values, C>(graph: &Program<S, C>, saver: &Saver, thread: &str, config: &Config) -> Self {
        let Some(kept) = saver.conversations().filter(|_| config.checkpoint.is_none() && config.step_policy.is_none())
        else {
            return Self::default();
        };
        let (since, mut conversations) = kept.take(thread);
        if !conversations.is_empty() {
            let initial = (graph.initial)();
            conversations.retain(|kept| {
                let channel = graph.channels.iter().position(|spec| spec.name == *kept.channel);
                channel.is_some_and(|channel| conversation(&initial, channel).is_some())
            });
        }
        Self { conversations, since: Some(since) }
    }

    /// Reads a checkpoint, and leaves of what is in memory the conversations that it has and that were not read. What another program has
    /// stored is read as a whole: it may have to be migrated.
    pub(super) async fn read<S: Values, C>(
        &mut self,
        graph: &Program<S, C>,
        saver: &Saver,
        thread: &str,
        id: Option<Uuid>,
    ) -> Result<Option<Saved>, SaverError> {
        if self.conversations.is_empty() {
            return saver.get(thread, "", id).await;
        }
        let known: Vec<_> = self.conversations.iter().map(|kept| (kept.channel.clone(), kept.version)).collect();
        let read = saver.get_changed(thread, "", id, &known).await?;
        let Some(found) = read.filter(|found| *found.checkpoint.schema == schema(graph)) else {
            self.conversations.clear();
            return saver.get(thread, "", id).await;
        };
        let checkpoint = &found.checkpoint;
        self.conversations.retain(|kept| {
            let place = checkpoint.channels.iter().position(|name| *name == kept.channel);
            let has_it = |place: usize| checkpoint.versions.get(place) == Some(&kept.version);
            let was_read = |place: usize| found.values.iter().any(|(channel, _)| *channel == place);
            place.is_some_and(|place| has_it(place) && !was_read(place))
        });
        Ok(Some(found))
    }
}

/// Keeps the conversations of a run that ended well, as its last checkpoint has them.
pub(super) fn keep<S, C>(runner: &Runner<S, C>, committer: &Committer)
where
    S: Values,
    C: Send + Sync + 'static,
{
    let ledger = &runner.position.ledger;
    let (Some(journal), Some(changes)) = (&runner.journal, &ledger.changes) else { return };
    let (Some(since), Some(kept)) = (journal.recalled, committer.saver.conversations()) else { return };
    let stored = journal.stored().enumerate();
    let conversations = stored.filter_map(|(channel, (name, version, size))| {
        // What has been written since is part of no version yet, nor is the result of a task whose step waits for an answer.
        if version.is_nil() || changes.changed.contains(&channel) || ledger.previewed.contains(&channel) {
            return None;
        }
        let messages = conversation(&*runner.task.state, channel)?.clone();
        Some(Conversation { channel: name.clone(), version, parts: size.parts, bytes: size.bytes, messages })
    });
    kept.keep(&committer.lease.thread, since, conversations.collect());
}

/// The conversation that a channel holds.
fn conversation<S: Values>(state: &S, channel: usize) -> Option<&Messages> {
    state.get_any(channel)?.downcast_ref()
}
