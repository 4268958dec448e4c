//! How much a run may spend on models and tools.

use std::borrow::Cow;

use async_trait::async_trait;

use super::{CallSite, Layer, ModelCall, ModelReply, NextModel, NextTool, Reply, ToolReply, ToolUse, Verdict};
use crate::state::base::BaseState;
use crate::state::counts::LayerCounts;
use crate::state::turn::AgentLimit;
use hier_checkpoint::message::{Body, ToolCall};
use hier_core::NodeError;
use hier_core::state::{Contains, State, Update, Values, Writes};

/// How much a run may spend: `Limit { model_calls: 50, tool_calls: 100, tokens: 200_000 }`. What is not given is not limited.
///
/// It counts over the whole run, from an input to the end that it leads to, and the counts are stored with what was counted
/// ([`BaseState::layer_counts`]): an answer to a question, or a crash in between, goes on with them; a new input begins anew. In an agent
/// that is called several times in a run all its calls count together; how often it may ask in one call is its `max_iterations`.
///
/// An agent that is a node of a graph of one's own begins anew each time it is entered.
///
/// * At `model_calls` or `tokens` no model is asked any more, and the agent ends as at other limits, with
///   [`AgentEnd::Limit`](crate::AgentEnd::Limit): its supervisor goes on. What counts is an answer. What a question costs is known
///   only afterwards, so the last one may go beyond `tokens`.
/// * Beyond `tool_calls` calls are not made, and the model is told so: it can still answer. What counts is a call that was made;
///   subagents are none. The calls of one answer are taken in its order.
///
/// As [`Inherited`](super::Inherited) it counts all agents below together. Those that run side by side see each other's calls of models
/// as long as they run in one process; of tools, and after a restart, what the others had done when they began.
/// [`Budget`](crate::Budget) divides a bound among them. Listed outside of a [`Retry`](hier_core::graph::Retry) it counts a question
/// once.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    model_calls: Option<u64>,
    tool_calls: Option<u64>,
    tokens: Option<u64>,
}

impl Limit {
    /// No limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often models may answer.
    #[must_use]
    pub fn model_calls(mut self, most: u64) -> Self {
        self.model_calls = Some(most);
        self
    }

    /// How many calls of tools may be made.
    #[must_use]
    pub fn tool_calls(mut self, most: u64) -> Self {
        self.tool_calls = Some(most);
        self
    }

    /// How many tokens may be sent and answered, as far as the providers tell.
    #[must_use]
    pub fn tokens(mut self, most: u64) -> Self {
        self.tokens = Some(most);
        self
    }
}

const MODEL_CALLS: &str = "model_calls";
const TOOL_CALLS: &str = "tool_calls";
const TOKENS: &str = "tokens";

/// The count of one thing, of one layer.
struct Count<'a, S, C> {
    site: CallSite<'a, S, C>,
    key: String,
    stored: u64,
}

impl<'a, S: Values + Contains<BaseState>, C> Count<'a, S, C> {
    fn of(site: CallSite<'a, S, C>, what: &str) -> Self {
        let key = format!("{} {what}", site.key);
        let stored = site.state.part().layer_counts.get(&key);
        Self { site, key, stored }
    }

    fn get(&self) -> u64 {
        self.site.tally.map_or(self.stored, |tally| tally.get(&self.key, self.stored))
    }

    /// Takes one, if there is one left.
    fn take(&self, most: u64) -> bool {
        self.site.tally.map_or(self.stored < most, |tally| tally.take(&self.key, self.stored, most))
    }

    /// Counts for those who run beside this one.
    fn add(&self, more: u64) {
        if let Some(tally) = self.site.tally {
            tally.add(&self.key, self.stored, more);
        }
    }

    /// Counts for good.
    fn write(self, more: u64) -> S::Update {
        let write = BaseState::channels().layer_counts.write::<S>(LayerCounts::from([(self.key, more)]));
        S::Update::from_writes(Writes::from_iter([write]))
    }
}

#[async_trait]
impl<S, C> Layer<S, C> for Limit
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    fn name(&self) -> Cow<'static, str> {
        "Limit".into()
    }

    async fn model_call(
        &self,
        call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        let site = call.site();
        let (calls, tokens) = (Count::of(site, MODEL_CALLS), Count::of(site, TOKENS));
        if let Some(most) = self.tokens.filter(|most| tokens.get() >= *most) {
            return Ok(ModelReply::end(AgentLimit::Tokens(most)));
        }
        if let Some(most) = self.model_calls.filter(|most| !calls.take(*most)) {
            return Ok(ModelReply::end(AgentLimit::ModelCalls(most)));
        }
        let mut reply = next.call(call).await?;
        let Reply::Answer(response) = &reply.reply else { return Ok(reply) };
        let used = match &response.message.body {
            Body::Assistant { usage: Some(usage), .. } => usage.total(),
            _ => 0,
        };
        if self.model_calls.is_some() {
            reply = reply.write(calls.write(1));
        }
        if self.tokens.is_some() && used > 0 {
            tokens.add(used);
            reply = reply.write(tokens.write(used));
        }
        Ok(reply)
    }

    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError> {
        let Some(most) = self.tool_calls else { return Ok(Verdict::Allow) };
        let count = Count::of(site, TOOL_CALLS);
        let used =
            if site.is_stored { count.stored.saturating_add(earlier(site.state.part(), call)) } else { count.get() };
        if used < most {
            return Ok(Verdict::Allow);
        }
        Ok(Verdict::Deny(format!(
            "not called: the limit of {most} calls of tools is reached. Answer with what you have"
        )))
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let site = call.site();
        let reply = next.call(call).await?;
        if self.tool_calls.is_none() {
            return Ok(reply);
        }
        let count = Count::of(site, TOOL_CALLS);
        count.add(1);
        Ok(reply.write(count.write(1)))
    }
}

/// Counts the tool calls that precede this one in the same answer. Refused calls are excluded because they already have results. Calls of
/// subagents are excluded because they count as progress.
fn earlier(base: &BaseState, call: &ToolCall) -> u64 {
    let open = base.messages.open_calls();
    let place = open.iter().position(|other| other.id == call.id).unwrap_or_default();
    let is_tool = |other: &&&ToolCall| base.progress.get(&other.name).scheduled == 0;
    u64::try_from(open[..place].iter().filter(is_tool).count()).unwrap_or(u64::MAX)
}
