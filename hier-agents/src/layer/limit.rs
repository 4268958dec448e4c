use std::borrow::Cow;

use async_trait::async_trait;

use super::answers::{AnswerCounter, Answers};
use super::counters::CallCounters;
use super::model_call::{CallSite, ModelCall, ModelOutcome, ModelReply};
use super::tool_call::{ToolReply, ToolUse};
use super::{Layer, NextModel, NextTool, Verdict};
use crate::state::base::BaseState;
use crate::state::counts::LayerCounts;
use crate::state::turn::AgentLimit;
use hier_checkpoint::message::{ToolCall, Usd};
use hier_core::NodeError;
use hier_core::state::{Contains, State, Update, Values, Writes};

/// A layer that limits an agent's use of models and tools in a run: `Limit { model_calls: 50, tool_calls: 100, cost:
/// 2.00 }`. If an option is not set, the layer does not limit the option's resource.
///
/// | option | behaviour at the limit |
/// |---|---|
/// | `model_calls`, `tokens`, `cost` | The agent ends with [`AgentEnd::Limit`](crate::AgentEnd::Limit). If it is a subagent, its supervisor continues. |
/// | `tool_calls` | The agent rejects further tool calls. Its model receives the reason and can still reply. |
///
/// * **Scope.** The counts start at 0 with each new input, and continue after interrupts and crashes. If a supervisor
///   calls the agent several times in a run, the counts continue from call to call. In contrast, `max_iterations`
///   limits each call separately. If the agent is a node of a custom graph, its counts start at 0 each time the node
///   runs.
/// * **Counted calls.** All replies of models count, including summaries for [`Compact`](crate::Compact). Rejected and
///   failed tool calls, and calls of built-in tools and of subagents do not count. Failed requests do not count either,
///   so a request that a [`Retry`](hier_core::graph::Retry) repeats counts once. Summaries for a failed request count if
///   `Limit` precedes [`Compact`](crate::Compact) in the list.
/// * **Parallel tool calls.** The layer decides about the calls of one reply before their results are known. It adds all
///   calls that precede a call in the reply, except subagent calls, and can therefore reject a call too early.
/// * **Precision.** The usage of a request is known only after the reply. The last request can therefore exceed
///   `tokens` and `cost`, and summaries for the last request can exceed `model_calls`.
/// * **Prices.** With `cost`, each model needs a price, unless it [reports its costs](crate::ChatModel::reports_cost).
///   Otherwise the request fails with [`UnknownPrice`](crate::UnknownPrice) before it is sent.
///
/// As an [`Inherited`](super::Inherited) layer, one `Limit` counts the use of the agent and all of its subagents
/// together. If subagents run in parallel in one process, the layer adds up their model calls, tokens and cost while
/// they run. It adds the tool calls of a subagent only when the subagent ends. If the process restarts, the layer also
/// adds the earlier counts of a running subagent only when the subagent ends. It adds all counts of a detached subagent
/// only when the subagent ends. To divide a limit among agents, use [`Budget`](crate::Budget).
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Limit {
    model_calls: Option<u64>,
    tool_calls: Option<u64>,
    tokens: Option<u64>,
    /// The amount in US dollars, as the program has written it. [`Layer::mistake`] reports a number that is not an
    /// amount.
    cost: Option<f64>,
}

impl Limit {
    /// Creates a layer without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the number of model calls. Only calls that return a reply count. At the limit, the agent ends.
    pub fn model_calls(mut self, most: u64) -> Self {
        self.model_calls = Some(most);
        self
    }

    /// Limits the number of tool calls. At the limit, the agent rejects further tool calls.
    pub fn tool_calls(mut self, most: u64) -> Self {
        self.tool_calls = Some(most);
        self
    }

    /// Limits the sum of the input and output tokens that the providers report. At the limit, the agent ends.
    pub fn tokens(mut self, most: u64) -> Self {
        self.tokens = Some(most);
        self
    }

    /// Limits the cost in US dollars. At the limit, the agent ends. Set the prices of the models with
    /// [`BaseContext::prices`](crate::BaseContext::prices). An [`AgentBuilder`](crate::AgentBuilder) rejects a
    /// negative or infinite cost, and NaN.
    pub fn cost(mut self, usd: f64) -> Self {
        self.cost = Some(usd);
        self
    }
}

const MODEL_CALLS: &str = "model_calls";
const TOOL_CALLS: &str = "tool_calls";
const TOKENS: &str = "tokens";
/// Counted in picodollars.
const COST: &str = "cost";

/// The count of one resource in one layer.
struct LayerCount<'a, S, C> {
    site: CallSite<'a, S, C>,
    key: String,
    stored: u64,
}

impl<'a, S: Values + Contains<BaseState>, C> LayerCount<'a, S, C> {
    fn new(site: CallSite<'a, S, C>, what: &str) -> Self {
        let key = format!("{} {what}", site.key);
        let stored = site.state.part().layer_counts.get(&key);
        Self { site, key, stored }
    }

    fn get(&self) -> u64 {
        self.site.counters.map_or(self.stored, |counters| counters.get(&self.key, self.stored))
    }

    /// Reserves one unit if the count is below `most`. The count of this process, if it has one, includes the unit until
    /// the result is settled or dropped.
    fn reserve(&self, most: u64) -> Option<ReservedUnit<'a>> {
        let counters = self.site.counters;
        let is_left =
            counters.map_or(self.stored < most, |counters| counters.increment_below(&self.key, self.stored, most));
        is_left.then(|| ReservedUnit { counters, key: self.key.clone(), used: 0 })
    }

    /// Adds to the counters of this process, which parallel agents share.
    fn add(&self, more: u64) {
        if let Some(counters) = self.site.counters {
            counters.add(&self.key, self.stored, more);
        }
    }

    fn write(self, more: u64) -> S::Update {
        let write = BaseState::channels().layer_counts.write::<S>(LayerCounts::from([(self.key, more)]));
        S::Update::from_writes(Writes::from_iter([write]))
    }
}

/// A unit that a call in progress may use.
struct ReservedUnit<'a> {
    counters: Option<&'a CallCounters>,
    key: String,
    used: u64,
}

impl ReservedUnit<'_> {
    /// Counts the units that the call has used in place of the reserved unit.
    fn settle(mut self, used: u64) {
        self.used = used;
    }
}

impl Drop for ReservedUnit<'_> {
    fn drop(&mut self) {
        if let Some(counters) = self.counters {
            counters.settle(&self.key, self.used);
        }
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

    fn mistake(&self) -> Option<String> {
        let wrong = self.cost.filter(|cost| !(0.0..=Usd::MAX.dollars()).contains(cost))?;
        Some(format!("`Limit` has `cost: {wrong}`: give it US dollars, such as 2.00"))
    }

    async fn model_call(
        &self,
        call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        let site = call.site();
        let [calls, tokens, cost] = [MODEL_CALLS, TOKENS, COST].map(|what| LayerCount::new(site, what));
        if let Some(most) = self.tokens.filter(|most| tokens.get() >= *most) {
            return Ok(ModelReply::end(AgentLimit::Tokens(most)));
        }
        let most_cost = self.cost.map(Usd::from_dollars);
        if let Some(most) = most_cost.filter(|most| cost.get() >= most.picodollars()) {
            return Ok(ModelReply::end(AgentLimit::Cost(most)));
        }
        let reserved = match self.model_calls.map(|most| calls.reserve(most).ok_or(most)).transpose() {
            Ok(reserved) => reserved,
            Err(most) => return Ok(ModelReply::end(AgentLimit::ModelCalls(most))),
        };
        let (outer, inner) = (call.answers, call.answers.inner());
        let needs_cost = call.needs_cost || self.cost.is_some();
        let made = next.call(ModelCall { needs_cost, answers: &inner, ..call }).await;
        outer.add_all(&inner);
        let mut reply = made.inspect_err(|_| inner.keep_unstored(site.key))?;
        count_layers_answer(&reply, &inner);
        inner.add_unstored(site.key);
        let answers = inner.get();
        if let Some(reserved) = reserved {
            reserved.settle(answers.count);
        }
        tokens.add(answers.tokens);
        cost.add(answers.cost.picodollars());
        let used = [
            (calls, self.model_calls.map(|_| answers.count)),
            (tokens, self.tokens.map(|_| answers.tokens)),
            (cost, self.cost.map(|_| answers.cost.picodollars())),
        ];
        for (count, used) in used {
            if let Some(used) = used.filter(|used| *used > 0) {
                reply = reply.write(count.write(used));
            }
        }
        Ok(reply)
    }

    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError> {
        let Some(most) = self.tool_calls else { return Ok(Verdict::Allow) };
        let count = LayerCount::new(site, TOOL_CALLS);
        let used =
            if site.is_stored { count.stored.saturating_add(earlier(site.state.part(), call)) } else { count.get() };
        if used < most {
            return Ok(Verdict::Allow);
        }
        Ok(Verdict::Deny(limit_reached(most)))
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let Some(most) = self.tool_calls else { return next.call(call).await };
        let count = LayerCount::new(call.site(), TOOL_CALLS);
        if count.site.is_stored {
            let reply = next.call(call).await?;
            count.add(1);
            return Ok(reply.write(count.write(1)));
        }
        // The check of a parallel call can precede this call, so only a reserved unit holds the limit.
        let Some(reserved) = count.reserve(most) else { return Ok(ToolReply::invalid(limit_reached(most))) };
        let reply = next.call(call).await?;
        reserved.settle(1);
        Ok(reply)
    }
}

fn limit_reached(most: u64) -> String {
    format!("not called: the limit of {most} tool calls is reached. Answer with what you have")
}

/// Counts an answer that a layer gave in place of the model.
fn count_layers_answer<S: Values>(reply: &ModelReply<S>, counted: &AnswerCounter) {
    if let ModelOutcome::Answer(response) = &reply.outcome
        && counted.get().count == 0
    {
        counted.add(Answers::one(response.message.usage().unwrap_or_default()));
    }
}

/// Counts the tool calls that precede this one in the same answer. Refused calls are excluded because they already have
/// results. Calls of subagents are excluded because they count as progress.
fn earlier(base: &BaseState, call: &ToolCall) -> u64 {
    let open = base.messages.open_calls();
    let place = open.iter().position(|other| other.id == call.id).unwrap_or_default();
    let is_tool = |other: &&&ToolCall| base.progress.get(&other.name).scheduled == 0;
    u64::try_from(open[..place].iter().filter(is_tool).count()).unwrap_or(u64::MAX)
}
