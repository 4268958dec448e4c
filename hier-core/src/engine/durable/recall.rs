//! Conversations that stay in memory between the runs of a thread, so that a run neither reads nor decodes them again.

use uuid::Uuid;

use crate::checkpoint::{Conversation, Saved, SaverError, Since};
use crate::config::Config;
use crate::engine::durable::journal::{Journal, schema};
use crate::engine::log::saver::Saver;
use crate::engine::program::Program;
use crate::engine::step::Position;
use crate::message::Messages;
use crate::state::Values;

#[derive(Default)]
pub(in crate::engine) struct RecalledConversations {
    pub(in crate::engine) conversations: Vec<Conversation>,
    /// None if the thread's conversations are not kept in memory.
    pub(in crate::engine) since: Option<Since>,
}

impl RecalledConversations {
    /// Takes the conversations for a run of this graph. Takes none for a run from a selected checkpoint, which may need
    /// other versions, and none for a run with a policy. A run with a policy may make an id twice, so that one version
    /// could have two values.
    pub(in crate::engine) fn take<S: Values, C>(
        graph: &Program<S, C>,
        saver: &Saver,
        thread: &str,
        config: &Config,
    ) -> Self {
        let is_eligible = config.checkpoint.is_none() && config.step_policy.is_none();
        let Some(cache) = saver.conversations().filter(|_| is_eligible) else { return Self::default() };
        let (since, mut conversations) = cache.take(thread);
        if !conversations.is_empty() {
            let initial = (graph.initial)();
            conversations.retain(|cached| {
                let channel = graph.channels.iter().position(|spec| spec.name == *cached.channel);
                channel.is_some_and(|channel| conversation(&initial, channel).is_some())
            });
        }
        Self { conversations, since: Some(since) }
    }

    /// Reads a checkpoint without the conversations that are in memory. Drops the conversations whose versions are not
    /// in the checkpoint. A checkpoint with another schema is read as a whole, because it may need a migration.
    pub(in crate::engine) async fn read<S: Values, C>(
        &mut self,
        graph: &Program<S, C>,
        saver: &Saver,
        thread: &str,
        id: Option<Uuid>,
    ) -> Result<Option<Saved>, SaverError> {
        if self.conversations.is_empty() {
            return saver.get(thread, "", id).await;
        }
        let known: Vec<_> = self.conversations.iter().map(|cached| (cached.channel.clone(), cached.version)).collect();
        let read = saver.get_changed(thread, "", id, &known).await?;
        let Some(found) = read.filter(|found| *found.checkpoint.schema == schema(graph)) else {
            self.conversations.clear();
            return saver.get(thread, "", id).await;
        };
        let checkpoint = &found.checkpoint;
        self.conversations.retain(|cached| {
            let channel = checkpoint.channels.iter().position(|name| *name == cached.channel);
            let is_current = |channel: usize| checkpoint.versions.get(channel) == Some(&cached.version);
            let was_read = |channel: usize| found.values.iter().any(|(read, _)| *read == channel);
            channel.is_some_and(|channel| is_current(channel) && !was_read(channel))
        });
        Ok(Some(found))
    }
}

/// Keeps the conversations of a run in memory, in the versions of its last checkpoint.
pub(in crate::engine) fn remember<S: Values>(journal: &Journal, position: &Position<S>, state: &S) {
    let committer = &journal.log.committer;
    let Some((since, cache)) = journal.conversations_since.zip(committer.saver.conversations()) else { return };
    let stored = journal.stored().enumerate();
    let conversations = stored.filter_map(|(channel, (name, version, size))| {
        // The value has no version yet: it has changed since the checkpoint, or it shows an unapplied superstep.
        if version.is_nil() || !position.is_stored(channel) {
            return None;
        }
        let messages = conversation(state, channel)?.clone();
        Some(Conversation { channel: name.clone(), version, parts: size.parts, bytes: size.bytes, messages })
    });
    cache.keep(&committer.lease.thread, since, conversations.collect());
}

fn conversation<S: Values>(state: &S, channel: usize) -> Option<&Messages> {
    state.get_any(channel)?.downcast_ref()
}
