//! [`Compact`] as a layer.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::iter::successors;
use std::ops::Range;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::answers::Answers;
use super::chunks::ChunkFilter;
use super::model_call::{ModelCall, ModelOutcome, ModelReply};
use super::writes::LayerWrites;
use super::{Layer, ListedLayer, NextModel};
use crate::compact::{
    Compact, Compaction, CompactionGoal, ContextUsage, NextStage, apply_stages, compacted, context_usage, fixed_size,
    read_earlier, transcript,
};
use crate::model::{ChatModel, ChatRequest, ModelError};
use crate::price::UnknownPrice;
use crate::prompts;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
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
        let Some(conversation) = SplitConversation::split(&call) else { return next.call(call).await };
        CompactedCall { compact: self, call, next, conversation, writes: Vec::new(), carried: Vec::new() }.ask().await
    }
}

struct SplitConversation {
    /// The stored messages, and the messages that are sent before them.
    messages: Messages,
    /// The messages at the end that are not stored yet. They are sent whole.
    more: Vec<Message>,
    record: Option<Compaction>,
    /// True if the turn is about the last user message.
    pins_last: bool,
}

impl SplitConversation {
    /// Splits the conversation of a call. Returns `None` if no message of the conversation is stored.
    fn split<S: Contains<BaseState>, C>(call: &ModelCall<'_, S, C>) -> Option<Self> {
        let (base, sent) = (call.state().part(), &call.request.messages);
        let is_stored = |message: &Message| message.id.as_deref().is_some_and(|id| base.messages.place(id).is_some());
        let last = sent.iter().rposition(is_stored)?;
        let (messages, more) = sent.split(last + 1);
        // A `ReactGraph` or `TodoGraph` ends each request with a new user message, which is not stored.
        let pins_last = !matches!(&*more, [asked] if matches!(asked.body, Body::User { .. }));
        Some(Self { messages, more, record: base.compaction.as_deref().cloned(), pins_last })
    }

    fn sent(&self, record: Option<&Compaction>) -> Messages {
        compacted(&self.messages, record).followed_by(self.more.clone())
    }
}

/// A summary, as it is recorded.
#[derive(Default, Serialize, Deserialize)]
struct Summary {
    text: String,
    by: String,
    usage: Usage,
    /// The answers of models for this summary. The outer layers count these answers.
    answers: Answers,
    #[serde(default)]
    id: Uuid,
}

/// A model call whose conversation may be compacted.
struct CompactedCall<'a, S: Values, C> {
    compact: &'a Compact<C>,
    call: ModelCall<'a, S, C>,
    next: NextModel<'a, S, C>,
    conversation: SplitConversation,
    /// The writes of other layers during the calls for summaries.
    writes: LayerWrites<S>,
    /// The writes of these layers to a state of another type.
    carried: Vec<Box<dyn Any + Send + Sync>>,
}

impl<S, C> CompactedCall<'_, S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    async fn ask(mut self) -> Result<ModelReply<S>, NodeError> {
        let ChatRequest { tools, deferred, .. } = &self.call.request;
        let sizes =
            |messages: &[Message]| fixed_size(messages, tools.iter().filter(|tool| !deferred.contains(&tool.name)));
        let (fixed, usage) = (
            sizes(&self.conversation.more),
            context_usage(&self.conversation.sent(self.conversation.record.as_ref()), sizes(&[])),
        );
        let goal = CompactionGoal { tokens: 0, fixed, usage, pins_last: self.conversation.pins_last };
        let context = self.compact.context_tokens.or_else(|| self.call.model.context_tokens());
        let marks = context.map(|context| self.compact.marks(context));
        let mut record = None;
        if let Some((full, left)) = marks.filter(|(full, _)| usage.tokens >= *full) {
            // The conversation gets at least half of the space that the other parts of the request leave.
            let fixed_tokens = usage.scaled(fixed);
            let tokens = left.max(fixed_tokens.saturating_add(full.saturating_sub(fixed_tokens) / 2));
            // If a summary failed, the conversation may still be short enough. The provider decides.
            (record, _) =
                self.compact_further(self.conversation.record.clone(), CompactionGoal { tokens, ..goal }).await?;
        }
        let sent = record.clone().or_else(|| self.conversation.record.clone());
        match self.send(sent.as_ref()).await {
            Err(error) if is_too_long(&error) => {
                let tokens = overflow(marks.map(|(_, left)| left), usage);
                let (record, failure) = self.compact_further(sent, CompactionGoal { tokens, ..goal }).await?;
                let reply = match &record {
                    Some(record) => self.send(Some(record)).await,
                    None => Err(error),
                };
                // The failure of the summary is the reason why the conversation is still too long.
                let reply = reply.map_err(|error| failure.filter(|_| is_too_long(&error)).unwrap_or(error))?;
                Ok(self.written(reply, record))
            }
            reply => {
                let reply = reply?;
                Ok(self.written(reply, record))
            }
        }
    }

    /// Adds the new compaction to the reply, and puts the writes of the calls for summaries in front of its writes.
    fn written(&mut self, mut reply: ModelReply<S>, record: Option<Compaction>) -> ModelReply<S> {
        reply.writes.splice(..0, self.writes.drain(..));
        reply.carried.splice(..0, self.carried.drain(..));
        let Some(record) = record else { return reply };
        let write = BaseState::channels().compaction.write::<S>(Some(Box::new(record)));
        reply.write(S::Update::from_writes(Writes::from_iter([write])))
    }

    async fn send(&self, record: Option<&Compaction>) -> Result<ModelReply<S>, NodeError> {
        let mut call = self.call.clone();
        call.request.messages = self.conversation.sent(record);
        let is_offered = call.request.tools.iter().any(|tool| tool.name == prompts::READ_EARLIER);
        if record.is_some() && !is_offered {
            call.request.tools = call.request.tools.iter().cloned().chain([read_earlier::spec()]).collect();
        }
        self.next.call(call).await
    }

    /// Compacts the conversation further. The result is `None` if that is not possible. If a summary fails, the result
    /// also contains the error, and the conversation is compacted as far as possible without a summary.
    async fn compact_further(
        &mut self,
        before: Option<Compaction>,
        goal: CompactionGoal,
    ) -> Result<(Option<Compaction>, Option<NodeError>), NodeError> {
        let goal =
            CompactionGoal { fixed: goal.fixed.saturating_add(fixed_size(&[], &[read_earlier::spec()])), ..goal };
        let stages = apply_stages(&self.conversation.messages, before.as_ref(), goal);
        let mut failure = None;
        let record = match stages.next.clone() {
            NextStage::Done => stages.record,
            NextStage::SumUp(range) => {
                let end = range.end;
                match self.summary(&stages.record.summary, goal, range).await {
                    Ok(Some(Summary { text, by, usage, .. })) => {
                        let mut record = stages.with_summary(&self.conversation.messages, goal, end, (text, by)).record;
                        record.usage += usage;
                        record
                    }
                    Ok(None) => stages.record,
                    Err(error) if error.is_signal() || cause::<UnknownPrice>(&error).is_some() => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "failed to summarize a conversation; sending it without a new summary");
                        failure = Some(error);
                        stages.record
                    }
                }
            }
        };
        Ok((Some(record).filter(|record| !record.sends_as(before.as_ref())), failure))
    }

    /// Summarizes these messages together with the previous summary. Returns `None` if the budget or a layer does not
    /// allow it.
    async fn summary(
        &mut self,
        previous: &str,
        goal: CompactionGoal,
        range: Range<usize>,
    ) -> Result<Option<Summary>, NodeError> {
        let (model, context) = match &self.compact.by {
            Some(choose) => (choose(self.call.context()), None),
            None => (self.call.model, self.compact.context_tokens),
        };
        let context = context.or_else(|| model.context_tokens());
        let most = goal.usage.unscaled(context.map_or(goal.tokens, |context| context / 2));
        let texts = transcript::transcripts(&self.conversation.messages, range, most.max(SHORTEST_PIECE));
        let mut summary = Summary { text: previous.to_owned(), ..Summary::default() };
        let run = self.call.run();
        for text in texts {
            if !self.allows_summary() {
                return Ok(None);
            }
            let asked = prompts::summary_request(&summary.text, &text);
            let work = self.summarize(model, &asked, goal.summary());
            let Some(next) = run.step_of::<_, Option<Summary>>(SUMMARY, &asked, work).await? else { return Ok(None) };
            self.call.answers.add_recorded(next.id, next.answers);
            let text = goal.limit_summary(next.text);
            summary = Summary { text, usage: summary.usage + next.usage, ..next };
        }
        Ok(Some(summary))
    }

    /// Returns true if the budget allows a summary in addition to the answer.
    fn allows_summary(&self) -> bool {
        let whole = self.call.context().as_ref().budget.as_ref();
        whole.is_none_or(|whole| self.call.state().part().subagent_stack.budget(whole).has_calls(2))
    }

    /// Asks for a summary through the inner layers. The summary is not streamed, because it is not part of the agent's
    /// answer.
    async fn summarize(
        &mut self,
        model: &dyn ChatModel,
        asked: &str,
        tokens: u64,
    ) -> Result<Option<Summary>, NodeError> {
        let instructions = Message::system(prompts::summary_instructions(tokens * 3 / 4));
        let request = ChatRequest::new([instructions, Message::user(asked)]);
        let Self { next, call, .. } = &*self;
        let answers = self.call.answers.inner();
        let call = ModelCall { request, model, output: None, answers: &answers, ..call.clone() };
        let made = next.call(call.filter_chunks(|| DropChunks)).await;
        let answers = answers.get();
        // The answers of a failed request are not recorded.
        let ModelReply { outcome, writes, carried } = made.inspect_err(|_| self.call.answers.add(answers))?;
        self.writes.extend(writes);
        self.carried.extend(carried);
        let ModelOutcome::Answer(answer) = outcome else { return Ok(None) };
        let text = answer.text();
        if text.trim().is_empty() {
            self.call.answers.add(answers);
            let reason = "it returned an empty summary".to_owned();
            let error = ModelError::BadAnswer { model: model.name().to_owned(), reason };
            return Err(NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), false));
        }
        let usage = answer.message.usage().unwrap_or_default();
        Ok(Some(Summary { text, by: model.name().to_owned(), usage, answers, id: Uuid::new_v4() }))
    }
}

struct DropChunks;

impl ChunkFilter for DropChunks {
    fn push(&mut self, _chunk: ChatChunk, _out: &mut dyn FnMut(ChatChunk)) {}
}

/// Returns the target size after the provider rejected a conversation as too long: half of the size that the provider
/// reported last. If the provider never reported a size, returns a quarter of the estimated size. The result is at most
/// `left`.
fn overflow(left: Option<u64>, used: ContextUsage) -> u64 {
    let sent = if used.reported.is_some() { used.tokens / 2 } else { used.tokens / 4 };
    [left, used.reported.map(|reported| reported / 2)].into_iter().flatten().fold(sent, u64::min)
}

fn is_too_long(error: &NodeError) -> bool {
    matches!(cause(error), Some(ModelError::TooLong { .. }))
}

fn cause<E: Error + 'static>(error: &NodeError) -> Option<&E> {
    let mut chain = successors(error.source(), |error: &&'_ (dyn Error + 'static)| (**error).source());
    chain.find_map(|error| error.downcast_ref())
}

/// Finds two layers of a list that would both compact the conversations of the same agents.
pub(crate) fn compaction_conflict<S: Values, C: 'static>(layers: &[ListedLayer<S, C>]) -> Option<String> {
    let compacting = |are_inherited: bool| {
        layers
            .iter()
            .filter(move |listed| listed.layer.compacts() && listed.layer.inherited().is_some() == are_inherited)
    };
    let (first, second) = [false, true].into_iter().find_map(|are_inherited| {
        let mut found = compacting(are_inherited).map(ListedLayer::name);
        found.next().zip(found.next())
    })?;
    Some(format!("the layers `{first}` and `{second}` both compact the conversation: keep one of them"))
}
