//! The graph with its names resolved: a [`GraphSpec`], and for every part of it the place in the user's text.

use std::borrow::Cow;

use hier_spec::{EdgeSpec, Goto, GraphSpec, NodeSpec, Site, Source, Target};
use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::{Ident, LitStr, Type};

use super::agent::ast::{Agent, Membership};
use super::agent::shape;
use super::ast::{Ast, Body, Chain, Decision, Head, Items, Link, Node};
use super::routes;
use super::text::snake_case;
use crate::crate_path::Hier;
use crate::diag::{Errors, local};
use crate::docs::Docs;
use crate::symbol;

/// A graph as it was understood.
pub(super) struct Model {
    /// Where generated code finds what it needs.
    pub(super) hier: TokenStream,
    /// True if that place has agents and tools.
    pub(super) agents: bool,
    pub(super) head: Head,
    /// The graph as data, without its documentation.
    pub(super) spec: GraphSpec,
    pub(super) docs: Docs,
    /// The nodes, in the order of the spec.
    pub(super) nodes: Vec<Node>,
    /// The routes, in the order of the route edges of the spec.
    pub(super) routes: Vec<Decision>,
    /// For each node, where an edge that carries nothing leads to it.
    pub(super) plain: Vec<Option<Span>>,
    pub(super) input: Option<Type>,
    pub(super) output: Option<Type>,
    /// The options of the graph as a subagent.
    pub(super) member: Membership,
    /// Of the kinds that ask a model.
    pub(super) agent: Option<Agent>,
    sites: Vec<(Site, Span)>,
    /// Whether an edge or a node is missing because of a mistake that is reported already.
    pub(super) holes: bool,
}

/// What every graph has, so that a node of this name would hide it.
const GRAPH_ITEMS: &[&str] = &["compile", "compile_as_root", "parts", "NAME", "SPEC", "DEPTH"];

/// Resolves the names.
pub(super) fn model(ast: Ast, hier: &Hier, errors: &mut Errors) -> Model {
    let Ast { head, body } = ast;
    let Body { nodes, edges, compute, input, output, before, after, name, description, home, member, agent, shapeless } =
        body;
    let edges = match &compute {
        Some(node) => Items { found: single(&node.name), ..Items::default() },
        None => edges,
    };
    let holes = shapeless || nodes.broken || edges.broken;
    let mut spec = empty_spec(&head, name.as_ref());
    let docs = description.map_or_else(|| Docs::read(&head.attributes), |text| Docs::Text(text.value()));
    if let Some(agent) = &agent {
        let GraphSpec { nodes, edges, .. } = shape::shape(agent);
        (spec.nodes, spec.edges) = (nodes, edges);
    }
    let asks = agent.is_some() || nodes.found.iter().any(|node| node.tools.is_some());
    let with_agents = if asks { hier.with_agents(home.as_ref(), errors) } else { None };
    let mut model = Model {
        agents: with_agents.is_some() || hier.has_agents(home.as_ref()),
        hier: with_agents.unwrap_or_else(|| hier.path(home.as_ref(), errors)),
        head,
        spec,
        docs,
        nodes: Vec::new(),
        routes: Vec::new(),
        plain: Vec::new(),
        input,
        output,
        member,
        agent,
        sites: Vec::new(),
        holes,
    };
    if let Some(name) = &name {
        model.put(Site::Name, name.span());
    }
    for node in nodes.found.into_iter().chain(compute) {
        model.node(node, errors);
    }
    // What stands in a broken list of nodes may be meant by the edges.
    let mut names = Names { lost: &nodes.lost, all_lost: shapeless, unknown: Vec::new() };
    model.gotos(&mut names, errors);
    for chain in edges.found {
        model.chain(chain, &mut names, errors);
    }
    model.spec.interrupt_before = Cow::Owned(model.breakpoints(&before, Site::Before, &mut names));
    model.spec.interrupt_after = Cow::Owned(model.breakpoints(&after, Site::After, &mut names));
    model.unknown(&names, errors);
    model
}

/// The edges of a `SimpleGraph`.
fn single(node: &Ident) -> Vec<Chain> {
    let word = |word| Link::One(Ident::new(word, node.span()));
    vec![Chain(vec![word(symbol::START), Link::One(node.clone()), word(symbol::END)])]
}

/// Names that could not be parsed where they are declared; not knowing them is no mistake of its own.
pub(super) struct Names<'a> {
    lost: &'a [Ident],
    all_lost: bool,
    /// Names of no node, each with how often it is mentioned.
    unknown: Vec<(Ident, usize)>,
}

impl Model {
    /// The place of a part of the spec.
    pub(super) fn span(&self, site: Site) -> Span {
        let found = self.sites.iter().find(|(other, _)| *other == site);
        found.map_or_else(|| self.head.name.span(), |(_, span)| *span)
    }

    /// The index of a node.
    pub(super) fn index(&self, name: &Ident) -> Option<usize> {
        self.spec.node(&name.unraw().to_string())
    }

    pub(super) fn put(&mut self, site: Site, span: Span) {
        self.sites.push((site, span));
    }

    fn node(&mut self, mut node: Node, errors: &mut Errors) {
        if node.tools.is_some() {
            let here = node.path.segments.last().map_or_else(Span::call_site, |word| word.ident.span());
            node.path = local(&format!("__HierTools{}", self.nodes.len()), here).into();
        }
        let name = node.name.unraw().to_string();
        if let Some(first) = self.spec.node(&name) {
            let message = format!("the node `{name}` is given twice: give one another name, `other = {name}`");
            errors.push(&node.name, message);
            errors.push(&self.nodes[first].name, format!("… also here: the node `{name}` is given twice"));
            return;
        }
        if [symbol::START, symbol::END].contains(&&*name) {
            errors.push(&node.name, format!("`{name}` is part of every graph and no node of its own: remove it"));
            return;
        }
        if GRAPH_ITEMS.contains(&&*name) {
            let message =
                format!("every graph has a `{name}` of its own: give the node another name, `other = {name}`");
            errors.push(&node.name, message);
        }
        if self.is_itself(&node) {
            errors.push(&node.path, format!("`{}` cannot contain itself: no run of it would ever end", self.head.name));
        }
        let index = self.nodes.len();
        self.put(Site::Node(index), node.name.span());
        let writes = node.options.writes.found.clone();
        for (position, channel) in writes.iter().enumerate() {
            self.put(Site::Write(index, position), channel.span());
        }
        self.spec.nodes.to_mut().push(NodeSpec {
            name: Cow::Owned(name),
            defer: node.options.defer,
            goto: Goto::Only(Cow::Borrowed(&[])),
            writes: Cow::Owned(writes.iter().map(|channel| Cow::Owned(channel.unraw().to_string())).collect()),
            nested: None,
            per_thread: node.options.checkpoints.as_ref().is_some_and(|variant| variant == symbol::PER_THREAD),
            layers: Cow::Borrowed(&[]),
        });
        self.plain.push(None);
        self.nodes.push(node);
    }

    /// Whether the node is this graph.
    pub(super) fn is_itself(&self, node: &Node) -> bool {
        node.path.get_ident().is_some_and(|path| *path == self.head.name || path == "Self")
    }

    fn gotos(&mut self, names: &mut Names<'_>, errors: &mut Errors) {
        for index in 0..self.nodes.len() {
            let goto = self.nodes[index].options.goto.found.clone();
            self.holes |= self.nodes[index].options.goto.broken;
            let mut targets = Vec::new();
            for name in &goto {
                let Some(target) = self.target(name, names, errors) else { continue };
                self.put(Site::Goto(index, targets.len()), name.span());
                targets.push(target);
            }
            self.spec.nodes.to_mut()[index].goto = Goto::Only(Cow::Owned(targets));
        }
    }

    fn breakpoints(&mut self, list: &Items<Ident>, site: fn(usize) -> Site, names: &mut Names<'_>) -> Vec<usize> {
        let mut nodes = Vec::new();
        for name in &list.found {
            if let Some(node) = self.known(name, names) {
                self.put(site(nodes.len()), name.span());
                nodes.push(node);
            }
        }
        nodes
    }

    /// Reports each name of no node once, where it is mentioned first.
    fn unknown(&self, names: &Names<'_>, errors: &mut Errors) {
        for (name, count) in &names.unknown {
            let message = self.spec.unknown_node(&name.unraw().to_string());
            match count {
                1 => errors.push(name, message),
                2 => errors.push(name, format!("{message} (it is named in one more place)")),
                more => errors.push(name, format!("{message} (it is named in {} more places)", more - 1)),
            }
        }
    }

    /// The node of this name; that there is none will be reported.
    fn known(&mut self, name: &Ident, names: &mut Names<'_>) -> Option<usize> {
        let node = self.index(name);
        if node.is_none() {
            self.holes = true;
            if let Some((_, count)) = names.unknown.iter_mut().find(|(other, _)| other == name) {
                *count += 1;
            } else if !names.all_lost && !names.lost.contains(name) {
                names.unknown.push((name.clone(), 1));
            }
        }
        node
    }

    /// Where an edge leads.
    pub(super) fn target(&mut self, name: &Ident, names: &mut Names<'_>, errors: &mut Errors) -> Option<Target> {
        if name == symbol::END {
            return Some(Target::End);
        }
        if name == symbol::START {
            errors.push(name, "no edge leads into START: lead it to the first node instead");
            self.holes = true;
            return None;
        }
        self.known(name, names).map(Target::Node)
    }

    /// Where an edge starts.
    fn source(&mut self, name: &Ident, names: &mut Names<'_>, errors: &mut Errors) -> Option<Source> {
        if name == symbol::START {
            return Some(Source::Start);
        }
        if name == symbol::END {
            errors.push(name, "no edge leaves END: a run is over there; remove what follows");
            self.holes = true;
            return None;
        }
        self.known(name, names).map(Source::Node)
    }

    /// The node is reached by an edge that carries nothing.
    pub(super) fn reached(&mut self, target: Target, span: Span) {
        if let Target::Node(node) = target {
            self.plain[node].get_or_insert(span);
        }
    }

    fn chain(&mut self, chain: Chain, names: &mut Names<'_>, errors: &mut Errors) {
        let mut links = chain.0.into_iter().peekable();
        let Some(mut left) = links.next() else { return };
        if let Link::Choice(decision) = &left {
            let word = decision.shape.word();
            errors.at(decision.span, format!("this `{word}` needs a node before it: `START >> {word} …`"));
            self.holes = true;
            return;
        }
        if links.peek().is_none() {
            errors.at(left.span(), "an edge leads from a node to a target: write `a >> b`");
            self.holes = true;
            return;
        }
        let mut first = true;
        while let Some(right) = links.next() {
            let from = self.sources(&left, first, names, errors);
            match right {
                Link::Choice(decision) => {
                    if let Some(after) = links.next() {
                        let one = decision.shape.one();
                        let message =
                            format!("nothing can follow {one} in its chain: give the next edge a line of its own");
                        errors.at(after.span(), message);
                        self.holes = true;
                    }
                    return routes::route(self, from.as_deref(), decision, names, errors);
                }
                Link::One(ref name) => self.edges(from.as_deref(), std::slice::from_ref(name), names, errors),
                Link::Many(ref targets, _) => self.edges(from.as_deref(), targets, names, errors),
            }
            left = right;
            first = false;
        }
    }

    /// The sources of an edge: several are a join. None if one is wrong. Names that were targets in their chain were
    /// resolved, and reported, as such.
    fn sources(
        &mut self,
        link: &Link,
        first: bool,
        names: &mut Names<'_>,
        errors: &mut Errors,
    ) -> Option<Vec<(Source, Span)>> {
        let idents = match link {
            Link::One(name) => std::slice::from_ref(name),
            Link::Many(nodes, _) => nodes.as_slice(),
            Link::Choice(_) => return None,
        };
        let mut sources = Vec::new();
        for name in idents {
            let source = if first || name == symbol::END {
                self.source(name, names, errors)
            } else if name == symbol::START {
                None
            } else {
                self.index(name).map(Source::Node)
            };
            if source == Some(Source::Start) && idents.len() > 1 {
                errors.push(name, "START cannot be part of a join: give its edge a line of its own");
                self.holes = true;
                continue;
            }
            sources.push((source?, name.span()));
        }
        (sources.len() == idents.len()).then_some(sources)
    }

    /// The edges from the sources, together, to each of the targets.
    fn edges(
        &mut self,
        from: Option<&[(Source, Span)]>,
        targets: &[Ident],
        names: &mut Names<'_>,
        errors: &mut Errors,
    ) {
        for name in targets {
            let (Some(to), Some(from)) = (self.target(name, names, errors), from) else { continue };
            self.reached(to, name.span());
            let edge = self.spec.edges.len();
            self.put(Site::Edge(edge), name.span());
            self.spec.edges.to_mut().push(match from {
                [(from, _)] => EdgeSpec::Plain { from: *from, to },
                several => {
                    let nodes = several.iter().enumerate().filter_map(|(position, (source, span))| match source {
                        Source::Start => None,
                        Source::Node(node) => {
                            self.sites.push((Site::JoinSource(edge, position), *span));
                            Some(*node)
                        }
                    });
                    EdgeSpec::Join { from: nodes.collect(), to }
                }
            });
        }
    }
}

fn empty_spec(head: &Head, name: Option<&LitStr>) -> GraphSpec {
    let text = name.map_or_else(|| snake_case(&head.name.unraw().to_string()), LitStr::value);
    GraphSpec {
        name: Cow::Owned(text),
        doc: Cow::Borrowed(""),
        nodes: Cow::Owned(Vec::new()),
        edges: Cow::Owned(Vec::new()),
        interrupt_before: Cow::Owned(Vec::new()),
        interrupt_after: Cow::Owned(Vec::new()),
    }
}
