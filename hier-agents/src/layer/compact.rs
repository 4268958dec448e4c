//! [`Compact`] as a layer.

use std::borrow::Cow;
use std::error::Error;
use std::iter::successors;
use std::ops::Range;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::call::Signed;
use super::{Layer, ModelCall, ModelReply, NextModel, Pieces, Reply};
use crate::compact::{
    Climb, Compact, Compaction, Goal, Step, Used, climb, compacted, fixed_size, reading, transcript, used,
};
use crate::model::{ChatModel, ChatRequest, ModelError};
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use crate::words;
use hier_checkpoint::message::{Body, ChatChunk, Message, Messages, Usage};
use hier_core::state::{Contains, State, Update, Values, Writes};
use hier_core::{NodeError, NodeErrorKind};

/// The name of the durable step that records a summary. A recorded summary is not paid for again after a crash.
const SUMMARY: &str = "__compact__";
/// Minimum number of tokens that are summarized at once.
const SHORTEST_PIECE: u64 = 500;

#[async_trait]
impl<S, C> Layer<S, C> for Compact<C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    fn name(&self) -> Cow<'static, str> {
        "Compact".into()
    }

    fn mistake(&self) -> Option<String> {
        Self::mistake(self)
    }

    fn compacts(&self) -> bool {
        true
    }

    async fn model_call(
        &self,
        call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        if let Some(mistake) = Self::mistake(self) {
            return Err(NodeError::permanent(mistake));
        }
        // A compaction needs a state that stores it, and only one layer may make it.
        if !call.site.is_stored || next.compacts() {
            return next.call(call).await;
        }
        let Some(talk) = Talk::of(&call) else { return next.call(call).await };
        Asking { compact: self, call, next, talk, writes: Vec::new() }.ask().await
    }
}

struct Talk {
    /// The stored messages, and those sent before them.
    messages: Messages,
    /// The messages at the end that are not stored yet. They are sent whole.
    more: Vec<Message>,
    /// The current compaction.
    record: Option<Compaction>,
    /// True if the turn is about the last user message.
    pins_last: bool,
}

impl Talk {
    /// Splits the conversation of a call. Returns none if no message of it is stored.
    fn of<S: Contains<BaseState>, C>(call: &ModelCall<'_, S, C>) -> Option<Self> {
        let (base, sent) = (call.state().part(), &call.request.messages);
        let is_stored = |message: &Message| message.id.as_deref().is_some_and(|id| base.messages.place(id).is_some());
        let last = sent.iter().rposition(is_stored)?;
        let (messages, more) = sent.split(last + 1);
        // The kinds that report ask with a new user message each time.
        let pins_last = !matches!(&*more, [asked] if matches!(asked.body, Body::User { .. }));
        Some(Self { messages, more, record: base.compaction.as_deref().cloned(), pins_last })
    }

    fn sent(&self, record: Option<&Compaction>) -> Messages {
        compacted(&self.messages, record).followed_by(self.more.clone())
    }
}

/// A summary, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Summary {
    text: String,
    by: String,
    usage: Usage,
}

/// A model call whose conversation may be compacted.
struct Asking<'a, S: Values, C> {
    compact: &'a Compact<C>,
    call: ModelCall<'a, S, C>,
    next: NextModel<'a, S, C>,
    talk: Talk,
    /// The writes of other layers during the calls for summaries.
    writes: Signed<S>,
}

impl<S, C> Asking<'_, S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    async fn ask(mut self) -> Result<ModelReply<S>, NodeError> {
        let tools = &self.call.request.tools;
        let (fixed, used) = (
            fixed_size(&self.talk.more, tools),
            used(&self.talk.sent(self.talk.record.as_ref()), fixed_size(&[], tools)),
        );
        let goal = Goal { tokens: 0, fixed, used, pins_last: self.talk.pins_last };
        let context = self.compact.context_tokens.or_else(|| self.call.model.context_tokens());
        let marks = context.map(|context| self.compact.marks(context));
        let mut record = None;
        if let Some((full, left)) = marks.filter(|(full, _)| used.tokens >= *full) {
            // Half of the rest is left to the conversation, whatever else is sent.
            let beside = used.scaled(fixed);
            let tokens = left.max(beside.saturating_add(full.saturating_sub(beside) / 2));
            record = match self.shorter(self.talk.record.clone(), Goal { tokens, ..goal }).await {
                Err(error) if !error.is_signal() => {
                    // It may still be short enough; the provider decides.
                    tracing::warn!(%error, "failed to summarize a conversation, which is sent as it is");
                    None
                }
                record => record?,
            };
        }
        let sent = record.clone().or_else(|| self.talk.record.clone());
        match self.send(sent.as_ref()).await {
            Err(error) if is_too_long(&error) => {
                let tokens = overflow(marks.map(|(_, left)| left), used);
                let Some(record) = self.shorter(sent, Goal { tokens, ..goal }).await? else { return Err(error) };
                let reply = self.send(Some(&record)).await?;
                Ok(self.written(reply, Some(record)))
            }
            reply => {
                let reply = reply?;
                Ok(self.written(reply, record))
            }
        }
    }

    /// Adds the new compaction and the writes of the calls for summaries to the reply.
    fn written(&mut self, mut reply: ModelReply<S>, record: Option<Compaction>) -> ModelReply<S> {
        reply.writes.append(&mut self.writes);
        let Some(record) = record else { return reply };
        let write = BaseState::channels().compaction.write::<S>(Some(Box::new(record)));
        reply.write(S::Update::from_writes(Writes::from_iter([write])))
    }

    async fn send(&self, record: Option<&Compaction>) -> Result<ModelReply<S>, NodeError> {
        let mut call = self.call.clone();
        call.request.messages = self.talk.sent(record);
        let is_offered = call.request.tools.iter().any(|tool| tool.name == words::READ_EARLIER);
        if record.is_some() && !is_offered {
            call.request.tools = call.request.tools.iter().cloned().chain([reading::spec()]).collect();
        }
        self.next.call(call).await
    }

    /// Compacts the conversation further. Returns none if that is not possible.
    async fn shorter(&mut self, before: Option<Compaction>, goal: Goal) -> Result<Option<Compaction>, NodeError> {
        let goal = Goal { fixed: goal.fixed.saturating_add(fixed_size(&[], &[reading::spec()])), ..goal };
        let climb = climb(&self.talk.messages, before.as_ref(), goal);
        let record = match climb.next.clone() {
            Step::Done => climb.record,
            Step::SumUp(range) => {
                let end = range.end;
                match self.summary(&climb, goal, range).await? {
                    Some(Summary { text, by, usage }) => {
                        let mut record = climb.summed_up(&self.talk.messages, goal, end, (text, by)).record;
                        record.usage += usage;
                        record
                    }
                    None => climb.record,
                }
            }
        };
        Ok(Some(record).filter(|record| !record.sends_as(before.as_ref())))
    }

    /// Summarizes these messages together with the previous summary. Returns none if the budget or a layer does not
    /// allow it.
    async fn summary(&mut self, climb: &Climb, goal: Goal, range: Range<usize>) -> Result<Option<Summary>, NodeError> {
        let (model, context) = match &self.compact.by {
            Some(choose) => (choose(self.call.context()), None),
            None => (self.call.model, self.compact.context_tokens),
        };
        let context = context.or_else(|| model.context_tokens());
        let most = goal.used.unscaled(context.map_or(goal.tokens, |context| context / 2));
        let texts = transcript::transcripts(&self.talk.messages, range, most.max(SHORTEST_PIECE));
        let mut summary = Summary { text: climb.record.summary.clone(), by: String::new(), usage: Usage::default() };
        let run = self.call.run();
        for text in texts {
            if !self.may_ask_twice() {
                return Ok(None);
            }
            let asked = words::to_sum_up(&summary.text, &text);
            let work = self.sum_up(model, &asked, goal.summary());
            let Some(next) = run.step_of::<_, Option<Summary>>(SUMMARY, &asked, work).await? else { return Ok(None) };
            summary = Summary { usage: summary.usage + next.usage, ..next };
        }
        Ok(Some(summary))
    }

    /// Returns true if the budget allows a summary in addition to the answer.
    fn may_ask_twice(&self) -> bool {
        let whole = self.call.context().as_ref().budget.as_ref();
        whole.is_none_or(|whole| self.call.state().part().subagent_stack.budget(whole).has_calls(2))
    }

    /// Asks for a summary through the inner layers. It is not streamed, because it is not part of the agent's answer.
    async fn sum_up(&mut self, model: &dyn ChatModel, asked: &str, tokens: u64) -> Result<Option<Summary>, NodeError> {
        let instructions = Message::system(words::summarise(tokens * 3 / 4));
        let request = ChatRequest::new([instructions, Message::user(asked)]);
        let pieces = self.call.pieces.clone();
        let Self { next, call, .. } = &*self;
        let call = ModelCall { request, site: call.site, model, offer: None, voice: call.voice, pieces };
        let reply = next.call(call.through(|| Unheard)).await?;
        let (reply, writes) = reply.into_parts();
        self.writes.extend(writes);
        let Reply::Answer(answer) = reply else { return Ok(None) };
        let text = answer.text();
        if text.trim().is_empty() {
            let reason = "it returned an empty summary".to_owned();
            let error = ModelError::BadAnswer { model: model.name().to_owned(), reason };
            return Err(NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), false));
        }
        let usage = answer.message.usage().unwrap_or_default();
        Ok(Some(Summary { text, by: model.name().to_owned(), usage }))
    }
}

/// Drops all chunks.
struct Unheard;

impl Pieces for Unheard {
    fn piece(&mut self, _piece: ChatChunk, _out: &mut dyn FnMut(ChatChunk)) {}
}

/// Returns the target size after the provider rejected a conversation as too long: half of the last accepted or sent
/// size. If the provider never reported a size, a quarter.
fn overflow(left: Option<u64>, used: Used) -> u64 {
    let sent = if used.reported.is_some() { used.tokens / 2 } else { used.tokens / 4 };
    [left, used.reported.map(|reported| reported / 2)].into_iter().flatten().fold(sent, u64::min)
}

/// Returns true if the provider rejected a conversation as too long.
fn is_too_long(error: &NodeError) -> bool {
    let mut chain = successors(error.source(), |error: &&'_ (dyn Error + 'static)| (**error).source());
    chain.any(|error| matches!(error.downcast_ref(), Some(ModelError::TooLong { .. })))
}
