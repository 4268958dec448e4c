//! Graphs as members of a hierarchy, at compile time and at run time. The code that `graph!` generates uses these
//! items.

use std::fmt;
use std::marker::PhantomData;

use hier_spec::agent::AgentKind;
use hier_spec::const_text::ConstText;
use hier_spec::trust::{GraphTrust, TrustSource};
use hier_spec::{GraphSpec, NestedSpec};

use crate::hierarchy::policy_spec::PolicySpec;
use crate::hierarchy::subagent::Subagent;
use crate::react::ArgsSpec;
use crate::state::base::BaseState;
use hier_core::QuestionFacts;
use hier_core::channel::Table;
use hier_core::graph::flow::GraphFlow;
use hier_core::graph::{FitsContext, Graph};
use hier_core::state::fields::Fields;
use hier_core::state::{Channel, Contains, Open, SharesWith, State, Values, WritableChannel};

/// Evaluates to true if the condition is true for at least one name in the list. A macro, because closures cannot be
/// called at compile time.
macro_rules! any {
    ($name:ident in $list:expr, $condition:expr) => {{
        let (list, mut at, mut found) = ($list, 0, false);
        while at < list.len() && !found {
            let $name = list[at];
            found = $condition;
            at += 1;
        }
        found
    }};
}

/// A graph that can be a member of a hierarchy. `graph!` implements it for every graph.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a graph",
    note = "declare graphs with `graph!`, in a crate that depends on `hier-graph` or `hier-agents`"
)]
pub trait Membership: Graph {
    /// The policy that the graph itself declares, or `None` if it declares none.
    const POLICY: Option<PolicySpec> = None;

    /// True if the graph's system prompt is a function that reads the conversation. False if the prompt does not read
    /// the conversation, or if this is unknown because the function takes the whole state.
    const PROMPT_READS_MESSAGES: bool = false;

    /// Returns the type of the arguments with which a supervisor's model calls the graph. Returns `None` if the graph
    /// does not declare a type.
    fn args() -> Option<ArgsSpec> {
        None
    }
}

/// The compile-time facts about a graph that an agent with the state `S` contains as a subagent or stage.
pub struct Member<S: Values, C> {
    name: &'static str,
    spec: fn() -> &'static GraphSpec,
    depth: usize,
    channels: Table,
    policy: Option<PolicySpec>,
    asks_model: bool,
    flow: GraphFlow,
    prompt_reads_messages: bool,
    fields: Fields,
    trust: GraphTrust,
    questions: QuestionFacts,
    make: fn(Option<PolicySpec>) -> Subagent<S, C>,
    context: PhantomData<fn(C)>,
}

impl<S: Values, C> fmt::Debug for Member<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Returns the facts about the graph `G` in an agent with the state `S`. `policy` is the policy that the agent declares
/// for the graph.
pub const fn member<S, C, G>(policy: Option<PolicySpec>) -> Member<S, C>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
    G: FitsContext<C> + Membership,
    G::State: SharesWith<S>,
{
    Member {
        name: G::NAME,
        spec: || G::SPEC,
        depth: 1 + G::DEPTH,
        channels: <G::State as State>::CHANNELS,
        policy: PolicySpec::resolve(policy, G::POLICY),
        asks_model: G::ASKS_MODEL,
        flow: G::FLOW,
        // The macro has refused the prompt if the graph's own policy clears the conversation by name.
        prompt_reads_messages: G::PROMPT_READS_MESSAGES
            && !matches!(G::POLICY, Some(PolicySpec { clear_messages: Some(true), .. })),
        fields: <G::State as State>::FIELDS,
        trust: G::TRUST,
        questions: G::QUESTIONS,
        make: made::<S, C, G>,
        context: PhantomData,
    }
}

fn made<S, C, G>(policy: Option<PolicySpec>) -> Subagent<S, C>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
    G: FitsContext<C> + Membership,
    G::State: SharesWith<S>,
{
    let subagent = Subagent::with(&G::compile(), G::context).typed_args(G::args());
    match policy {
        Some(policy) => subagent.policy(policy.policy()).merging_text(!policy.merged().text_free),
        None => subagent,
    }
}

impl<S: Values, C> Member<S, C> {
    /// Returns the name of the graph.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the spec of the graph, for the field `nested` of the node that contains the graph. Never returns `None`.
    #[allow(clippy::unnecessary_wraps)] // the type of the field of `NodeSpec`
    pub const fn nested(&self) -> Option<NestedSpec> {
        Some(NestedSpec::Static(self.spec))
    }

    /// Returns the number of levels of nested graphs, including the level of this graph.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// Returns true if the graph, or a graph within it, asks a model.
    pub const fn asks_model(&self) -> bool {
        self.asks_model
    }

    /// Returns the facts about the graph that the trust checks of its supervisor need. Errors of these checks call the
    /// graph `name`.
    pub const fn trust_source(&self, name: &'static str) -> TrustSource<'static> {
        let only_report = match self.policy {
            Some(policy) => policy.merged().text_free,
            None => false,
        };
        TrustSource::graph(name, self.trust, only_report)
    }

    /// Returns the declared questions that the graph, or a graph within it, can ask.
    pub const fn questions(&self) -> QuestionFacts {
        self.questions
    }

    /// Returns true if the graph or its supervisor declares a policy.
    pub const fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Returns true if the policy merges a channel that it also discards.
    pub const fn merges_and_discards(&self) -> bool {
        let Some(policy) = self.policy else { return false };
        let discarded = policy.discarded().written;
        any!(field in policy.merged().written, contains(discarded, field))
    }

    /// Returns true if the policy merges or discards channels. A background subagent cannot have such a policy, because
    /// it returns only its report.
    pub const fn returns_fields(&self) -> bool {
        match &self.policy {
            Some(policy) => !policy.merged().written.is_empty() || !policy.discarded().written.is_empty(),
            None => false,
        }
    }

    /// Returns true if the supervisor's state, whose channels are `outer`, has the channels that the policy names. The
    /// policy contains names of fields, so a channel whose name differs from its field's name is not checked.
    pub const fn fits(&self, outer: &Table) -> bool {
        let Some(policy) = self.policy else { return true };
        self.known(policy.merged().written, outer) && self.known(policy.discarded().written, outer)
    }

    const fn known(&self, fields: &[&str], outer: &Table) -> bool {
        !any!(field in fields, self.channels.contains(field) && !outer.contains(field))
    }

    /// Returns true if the graph has a policy, or if its state has the same channels as the supervisor's state.
    pub const fn may_share(&self, outer: &Table) -> bool {
        self.policy.is_some() || (self.channels.is_within(outer) && outer.is_within(&self.channels))
    }

    /// Returns true if every channel that the policy merges has a reducer in the supervisor's state.
    pub const fn merges_reduced(&self, outer: &Table) -> bool {
        let Some(policy) = self.policy else { return true };
        !any!(field in policy.merged().written, outer.is_plain(field))
    }

    /// Fails to compile if the policy merges the channel of this field and the graph cannot write the channel.
    #[track_caller]
    pub const fn check_merge(&self, graph: &str, field: &str) {
        let Some(found) = self.fields.find(field) else { return };
        if let Some(channel) = found.channel()
            // The engine writes channels of the hierarchy, too.
            && !<BaseState as State>::CHANNELS.contains(channel)
            && !self.flow.may_write(channel)
        {
            ConstText::new()
                .quoted(graph)
                .text(" never writes ")
                .quoted(channel)
                .text(", so there is nothing to merge: write it in one of its nodes, or remove it from `merge_fields`")
                .refuse();
        }
    }

    /// Fails to compile if the graph reads a channel that has no source: the graph does not write the channel, and the
    /// supervisor's state does not contain it.
    #[track_caller]
    pub const fn check_needs(&self, graph: &str, outer: &Table) {
        if let Some(channel) = self.flow.lacks(outer) {
            ConstText::new()
                .text("nothing gives ")
                .quoted(graph)
                .text(" the channel ")
                .quoted(channel)
                .text(
                    ", which its nodes read and do not write: add the channel to the state of this agent, write it in a \
                     node of the subagent, or mark it `#[channel(initial)]`",
                )
                .refuse();
        }
    }

    /// Fails to compile if the graph's system prompt reads the conversation and the policy sets `clear_messages: true`.
    /// If the policy only clears the conversation by default, the graph compiles, because it may also run as a root.
    #[track_caller]
    pub const fn check_prompt(&self, graph: &str) {
        if self.prompt_reads_messages
            && let Some(policy) = &self.policy
            && matches!(policy.clear_messages, Some(true))
        {
            ConstText::new()
                .quoted(graph)
                .text(" starts with an empty conversation, but its `system:` function reads `messages`: write `")
                .text(graph)
                .text(" { clear_messages: false }`, or read `messages` in `reasoning:`")
                .refuse();
        }
    }

    /// Returns the graph as a subagent.
    pub fn subagent(&self) -> Subagent<S, C> {
        (self.make)(self.policy)
    }
}

const fn contains(list: &[&str], name: &str) -> bool {
    any!(other in list, hier_core::channel::equal(other, name))
}

/// Returns the position of the first repeated name, or `usize::MAX` if all names differ.
pub const fn first_doubled(names: &[&str]) -> usize {
    let mut at = 0;
    while at < names.len() {
        let (before, _) = names.split_at(at);
        if contains(before, names[at]) {
            return at;
        }
        at += 1;
    }
    usize::MAX
}

/// Returns true if every agent of this kind has a tool with this name. If `is_node` is true, also returns true if every
/// such agent has a node with this name.
pub const fn is_reserved(kind: AgentKind, name: &str, is_node: bool) -> bool {
    contains(kind.reserved_tools(), name) || (is_node && contains(kind.reserved_nodes(), name))
}

/// Returns true if this is the name of the tool that an agent has because of the option `search`.
pub const fn is_search_tool(name: &str) -> bool {
    hier_core::channel::equal(name, hier_spec::agent::SEARCH_TOOLS)
}

/// Returns true if this is the name of a tool that an agent has because it has a background subagent.
pub const fn is_background_tool(name: &str) -> bool {
    contains(&hier_spec::agent::BACKGROUND_TOOLS, name)
}

/// Returns true if the name is valid for a tool that a model calls.
pub const fn is_callable(name: &str) -> bool {
    hier_spec::names::is_callable(name)
}

/// A channel that a subagent can return: every channel that nodes can write. Managed channels do not implement this
/// trait.
#[diagnostic::on_unimplemented(
    message = "a subagent cannot return the channel `{Self}`, which only the engine writes",
    label = "cannot be returned",
    note = "a policy names channels that nodes can write"
)]
pub trait Returnable: WritableChannel {
    /// Returns the channel's name.
    fn channel_name(&self) -> &'static str;
}

impl<S: Values, T, K: Open> Returnable for Channel<S, T, K> {
    fn channel_name(&self) -> &'static str {
        self.name()
    }
}

/// Returns the name of the channel. Compiles only if a subagent can return the channel.
pub fn returnable(channel: &impl Returnable) -> &'static str {
    channel.channel_name()
}

/// Returns the name of the channel `outer` of a supervisor. `_inner` is the channel of its subagent. Compiles only if a
/// subagent can return both channels.
pub fn crosses<A: Returnable, B: Returnable>(outer: &A, _inner: &B) -> &'static str {
    outer.channel_name()
}
