//! A graph as the subagent or stage of an agent: the state that it starts with, and the writes that it returns.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use futures_core::future::BoxFuture;
use hier_spec::trust::GraphTrust;
use serde_json::{Map, Value};
use tracing::Instrument;

use crate::hierarchy::policy::SubagentPolicy;
use crate::prompts;
use crate::react::{ArgsSpec, call_of};
use crate::redaction::RedactorOf;
use crate::state::background::BackgroundSubagents;
use crate::state::base::BaseState;
use crate::state::counts::LayerCounts;
use crate::state::frame::{FrameCall, SubagentStack};
use crate::state::labels::ConversationLabels;
use crate::state::progress::{CallCounts, Progress};
use crate::state::turn::{AgentEnd, AgentTurn};
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::NodeError;
use hier_core::channel::ChannelSpec;
use hier_core::graph::{NodeResult, Task};
use hier_core::internals::{Attached, ErasedGraph, Subgraph};
use hier_core::state::{ChannelWrite, Contains, State, Values, Write, Writes};

#[derive(Clone, Debug)]
pub(crate) enum ChildRole {
    /// The model calls the graph.
    Tool(Supervisor),
    /// The graph runs before the first model request or after the report.
    Stage,
}

/// The subagents of the calling agent, and its way to count iterations.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    pub(crate) subagents: Arc<[Arc<str>]>,
    /// True if the supervisor keeps its iteration count when a subagent shares its state. The kinds that report start
    /// again at 0, as in LangGraph.
    pub(crate) keeps_count: bool,
}

/// The border between a graph and the agent that calls it.
pub(crate) struct ChildBorder {
    /// `None` if the two graphs share one state.
    pub(crate) policy: Option<SubagentPolicy>,
    pub(crate) trust: GraphTrust,
    /// True if the supervisor receives no text except the report.
    pub(crate) only_report: bool,
}

impl ChildBorder {
    pub(super) fn is_background(&self) -> bool {
        self.policy.as_ref().is_some_and(SubagentPolicy::is_background)
    }

    /// Returns true if the graph continues when its supervisor's turn ends.
    pub(super) fn is_detached(&self) -> bool {
        self.policy.as_ref().is_some_and(SubagentPolicy::is_detached)
    }

    /// Returns true if the trust of the supervisor relies on a report that cannot carry the untrusted text.
    pub(super) fn seals_text(&self) -> bool {
        self.only_report && self.trust.is_text_free && self.trust.read.is_untrusted()
    }
}

/// A graph attached to an agent over another state.
pub(crate) struct SubagentNode<T: Values, C, D> {
    pub(crate) attached: Attached<T, C, D>,
    pub(crate) redactor: RedactorOf<C>,
    pub(crate) name: Arc<str>,
    pub(crate) role: ChildRole,
    pub(crate) border: ChildBorder,
    pub(crate) args: ArgsSpec,
    pub(crate) layout: OnceLock<ChildChannels<T>>,
}

/// The indices of the inner channels that entry and exit read or write.
pub(crate) struct ChildChannels<T> {
    initial: T,
    /// The channels that the policy clears.
    cleared: Vec<usize>,
    /// For each channel, whether its writes are returned to the supervisor.
    returned: Arc<[bool]>,
    report: Option<usize>,
    turn: Option<usize>,
    args: Option<usize>,
    call: Option<usize>,
    stack: Option<usize>,
    iteration: Option<usize>,
    max_iterations: Option<usize>,
    labels: Option<usize>,
    counts: Option<usize>,
    background: Option<usize>,
}

impl<T: Values> ChildChannels<T> {
    fn new(initial: T, channels: &[ChannelSpec], policy: Option<&SubagentPolicy>, keeps_count: bool) -> Self {
        let find = |name: &str| place_of(channels, name);
        let channel = BaseState::channels();
        Self {
            cleared: cleared_channels(channels, policy),
            returned: returned_channels(channels, policy, keeps_count),
            report: find(channel.current_agent_report.name()),
            turn: find(channel.agent_turn.name()),
            args: find(channel.current_agent_args.name()),
            call: find(channel.current_tool_call.name()),
            stack: find(hier_spec::agent::STACK),
            iteration: find(channel.iteration_number.name()),
            max_iterations: find(channel.max_iterations.name()),
            labels: find(channel.trust_labels.name()),
            counts: find(channel.layer_counts.name()),
            background: find(channel.background_subagents.name()),
            initial,
        }
    }
}

fn place_of(channels: &[ChannelSpec], name: &str) -> Option<usize> {
    channels.iter().position(|channel| channel.name == name)
}

/// Returns the channels that the policy clears.
fn cleared_channels(channels: &[ChannelSpec], policy: Option<&SubagentPolicy>) -> Vec<usize> {
    let channel = BaseState::channels();
    let mut cleared = Vec::new();
    if let Some(policy) = policy {
        cleared.push(channel.todo_lists.name());
        let talk = [channel.messages.name(), channel.compaction.name(), channel.found_tools.name()];
        cleared.extend(talk.into_iter().filter(|_| policy.clears_messages()));
        cleared.extend(policy.resets_iteration().then(|| channel.iteration_number.name()));
        cleared.extend((!policy.preserves_chat_with_operator()).then(|| channel.chat_with_operator.name()));
    }
    cleared.into_iter().filter_map(|name| place_of(channels, name)).collect()
}

/// Returns true for each channel whose writes are returned to the supervisor.
fn returned_channels(channels: &[ChannelSpec], policy: Option<&SubagentPolicy>, keeps_count: bool) -> Arc<[bool]> {
    let channel = BaseState::channels();
    let always = [
        channel.progress.name(),
        channel.current_agent_report.name(),
        channel.is_cancelled.name(),
        channel.layer_counts.name(),
    ];
    // A subagent that shares the state still has its own turn.
    let counts = [channel.iteration_number.name(), channel.max_iterations.name()];
    let has_counts = policy.is_none() && keeps_count;
    let is_own = |spec: &ChannelSpec| {
        [channel.agent_turn.name(), channel.background_subagents.name()].contains(&&*spec.name)
            || (has_counts && counts.iter().any(|name| spec.name == *name))
    };
    let returned = channels.iter().map(|spec| {
        !is_own(spec)
            && policy.is_none_or(|policy| {
                let mut merged = policy.merged().chain(always);
                merged.any(|name| spec.name == name) && !policy.discarded().any(|name| spec.name == name)
            })
    });
    returned.collect()
}

impl<S, C, T, D> Subgraph<S, C> for SubagentNode<T, C, D>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> {
        let span = tracing::info_span!(
            "invoke_agent",
            otel.name = format_args!("invoke_agent {}", self.name),
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = %self.name,
            gen_ai.conversation.id = task.run().config().thread_id(),
        );
        let run = async move {
            let call = match &self.role {
                ChildRole::Tool(_) => Some(self.args.coerced(call_of(task)?)),
                ChildRole::Stage => None,
            };
            let state = self.enter(task, &call);
            let (mut has_answered, mut refused) = (false, None);
            let leave = |end: &T, returned| {
                has_answered = true;
                let redacted = self.redacted(task, self.leave(task, call.as_ref(), end, returned));
                redacted.map_err(|error| refused = Some(error)).unwrap_or_default()
            };
            let output = self.attached.call(task, state, &self.layout().returned, leave).await?;
            if let Some(error) = refused {
                return Err(error);
            }
            // The graph has ended with a command for the supervisor. The update of this command may contain any text.
            if !has_answered && self.border.seals_text() {
                return Err(self.command_refused());
            }
            Ok(output)
        };
        Box::pin(run.instrument(span))
    }

    fn asks_model(&self) -> bool {
        self.attached.graph.asks_model()
    }

    fn erased(&self) -> &dyn ErasedGraph {
        &*self.attached.graph
    }

    fn policy(&self) -> Vec<(&'static str, String)> {
        self.border.policy.as_ref().map_or_else(Vec::new, SubagentPolicy::options)
    }
}

impl<T: Values, C, D> SubagentNode<T, C, D> {
    fn layout(&self) -> &ChildChannels<T> {
        self.layout.get_or_init(|| {
            let graph = &self.attached.graph;
            ChildChannels::new((graph.initial)(), &graph.channels, self.border.policy.as_ref(), self.keeps_count())
        })
    }

    /// Returns the state with which the inner graph starts: the call, and the supervisor's values except the channels
    /// that the policy clears. With a policy, the state has one more frame. The result is the same each time a call
    /// resumes. Unchanged values are not copied.
    #[allow(clippy::ref_option)] // the channel copies an `Option`
    pub(super) fn enter<S>(&self, task: &Task<S, C>, call: &Option<ToolCall>) -> Arc<T>
    where
        S: Values + Contains<BaseState>,
    {
        let mut state = self.attached.inherit(task);
        let layout = self.layout();
        let mut set = |channel: Option<usize>, value: &dyn Any| {
            if let Some(channel) = channel {
                Arc::make_mut(&mut state).set_any(channel, value);
            }
        };
        if let Some(ToolCall { args, .. }) = call {
            match args.as_object() {
                Some(args) => set(layout.args, args),
                None => set(layout.args, &Map::<String, Value>::new()),
            }
            set(layout.call, call);
        }
        if let Some(policy) = &self.border.policy {
            let stack = &task.state().part().subagent_stack;
            let call = self.frame_call(task, call.as_ref(), policy);
            let stack: SubagentStack = stack.push(self.name.clone(), task.shared_state().clone(), call);
            set(layout.stack, &stack);
            if let Some(iterations) = policy.iterations() {
                set(layout.max_iterations, &iterations);
            }
        } else {
            set(layout.iteration, &0_u32);
        }
        // Background subagents belong to the agent that has started them.
        if !task.state().part().background_subagents.is_empty() {
            set(layout.background, &BackgroundSubagents::default());
        }
        self.apply_policy(&mut state);
        state
    }

    fn command_refused(&self) -> NodeError {
        NodeError::permanent(format!(
            "subagent `{0}` reads untrusted text and has a text-free answer, so a command to its supervisor \
             (`Command::parent`) may not carry text around the answer: end `{0}` with its answer",
            self.name
        ))
    }

    fn apply_policy(&self, state: &mut Arc<T>) {
        let layout = self.layout();
        if layout.cleared.is_empty() {
            return;
        }
        let state = Arc::make_mut(state);
        for channel in &layout.cleared {
            match layout.initial.get_any(*channel) {
                Some(value) => state.set_any(*channel, value),
                None => state.clear(*channel),
            }
        }
    }

    /// Returns the writes for the supervisor: the writes to the returned channels, and the answer to the call.
    fn leave<S>(&self, task: &Task<S, C>, call: Option<&ToolCall>, end: &T, returned: Vec<T::Write>) -> Writes<S>
    where
        S: Values + Contains<BaseState>,
    {
        let layout = self.layout();
        // Parallel subagents do not overwrite each other's report. Their reports are the answers to their calls.
        let report = layout.report.filter(|_| task.was_sent());
        let returned = returned.into_iter();
        let returned = returned.filter(|write| layout.returned[write.channel()] && report != Some(write.channel()));
        let channels = BaseState::channels();
        let mut writes = Writes::new();
        if self.border.policy.is_none() && !self.keeps_count() {
            writes.push(channels.iteration_number.write::<S>(0));
        }
        // Without a policy, the subagent's own record of labels is one of the returned channels.
        if self.border.policy.is_some() || layout.labels.is_none() {
            let supervisor = &task.state().part().trust_labels;
            let carried = self.carried_labels(end);
            if !supervisor.labels().contains(carried.labels()) {
                writes.push(channels.trust_labels.write::<S>(carried));
            }
        }
        self.attached.hand_back(task, returned).into_iter().for_each(|write| writes.push(write));
        let Some(call) = call else { return writes };
        let (report, is_success) = self.report(end);
        let answer = if is_success { prompts::answer(call, report) } else { Message::tool_error(call, report) };
        writes.push(channels.messages.write::<S>([answer]));
        writes.push(channels.progress.write::<S>(self.finished_progress(task.state().part(), call)));
        writes
    }

    /// Removes secrets from the writes for the supervisor, as its layers require.
    fn redacted<S: Values>(&self, task: &Task<S, C>, writes: Writes<S>) -> Result<Writes<S>, NodeError> {
        let Some(redactor) = (self.redactor)(task.run()) else { return Ok(writes) };
        writes.into_iter().map(|write| redactor.write(task.state(), write)).collect()
    }

    /// Returns the labels that the report and the merged channels carry. If the graph does not record labels, returns
    /// the labels of everything that its tools may read.
    pub(super) fn carried_labels(&self, end: &T) -> ConversationLabels {
        let ChildBorder { trust, only_report, .. } = self.border;
        let known = self.layout().labels.and_then(|labels| end.get_any(labels)?.downcast_ref::<ConversationLabels>());
        let read = known.map_or(trust.read, |known| known.labels());
        ConversationLabels::new(GraphTrust { read, ..trust }.carries(only_report))
    }

    /// Returns the report, and whether the graph has completed its task.
    pub(super) fn report(&self, end: &T) -> (String, bool) {
        let layout = self.layout();
        let report = layout.report.and_then(|report| end.get_any(report)?.downcast_ref::<String>());
        let turn = layout.turn.and_then(|turn| end.get_any(turn)?.downcast_ref::<AgentTurn>());
        let is_success = turn.and_then(|turn| turn.end.as_ref()).is_none_or(AgentEnd::is_success);
        (report.cloned().unwrap_or_default(), is_success)
    }

    pub(super) fn set_labels(&self, state: &mut Arc<T>, labels: ConversationLabels) {
        if let Some(channel) = self.layout().labels {
            Arc::make_mut(state).set_any(channel, &labels);
        }
    }

    pub(super) fn stack<'a>(&self, state: &'a T) -> Option<&'a SubagentStack> {
        state.get_any(self.layout().stack?)?.downcast_ref()
    }

    pub(super) fn set_counts(&self, state: &mut Arc<T>, counts: &LayerCounts) {
        if let Some(channel) = self.layout().counts {
            Arc::make_mut(state).set_any(channel, counts);
        }
    }

    /// Counts the end of this call, and the ends of the earlier calls of this subagent in the same reply.
    fn finished_progress(&self, base: &BaseState, call: &ToolCall) -> Write<Progress> {
        // Rejected calls are not scheduled.
        let is_made = |other: &&ToolCall| other.name == call.name && self.args.mistake(other).is_none();
        let before = base.open_calls_before(call).filter(is_made);
        let CallCounts { scheduled, finished } = base.progress.get(&self.name);
        let finished = finished + 1 + u64::try_from(before.count()).unwrap_or_default();
        Progress::from([(self.name.clone(), CallCounts { scheduled: scheduled.max(finished), finished })]).into()
    }

    fn is_background(&self) -> bool {
        matches!(self.role, ChildRole::Tool(_)) && self.border.is_background()
    }

    fn keeps_count(&self) -> bool {
        matches!(&self.role, ChildRole::Tool(supervisor) if supervisor.keeps_count)
    }

    fn frame_call<S>(&self, task: &Task<S, impl Sized>, call: Option<&ToolCall>, policy: &SubagentPolicy) -> FrameCall
    where
        S: Values + Contains<BaseState>,
    {
        let answer = call.and_then(|call| task.state().part().messages.caller_of(&call.id));
        let siblings = match &self.role {
            ChildRole::Tool(supervisor) => &*supervisor.subagents,
            ChildRole::Stage => &[],
        };
        let is_subagent = |call: &&ToolCall| siblings.iter().any(|name| **name == *call.name);
        let among = answer.map_or(1, |answer| answer.tool_calls().iter().filter(is_subagent).count().max(1));
        FrameCall {
            max_iterations: policy.iterations(),
            answer: answer.and_then(|answer| answer.id.as_deref().map(Into::into)),
            among: u64::try_from(among).unwrap_or(u64::MAX),
            background: call.filter(|_| self.is_background()).map(|call| call.id.as_str().into()),
        }
    }
}
