//! What the code of `graph!` says of graphs as members of a hierarchy, while compiling and at run time.

use std::fmt;
use std::marker::PhantomData;

use hier_spec::agent::AgentKind;
use hier_spec::{GraphSpec, NestedSpec};

use crate::hierarchy::policy_spec::PolicySpec;
use crate::hierarchy::subagent::Subagent;
use crate::react::ArgsSpec;
use crate::state::base::BaseState;
use hier_core::channel::Table;
use hier_core::graph::{FitsContext, Graph};
use hier_core::state::{Channel, Contains, Open, SharesWith, State, Values, WritableChannel};

/// What a graph says of itself as a member of a hierarchy. `graph!` implements it for every graph.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a graph",
    note = "declare graphs with `graph!`, in a crate that depends on `hier` or `hier-agents`"
)]
pub trait Membership: Graph {
    /// Its own policy.
    const POLICY: Option<PolicySpec> = None;

    /// The type of the arguments with which it is called, unless these are the usual ones.
    fn args() -> Option<ArgsSpec> {
        None
    }
}

/// A graph in its place as a member of an agent over `S`: what is known of it while compiling.
pub struct Member<S: Values, C> {
    name: &'static str,
    spec: fn() -> &'static GraphSpec,
    depth: usize,
    channels: Table,
    policy: Option<PolicySpec>,
    asks_model: bool,
    make: fn(Option<PolicySpec>) -> Subagent<S, C>,
    context: PhantomData<fn(C)>,
}

impl<S: Values, C> fmt::Debug for Member<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// A graph as a member of an agent over `S`, attached with this policy.
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
        Some(policy) => subagent.policy(policy.policy()),
        None => subagent,
    }
}

impl<S: Values, C> Member<S, C> {
    /// The name of the graph.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The graph's spec.
    #[allow(clippy::unnecessary_wraps)] // as `NodeSpec` has it
    pub const fn nested(&self) -> Option<NestedSpec> {
        Some(NestedSpec::Static(self.spec))
    }

    /// How many graphs are nested in it, itself included.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// Whether it, or a graph within it, asks a model.
    pub const fn asks_model(&self) -> bool {
        self.asks_model
    }

    /// Whether it has a policy, here or of its own.
    pub const fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Whether a channel is both merged and discarded.
    pub const fn merges_and_discards(&self) -> bool {
        let Some(policy) = self.policy else { return false };
        let (merged, discarded) = (policy.merged().written, policy.discarded().written);
        let mut at = 0;
        while at < merged.len() {
            if contains(discarded, merged[at]) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Whether the supervisor's state, with these channels, has what the policy names. A renamed channel is known by
    /// its field only, and not looked for.
    pub const fn fits(&self, outer: &Table) -> bool {
        let Some(policy) = self.policy else { return true };
        self.known(policy.merged().written, outer) && self.known(policy.discarded().written, outer)
    }

    const fn known(&self, fields: &[&str], outer: &Table) -> bool {
        let mut at = 0;
        while at < fields.len() {
            if self.channels.contains(fields[at]) && !outer.contains(fields[at]) {
                return false;
            }
            at += 1;
        }
        true
    }

    /// Whether it has a policy, or the same channels as its supervisor's state.
    pub const fn may_share(&self, outer: &Table) -> bool {
        self.policy.is_some() || (self.channels.is_within(outer) && outer.is_within(&self.channels))
    }

    /// Whether every channel that goes back has a reducer in the supervisor's state.
    pub const fn merges_reduced(&self, outer: &Table) -> bool {
        let Some(policy) = self.policy else { return true };
        let merged = policy.merged().written;
        let mut at = 0;
        while at < merged.len() {
            if outer.is_plain(merged[at]) {
                return false;
            }
            at += 1;
        }
        true
    }

    /// The graph as a subagent.
    pub fn subagent(&self) -> Subagent<S, C> {
        (self.make)(self.policy)
    }
}

const fn contains(list: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < list.len() {
        if hier_core::channel::equal(list[at], name) {
            return true;
        }
        at += 1;
    }
    false
}

/// The place of the first name that stands in the list before; past the end if there is none.
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

/// Whether a name is one that every agent of this kind has: of a tool, or (for what becomes a node) of a node.
pub const fn is_reserved(kind: AgentKind, name: &str, is_node: bool) -> bool {
    contains(kind.reserved_tools(), name) || (is_node && contains(kind.reserved_nodes(), name))
}

/// Whether a model can call something by this name.
pub const fn is_callable(name: &str) -> bool {
    hier_spec::names::is_callable(name)
}

/// A channel that a subagent can give back: every channel but a managed one and those of the hierarchy itself.
#[diagnostic::on_unimplemented(
    message = "a subagent cannot give back `{Self}`, which the engine itself writes",
    label = "cannot be given back",
    note = "a policy names channels that nodes can write"
)]
pub trait Returnable: WritableChannel {
    /// The channel's name.
    fn channel_name(&self) -> &'static str;
}

impl<S: Values, T, K: Open> Returnable for Channel<S, T, K> {
    fn channel_name(&self) -> &'static str {
        self.name()
    }
}

/// The name of a channel that a subagent can give back.
pub fn returnable(channel: &impl Returnable) -> &'static str {
    channel.channel_name()
}

/// The name of a channel that both states have.
pub fn crosses<A: Returnable, B: Returnable>(outer: &A, _inner: &B) -> &'static str {
    outer.channel_name()
}
