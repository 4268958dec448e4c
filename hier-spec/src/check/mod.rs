//! The rules of a graph's shape, for the macro and for the builder, in the order in which they are checked:
//!
//! 1. [`ShapeRule::ReservedName`]: a name is not reserved for the engine.
//! 2. [`ShapeRule::DoubledNode`]: two nodes have different names.
//! 3. [`ShapeRule::DoubledRoute`]: two routes of one source have different names, and so do two arms of one route.
//! 4. [`ShapeRule::EmptyJoin`]: a join has sources.
//! 5. [`ShapeRule::DoubledEdge`]: an edge is given once, and a list contains a node once.
//! 6. [`ShapeRule::NoEntry`]: an edge leaves START.
//! 7. [`ShapeRule::SameArms`]: the arms of a route differ.
//! 8. [`ShapeRule::DeadJoin`]: a join can fire: some run runs all its sources.
//! 9. [`ShapeRule::Unreachable`]: every node can run.
//! 10. [`ShapeRule::NoEnd`]: END can be reached from every node.
//! 11. [`ShapeRule::NoRest`]: a run can end after every path that it can take.
//! 12. [`ShapeRule::TwoWriters`]: if a node never runs without another one, the two do not write the same channel. Only
//!     the caller knows if the channel has a reducer, which allows both writes.
//! 13. [`ShapeRule::SharedCalls`]: a `for` does not send items to a graph that keeps its state for the whole thread, because
//!     its calls would share one state.
//!
//! Rules 8, 11 and 12 are decided exactly by exploring all [`positions`](crate::positions) of a thread. Rules 8 and 11
//! first look for patterns, which have more precise messages. If a graph has too many positions, only the patterns apply.
//!
//! A graph that violates an essential rule ([`ShapeRule::is_essential`]) cannot run. A caller may ignore the other rules.

mod calls;
mod declared;
mod edges;
mod ends;
mod joins;
mod path;
mod traps;
mod writers;

use crate::GraphSpec;
use crate::reach::Reachability;

/// A rule about the shape of graphs. The docs of each variant describe the violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// A name is reserved for the engine.
    ReservedName,
    /// Two nodes have the same name.
    DoubledNode,
    /// Two routes from the same source, or two arms of one route, have the same name.
    DoubledRoute,
    /// A join has no sources.
    EmptyJoin,
    /// No edge leaves START.
    NoEntry,
    /// The graph has the same edge twice, or an arm has the same target twice.
    DoubledEdge,
    /// All arms of a route lead to the same target.
    SameArms,
    /// A join can never fire, because no run runs all its sources.
    DeadJoin,
    /// A node can never run.
    Unreachable,
    /// END cannot be reached from a node.
    NoEnd,
    /// A run can take a path after which it never ends, whatever the routes choose from then on.
    NoRest,
    /// Two nodes declare that they write the same channel, and one of them never runs without the other.
    TwoWriters,
    /// Sends lead to a subgraph that keeps its state for the whole thread, so that two calls of it could run in
    /// parallel.
    SharedCalls,
}

impl ShapeRule {
    /// Returns true if the engine cannot run a graph that violates this rule.
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::ReservedName | Self::DoubledNode | Self::DoubledRoute | Self::EmptyJoin | Self::NoEntry)
    }

    /// Returns true if the rule concerns paths through the graph. A missing edge can violate such a rule.
    pub const fn is_about_paths(self) -> bool {
        !matches!(
            self,
            Self::ReservedName | Self::DoubledNode | Self::DoubledRoute | Self::EmptyJoin | Self::DoubledEdge
        )
    }
}

/// A location in the user's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecSite {
    /// The whole graph.
    Graph,
    /// The graph's name.
    Name,
    /// The declaration of a node.
    Node(usize),
    /// An edge. The location is its target, or the function of its route.
    Edge(usize),
    /// A source of a join, by the indices of the edge and the source.
    JoinSource(usize, usize),
    /// An arm of a route, by the indices of the edge and the arm.
    Arm(usize, usize),
    /// A target of an arm, by the indices of the edge, the arm and the target.
    ArmTarget(usize, usize, usize),
    /// A declared write of a node, by the indices of the node and the channel in its list.
    Write(usize, usize),
    /// A declared target of a node's commands, by the indices of the node and the target in its list.
    Goto(usize, usize),
    /// A breakpoint before a node, by its index in the list of these breakpoints.
    Before(usize),
    /// A breakpoint after a node, by its index in the list of these breakpoints.
    After(usize),
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The violated rule.
    pub rule: ShapeRule,
    /// The locations of the violation. The first one is the location at which to fix the mistake.
    pub sites: Vec<SpecSite>,
    /// The mistake and its fix.
    pub message: String,
}

struct Findings(Vec<Finding>);

impl Findings {
    fn push(&mut self, rule: ShapeRule, sites: impl Into<Vec<SpecSite>>, message: impl Into<String>) {
        self.0.push(Finding { rule, sites: sites.into(), message: message.into() });
    }
}

/// Returns the violations of the rules. If no edge leaves START, no node could run. The function then checks only
/// names, joins without sources and repeated edges, in addition to [`ShapeRule::NoEntry`].
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
    let reach = Reachability::new(spec);
    let reached = reach.reachable(|_| true);
    let dead = joins::dead(spec, &reach, &reached, &mut findings);
    ends::unreachable(spec, &reached, &dead, &mut findings);
    ends::no_end(spec, &reach, &reached, &mut findings);
    ends::no_rest(spec, &reach, &reached, &mut findings);
    if findings.0.is_empty() {
        traps::find(spec, &reach, &mut findings);
    }
    writers::two(spec, &reach, &mut findings);
    calls::shared(spec, &mut findings);
    findings.0
}

/// The name in the syntax of the macro.
fn macro_name(name: &str) -> &str {
    match name {
        crate::START => "START",
        crate::END => "END",
        other => other,
    }
}
