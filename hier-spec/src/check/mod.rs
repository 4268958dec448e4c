//! The rules of a graph's shape: one list, for the macro and for the builder. In the order in which they are checked:
//!
//! 1. [`Rule::ReservedName`]: no name is one of the engine's own.
//! 2. [`Rule::DoubledNode`]: no two nodes have the same name.
//! 3. [`Rule::DoubledRoute`]: no two routes of one source have the same name, and no two arms of one route.
//! 4. [`Rule::EmptyJoin`]: a join has sources.
//! 5. [`Rule::DoubledEdge`]: no edge is given twice, and no list names a node twice.
//! 6. [`Rule::NoEntry`]: an edge leaves START.
//! 7. [`Rule::SameArms`]: a route has arms that differ.
//! 8. [`Rule::DeadJoin`]: a join can fire: all its sources can run, and no two of them exclude each other.
//! 9. [`Rule::Unreachable`]: every node can run.
//! 10. [`Rule::NoEnd`]: END can be reached from every node.
//! 11. [`Rule::NoRest`]: no circle of edges is followed whatever the routes choose.
//! 12. [`Rule::TwoWriters`]: nodes that always run together do not declare writes of one channel. Whether that channel
//!     has a reducer, and so may have two writers, only the caller knows.
//! 13. [`Rule::SharedCalls`]: no `for` sends to a node whose graph keeps its state for the whole thread: its calls would
//!     run side by side over one state.
//!
//! What breaks an essential rule ([`Rule::is_essential`]) is no graph; the rest is shape, which a lenient caller may let
//! pass.

mod calls;
mod declared;
mod edges;
mod ends;
mod joins;
mod writers;

use crate::GraphSpec;
use crate::reach::Ways;

/// The rule that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A name is one of the engine's own.
    ReservedName,
    /// Two nodes have the same name.
    DoubledNode,
    /// Two routes of one source, or two arms of one route, have the same name.
    DoubledRoute,
    /// A join has no sources.
    EmptyJoin,
    /// Nothing leaves START.
    NoEntry,
    /// An edge or a target is given twice.
    DoubledEdge,
    /// All arms of a route lead to the same place.
    SameArms,
    /// A join can never fire.
    DeadJoin,
    /// A node can never run.
    Unreachable,
    /// END cannot be reached from a node.
    NoEnd,
    /// A run that comes to this circle never ends, whatever the routes choose.
    NoRest,
    /// Two nodes that always run together write one channel.
    TwoWriters,
    /// Items are sent to a node whose graph keeps its state for the whole thread.
    SharedCalls,
}

impl Rule {
    /// Whether what breaks the rule cannot be run at all.
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::ReservedName | Self::DoubledNode | Self::DoubledRoute | Self::EmptyJoin | Self::NoEntry)
    }

    /// Whether the rule is about the ways through the graph, so that a missing edge breaks it, too.
    pub const fn is_about_ways(self) -> bool {
        !matches!(
            self,
            Self::ReservedName | Self::DoubledNode | Self::DoubledRoute | Self::EmptyJoin | Self::DoubledEdge
        )
    }
}

/// The place in the user's text that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The graph as a whole.
    Graph,
    /// The graph's name.
    Name,
    /// A node, where it is declared.
    Node(usize),
    /// An edge as a whole: its target, or the function of a route.
    Edge(usize),
    /// A source of a join.
    JoinSource(usize, usize),
    /// An arm of a route: edge, arm.
    Arm(usize, usize),
    /// A target of an arm: edge, arm, position.
    ArmTarget(usize, usize, usize),
    /// A declared write: node, position.
    Write(usize, usize),
    /// A declared target of commands: node, position.
    Goto(usize, usize),
    /// A breakpoint before a node.
    Before(usize),
    /// A breakpoint after a node.
    After(usize),
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Every place that takes part, the one to mend first.
    pub sites: Vec<Site>,
    /// The mistake, and how to mend it.
    pub message: String,
}

/// The findings so far.
struct Findings(Vec<Finding>);

impl Findings {
    fn push(&mut self, rule: Rule, sites: impl Into<Vec<Site>>, message: impl Into<String>) {
        self.0.push(Finding { rule, sites: sites.into(), message: message.into() });
    }
}

/// Everything that is wrong with the shape of a graph.
pub fn check(spec: &GraphSpec) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    declared::reserved_names(spec, &mut findings);
    declared::doubled_nodes(spec, &mut findings);
    declared::doubled_routes(spec, &mut findings);
    declared::empty_joins(spec, &mut findings);
    edges::doubled(spec, &mut findings);
    if !ends::no_entry(spec, &mut findings) {
        return findings.0; // everything else would be unreachable
    }
    edges::same_arms(spec, &mut findings);
    let ways = Ways::new(spec);
    let reached = ways.reachable(|_| true);
    let dead = joins::dead(spec, &ways, &reached, &mut findings);
    ends::unreachable(spec, &reached, &dead, &mut findings);
    ends::no_end(spec, &ways, &reached, &mut findings);
    ends::no_rest(spec, &ways, &reached, &mut findings);
    writers::two(spec, &ways, &mut findings);
    calls::shared(spec, &mut findings);
    findings.0
}

/// The name as it is written in the macro.
fn plain(name: &str) -> &str {
    match name {
        crate::START => "START",
        crate::END => "END",
        other => other,
    }
}
