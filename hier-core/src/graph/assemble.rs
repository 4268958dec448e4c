//! The draft of a builder, from which the graph is compiled.

use std::sync::Arc;

use hier_spec::{
    EdgeSpec, Finding, Goto, GraphSpec, NestedSpec, NodeSpec, ShapeRule, Source, SpecSite, Target, Text, did_you_mean,
};

use super::compiled::{CompiledGraph, Parts};
use super::edge_end::{EdgeEnd, source};
use crate::channel::ChannelSpec;
use crate::engine::program::{Attached, Child, Hooks, NodeDef, RouteFn, Shares, SpecRef, Task, body};
use crate::error::BuildError;
use crate::question::QuestionType;
use crate::state::Values;

/// Converts an edge when the names of all nodes are known.
type EdgeFn<S> = Box<dyn FnOnce(&Names<'_>) -> Result<(EdgeSpec, Option<RouteFn<S>>), String>>;

pub(crate) struct Draft<S: Values, C> {
    pub(crate) name: String,
    pub(crate) doc: String,
    channels: Vec<ChannelSpec>,
    initial: Arc<dyn Fn() -> S + Send + Sync>,
    nodes: Vec<NodeSpec>,
    code: Vec<NodeDef<S, C>>,
    pub(crate) gotos: Vec<(String, Vec<EdgeEnd>)>,
    pub(crate) edges: Vec<EdgeFn<S>>,
    pub(crate) interrupt_before: Vec<EdgeEnd>,
    pub(crate) interrupt_after: Vec<EdgeEnd>,
    pub(crate) lenient: bool,
    pub(crate) inbox: Option<String>,
    pub(crate) asked: Vec<QuestionType>,
    mistakes: Vec<String>,
}

pub(crate) struct Names<'a>(&'a [NodeSpec]);

impl Names<'_> {
    pub(crate) fn source(&self, place: &EdgeEnd) -> Result<Source, String> {
        source(place, |place| self.node(place, "the end of an edge"))
    }

    pub(crate) fn target(&self, place: &EdgeEnd) -> Result<Target, String> {
        match place {
            EdgeEnd::Start => Err("an edge cannot lead to START".to_owned()),
            EdgeEnd::End => Ok(Target::End),
            EdgeEnd::Node(_) => self.node(place, "the end of an edge").map(Target::Node),
        }
    }

    pub(crate) fn node(&self, place: &EdgeEnd, what: &str) -> Result<usize, String> {
        let EdgeEnd::Node(name) = place else {
            return Err(format!("{what} must be a node, not START or END"));
        };
        let found = self.0.iter().position(|node| node.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|node| &*node.name).collect();
            format!("there is no node `{name}`{}", did_you_mean(name, names))
        })
    }
}

impl<S: Values, C: Send + Sync + 'static> Draft<S, C> {
    pub(crate) fn new(name: String, channels: Vec<ChannelSpec>, initial: Arc<dyn Fn() -> S + Send + Sync>) -> Self {
        let mut mistakes = Vec::new();
        for (index, channel) in channels.iter().enumerate() {
            let name = &channel.name;
            if channels[..index].iter().any(|other| other.name == *name) {
                mistakes.push(format!("the channel `{name}` is declared twice: rename one"));
            }
            if name != hier_spec::agent::STACK {
                mistakes.extend(hier_spec::names::channel(name));
            }
        }
        Self {
            name,
            doc: String::new(),
            channels,
            initial,
            nodes: Vec::new(),
            code: Vec::new(),
            gotos: Vec::new(),
            edges: Vec::new(),
            interrupt_before: Vec::new(),
            interrupt_after: Vec::new(),
            asked: Vec::new(),
            lenient: false,
            inbox: None,
            mistakes,
        }
    }

    pub(crate) fn add_node(&mut self, spec: NodeSpec, code: NodeDef<S, C>) {
        self.nodes.push(spec);
        self.code.push(code);
    }

    pub(crate) fn change_node(&mut self, name: &str, change: impl FnOnce(&mut NodeSpec)) {
        match Names(&self.nodes).node(&EdgeEnd::from(name), "the target of an option") {
            Ok(node) => change(&mut self.nodes[node]),
            Err(mistake) => self.mistakes.push(mistake),
        }
    }

    pub(crate) fn change_code(&mut self, name: &str, change: impl FnOnce(NodeDef<S, C>) -> NodeDef<S, C>) {
        match Names(&self.nodes).node(&EdgeEnd::from(name), "the target of an option") {
            Ok(node) => self.code[node] = change(self.code[node].clone()),
            Err(mistake) => self.mistakes.push(mistake),
        }
    }

    pub(crate) fn set_inbox(&mut self, name: &str) {
        match self.channels.iter().find(|channel| channel.name == *name) {
            Some(channel) if channel.kind.single_writer() => self.mistakes.push(format!(
                "the inbox `{name}` holds one value, but several messages may arrive at once: give the channel a reducer"
            )),
            Some(_) => self.inbox = Some(name.to_owned()),
            None => {
                let tail = did_you_mean(name, self.channels.iter().map(|channel| &*channel.name));
                self.mistakes.push(format!("the inbox `{name}` is not a channel{tail}"));
            }
        }
    }

    pub(crate) fn check_channels(&mut self, node: &str, channels: &[Text]) {
        for name in channels {
            if !self.channels.iter().any(|channel| channel.name == *name) {
                let tail = did_you_mean(name, self.channels.iter().map(|channel| &*channel.name));
                self.mistakes.push(format!("`{node}` declares writes of `{name}`, which is not a channel{tail}"));
            }
        }
    }

    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|mistake| self.mistakes.push(mistake)).ok()
    }

    fn resolve_gotos(&mut self) {
        if self.lenient {
            self.nodes.iter_mut().for_each(|node| node.goto = Goto::Any);
        }
        for (node, targets) in std::mem::take(&mut self.gotos) {
            let targets: Result<Vec<Target>, String> =
                targets.iter().map(|place| Names(&self.nodes).target(place)).collect();
            if let Some(targets) = self.note(targets) {
                self.change_node(&node, |spec| spec.goto = Goto::Only(targets.into()));
            }
        }
    }

    fn resolve_nodes(&mut self, places: &[EdgeEnd]) -> Vec<usize> {
        let nodes = places.iter().map(|place| Names(&self.nodes).node(place, "a breakpoint")).collect::<Vec<_>>();
        nodes.into_iter().filter_map(|node| self.note(node)).collect()
    }

    pub(crate) fn compile(mut self) -> Result<CompiledGraph<S, C>, BuildError> {
        self.resolve_gotos();
        let (mut edges, mut routes) = (Vec::new(), Vec::new());
        for edge in std::mem::take(&mut self.edges) {
            let edge = edge(&Names(&self.nodes));
            if let Some((edge, route)) = self.note(edge) {
                edges.push(edge);
                routes.extend(route);
            }
        }
        let before = std::mem::take(&mut self.interrupt_before);
        let after = std::mem::take(&mut self.interrupt_after);
        let spec = GraphSpec {
            interrupt_before: self.resolve_nodes(&before).into(),
            interrupt_after: self.resolve_nodes(&after).into(),
            name: self.name.clone().into(),
            doc: self.doc.clone().into(),
            nodes: self.nodes.clone().into(),
            edges: edges.into(),
        };
        // If a node or an edge is missing, the rules about paths would only report consequences of that mistake.
        let whole = self.mistakes.is_empty();
        let findings = hier_spec::check(&spec).into_iter().filter(|finding| whole || !finding.rule.is_about_paths());
        let findings = findings.filter(|finding| self.is_mistake(&spec, finding));
        let findings: Vec<String> = findings.map(|finding| finding.message).collect();
        self.mistakes.extend(findings);
        if !self.mistakes.is_empty() {
            return Err(BuildError { graph: self.name, mistakes: self.mistakes });
        }
        let parts = Parts {
            routes,
            lenient: self.lenient,
            inbox: self.inbox,
            asked: self.asked,
            ..Parts::made(SpecRef::Owned(Arc::new(spec)), self.code, Hooks::default())
        };
        Ok(CompiledGraph::new(parts, self.initial, self.channels))
    }

    fn is_mistake(&self, spec: &GraphSpec, finding: &Finding) -> bool {
        match finding.rule {
            ShapeRule::TwoWriters => finding.sites.iter().any(|site| {
                let SpecSite::Write(node, position) = site else { return false };
                let name = &spec.nodes[*node].writes[*position];
                self.channels.iter().any(|channel| channel.name == *name && channel.kind.single_writer())
            }),
            rule => rule.is_essential() || !self.lenient,
        }
    }
}

pub(crate) fn attach<S, C, T, I, O>(graph: &CompiledGraph<T, C, I, O>) -> (NestedSpec, NodeDef<S, C>)
where
    S: Values,
    C: Send + Sync + 'static,
    T: Values,
{
    let nested = match &graph.inner.spec {
        SpecRef::Owned(spec) => NestedSpec::Owned(spec.clone()),
        SpecRef::Static(spec) => NestedSpec::Owned(Arc::new(GraphSpec::clone(spec))),
    };
    let attached = Attached { graph: graph.inner.clone(), context: Arc::clone, shares: Shares::new() };
    let child = Child::new(attached);
    let runs = child.clone();
    let code = body(move |task: &Task<S, C>| {
        let (runs, task) = (runs.clone(), task.clone());
        Box::pin(async move { runs.run(&task).await })
    });
    (nested, NodeDef::from_body(code, Some(child)))
}
