//! Builds the graphs of a scenario with the dynamic builder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hier_core::BuildError;
use hier_core::graph::{Checkpoints, CompiledGraph, EdgeEnd, GraphBuilder, NodeDef, Retry, Task};
use hier_core::state::{Builtin, DynState, Schema};
use hier_spec::did_you_mean;

use super::node::{Attempts, Code, items, measure};
use super::scenario::{Action, Branch, Channel, Edge, Ends, Graph, Node, Scenario, place};

/// Builds the root graph of a scenario.
pub(crate) fn build(scenario: &Scenario) -> Result<CompiledGraph<DynState>, BuildError> {
    let family = Family { subgraphs: &scenario.settings.subgraphs, attempts: Attempts::default() };
    family.graph("root", &scenario.root, None)?.compile()
}

/// The data that the graphs of a scenario share.
struct Family<'a> {
    subgraphs: &'a BTreeMap<String, Graph>,
    attempts: Attempts,
}

impl Family<'_> {
    fn graph(&self, name: &str, graph: &Graph, outer: Option<&Graph>) -> Result<GraphBuilder<DynState>, BuildError> {
        let mut builder = GraphBuilder::dynamic(name, schema(&graph.channels))
            .interrupt_before(graph.interrupt_before.iter().map(String::as_str))
            .interrupt_after(graph.interrupt_after.iter().map(String::as_str));
        // LangGraph accepts graphs that hier rejects by default, and the scenarios are recorded with LangGraph.
        builder = builder.lenient();
        let outer = outer.map(|outer| schema(&outer.channels));
        for (name, node) in &graph.nodes {
            builder = self.node(builder, name, node, (graph, outer.as_ref()))?;
        }
        targets(name, graph)?;
        let builder = graph.edges.iter().fold(builder, edge);
        Ok(graph.branches.iter().fold(builder, branch))
    }

    fn node(
        &self,
        mut builder: GraphBuilder<DynState>,
        name: &str,
        node: &Node,
        (graph, outer): (&Graph, Option<&Schema>),
    ) -> Result<GraphBuilder<DynState>, BuildError> {
        if let Some(child) = &node.graph {
            // Reading the file has checked that the subgraph exists and does not contain itself.
            if let Some(inner) = self.subgraphs.get(child) {
                builder = builder.subgraph(name, &self.graph(child, inner, Some(graph))?.compile()?);
            }
            if node.keeps {
                builder = builder.checkpoints(name, Checkpoints::PerThread);
            }
        } else {
            builder = builder.node(name, self.def(name, node, &graph.channels, outer));
        }
        if node.defer {
            builder = builder.defer(name);
        }
        Ok(builder)
    }

    fn def(
        &self,
        name: &str,
        node: &Node,
        channels: &BTreeMap<String, Channel>,
        outer: Option<&Schema>,
    ) -> NodeDef<DynState> {
        let code = |name: String, actions: &[Action]| {
            let (actions, channels, outer) = (actions.to_vec(), channels.clone(), outer.cloned());
            let code = Arc::new(Code { name, actions, channels, outer, attempts: self.attempts.clone() });
            move |task: Task<DynState>| {
                let code = code.clone();
                async move { code.run(&task).await }
            }
        };
        let mut def = NodeDef::task(code(name.to_owned(), &node.actions));
        if let Some(handler) = &node.handler {
            def = def.on_error(code(format!("{name}-handler"), handler));
        }
        match node.retry {
            Some(attempts) => {
                let interval = Duration::from_millis(1);
                def.retry(Retry { attempts, interval, jitter: 0.0, ..Retry::default() })
            }
            None => def,
        }
    }
}

fn schema(channels: &BTreeMap<String, Channel>) -> Schema {
    channels.iter().fold(Schema::new(), |schema, (name, channel)| {
        let reducer = match channel {
            Channel::Last => return schema.last(name),
            Channel::Ephemeral => return schema.ephemeral(name),
            Channel::Append => Builtin::Append,
            Channel::Sum => Builtin::Sum,
            Channel::Mul => Builtin::Product,
            Channel::Max => Builtin::Max,
            Channel::Min => Builtin::Min,
            Channel::Or => Builtin::Any,
            Channel::Merge => Builtin::Extend,
            Channel::ById => Builtin::ById,
        };
        schema.reduced(name, reducer)
    })
}

/// Checks that declared targets exist. They do not bind the node, unlike those of `GraphBuilder::goto`.
fn targets(name: &str, graph: &Graph) -> Result<(), BuildError> {
    let names = graph.nodes.keys().map(String::as_str);
    let declared = graph.nodes.iter().flat_map(|(node, spec)| spec.targets.iter().map(move |target| (node, target)));
    let unknown = declared.filter(|(_, target)| *target != "END" && !graph.nodes.contains_key(*target));
    let mistakes: Vec<String> = unknown
        .map(|(node, target)| {
            format!("`{node}` declares the target `{target}`, which is no node{}", did_you_mean(target, names.clone()))
        })
        .collect();
    if mistakes.is_empty() { Ok(()) } else { Err(BuildError { graph: name.to_owned(), mistakes }) }
}

fn edge(builder: GraphBuilder<DynState>, Edge(from, to): &Edge) -> GraphBuilder<DynState> {
    to.names().iter().fold(builder, |builder, to| match from {
        Ends::One(from) => builder.edge(place(from), place(to)),
        Ends::Many(from) => builder.join(from.iter().map(String::as_str), place(to)),
    })
}

fn branch(builder: GraphBuilder<DynState>, branch: &Branch) -> GraphBuilder<DynState> {
    let places = |names: &[String]| -> Vec<EdgeEnd> { names.iter().map(|name| place(name)).collect() };
    match branch {
        Branch::Below { from, on, bound, then, otherwise } => {
            let (on, bound) = (on.clone(), *bound);
            let arms = [("then", places(then)), ("else", places(otherwise))];
            builder.route(place(from), "path", arms, move |state| match measure(state.get(&on)) {
                Some(value) if value < bound => "then",
                Some(_) => "else",
                // This arm does not exist, so the run fails with an error that names it.
                None => "nothing to compare",
            })
        }
        Branch::Each { from, each, to, item } => {
            let (each, item) = (each.clone(), item.clone());
            builder.each(place(from), "each", place(to), move |state| items(state.get(&each), &item))
        }
    }
}
