//! The graph with resolved names: a [`GraphSpec`], and the location of each of its parts in the user's code.

mod routes;

use std::borrow::Cow;

use hier_spec::{EdgeSpec, Goto, GraphSpec, NodeSpec, Source, SpecSite, Target};
use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::{Ident, LitStr, Type};

use super::agent::shape;
use super::ast::agent::{AgentFields, MembershipFields};
use super::ast::{
    AskedQuestion, Ast, ChainLink, EdgeChain, GraphFields, GraphHead, NodeDecl, ParsedList, RouteDecl, TrustFields,
};
use super::text::snake_case;
use crate::crate_path::Hier;
use crate::diag::{Errors, local};
use crate::docs::Docs;
use crate::symbol;

pub(super) struct GraphModel {
    pub(super) hier: TokenStream,
    /// True if the plumbing module has agents and tools.
    pub(super) agents: bool,
    pub(super) head: GraphHead,
    /// The graph as data, without its documentation.
    pub(super) spec: GraphSpec,
    pub(super) docs: Docs,
    /// The nodes, in the order of the spec.
    pub(super) nodes: Vec<NodeDecl>,
    /// The routes, in the order of the route edges of the spec.
    pub(super) routes: Vec<RouteDecl>,
    /// For each node, the span of a plain edge that leads to it.
    pub(super) plain: Vec<Option<Span>>,
    pub(super) input: Option<Type>,
    pub(super) trust: TrustFields,
    pub(super) output: Option<Type>,
    pub(super) member: MembershipFields,
    pub(super) asks: Option<ParsedList<AskedQuestion>>,
    pub(super) agent: Option<AgentFields>,
    sites: Vec<(SpecSite, Span)>,
    /// True if an edge or a node is missing because of an error that has been reported.
    pub(super) holes: bool,
    /// True if the graph satisfies all rules of its shape.
    pub(super) is_sound: bool,
}

/// Associated items of every graph. A node of the same name would hide the item.
pub(super) const GRAPH_ITEMS: &[&str] = &["compile", "compile_as_root", "parts", "NAME", "SPEC", "DEPTH", "QUESTIONS"];

pub(super) fn model(ast: Ast, hier: &Hier, errors: &mut Errors) -> GraphModel {
    let Ast { head, body } = ast;
    let GraphFields {
        nodes,
        edges,
        compute,
        input,
        trust,
        output,
        before,
        after,
        name,
        description,
        home,
        member,
        asks,
        agent,
        shapeless,
    } = body;
    let edges = match &compute {
        Some(node) => ParsedList { found: single(&node.name), ..ParsedList::default() },
        None => edges,
    };
    let holes = shapeless || nodes.broken || edges.broken;
    let mut spec = empty_spec(&head, name.as_ref());
    let docs = description.map_or_else(|| Docs::read(&head.attributes), |text| Docs::Text(text.value()));
    if let Some(agent) = &agent {
        let GraphSpec { nodes, edges, .. } = shape::shape(agent);
        (spec.nodes, spec.edges) = (nodes, edges);
    }
    let needs_model = agent.is_some() || nodes.found.iter().any(|node| node.tools.is_some());
    let with_agents = if needs_model { hier.with_agents(home.as_ref(), errors) } else { None };
    let mut model = GraphModel {
        agents: with_agents.is_some() || hier.has_agents(home.as_ref()),
        hier: with_agents.unwrap_or_else(|| hier.path(home.as_ref(), errors)),
        head,
        spec,
        docs,
        nodes: Vec::new(),
        routes: Vec::new(),
        plain: Vec::new(),
        input,
        trust,
        output,
        member,
        asks,
        agent,
        sites: Vec::new(),
        holes,
        is_sound: false,
    };
    if let Some(name) = &name {
        model.put(SpecSite::Name, name.span());
    }
    for node in nodes.found.into_iter().chain(compute) {
        model.node(node, errors);
    }
    // The edges may refer to a node whose declaration could not be parsed.
    let mut names = NameScope { lost: &nodes.lost, all_lost: shapeless, unknown: Vec::new() };
    model.gotos(&mut names, errors);
    for chain in edges.found {
        model.chain(chain, &mut names, errors);
    }
    model.spec.interrupt_before = Cow::Owned(model.breakpoints(&before, SpecSite::Before, &mut names));
    model.spec.interrupt_after = Cow::Owned(model.breakpoints(&after, SpecSite::After, &mut names));
    model.unknown(&names, errors);
    model
}

fn single(node: &Ident) -> Vec<EdgeChain> {
    let word = |word| ChainLink::One(Ident::new(word, node.span()));
    vec![EdgeChain(vec![word(symbol::START), ChainLink::One(node.clone()), word(symbol::END)])]
}

/// Names without a declaration. The macro does not report `lost` names, whose declaration could not be parsed.
pub(super) struct NameScope<'a> {
    lost: &'a [Ident],
    all_lost: bool,
    /// Unknown names, each with the number of its mentions.
    unknown: Vec<(Ident, usize)>,
}

impl GraphModel {
    pub(super) fn span(&self, site: SpecSite) -> Span {
        let found = self.sites.iter().find(|(other, _)| *other == site);
        found.map_or_else(|| self.head.name.span(), |(_, span)| *span)
    }

    pub(super) fn index(&self, name: &Ident) -> Option<usize> {
        self.spec.node(&name.unraw().to_string())
    }

    pub(super) fn put(&mut self, site: SpecSite, span: Span) {
        self.sites.push((site, span));
    }

    fn node(&mut self, mut node: NodeDecl, errors: &mut Errors) {
        if node.tools.is_some() {
            let here = node.path.segments.last().map_or_else(Span::call_site, |word| word.ident.span());
            node.path = local(&format!("__HierTools{}", self.nodes.len()), here).into();
        }
        let name = node.name.unraw().to_string();
        if let Some(first) = self.spec.node(&name) {
            let message = format!("the node `{name}` is given twice: rename one, `other = {name}`");
            errors.push(&node.name, message);
            errors.push(&self.nodes[first].name, format!("… also here: the node `{name}` is given twice"));
            return;
        }
        if [symbol::START, symbol::END].contains(&&*name) {
            errors.push(&node.name, format!("every graph has `{name}` already: remove it"));
            return;
        }
        if GRAPH_ITEMS.contains(&&*name) {
            let message = format!("every graph has an item `{name}`: rename the node, `other = {name}`");
            errors.push(&node.name, message);
        }
        if self.is_itself(&node) {
            errors.push(&node.path, format!("`{}` cannot contain itself: its runs would never end", self.head.name));
        }
        let index = self.nodes.len();
        self.put(SpecSite::Node(index), node.name.span());
        let writes = node.options.writes.found.clone();
        for (position, channel) in writes.iter().enumerate() {
            self.put(SpecSite::Write(index, position), channel.span());
        }
        self.spec.nodes.to_mut().push(NodeSpec {
            name: Cow::Owned(name),
            defer: node.options.defer,
            goto: Goto::Only(Cow::Borrowed(&[])),
            writes: Cow::Owned(writes.iter().map(|channel| Cow::Owned(channel.unraw().to_string())).collect()),
            nested: None,
            per_thread: node.options.checkpoints.as_ref().is_some_and(|variant| variant == symbol::PER_THREAD),
            flow: None,
            layers: Cow::Borrowed(&[]),
        });
        self.plain.push(None);
        self.nodes.push(node);
    }

    pub(super) fn is_itself(&self, node: &NodeDecl) -> bool {
        node.path.get_ident().is_some_and(|path| *path == self.head.name || path == "Self")
    }

    fn gotos(&mut self, names: &mut NameScope<'_>, errors: &mut Errors) {
        for index in 0..self.nodes.len() {
            let goto = self.nodes[index].options.goto.found.clone();
            self.holes |= self.nodes[index].options.goto.broken;
            let mut targets = Vec::new();
            for name in &goto {
                let Some(target) = self.target(name, names, errors) else { continue };
                self.put(SpecSite::Goto(index, targets.len()), name.span());
                targets.push(target);
            }
            self.spec.nodes.to_mut()[index].goto = Goto::Only(Cow::Owned(targets));
        }
    }

    fn breakpoints(
        &mut self,
        list: &ParsedList<Ident>,
        site: fn(usize) -> SpecSite,
        names: &mut NameScope<'_>,
    ) -> Vec<usize> {
        let mut nodes = Vec::new();
        for name in &list.found {
            if let Some(node) = self.known(name, names) {
                self.put(site(nodes.len()), name.span());
                nodes.push(node);
            }
        }
        nodes
    }

    /// Reports each unknown name once, at its first mention.
    fn unknown(&self, names: &NameScope<'_>, errors: &mut Errors) {
        for (name, count) in &names.unknown {
            let text = name.unraw().to_string();
            let bare = text.trim_matches('_'); // other frameworks write `__start__`
            let end = [symbol::START, symbol::END].into_iter().find(|end| end.eq_ignore_ascii_case(bare));
            let message = match end {
                Some(end) if *bare == text => format!("there is no node `{text}`: write `{end}` in capitals"),
                Some(end) => format!("there is no node `{text}`: write `{end}`"),
                None => self.spec.unknown_node(&text),
            };
            match count {
                1 => errors.push(name, message),
                2 => errors.push(name, format!("{message} (it is named in one more place)")),
                more => errors.push(name, format!("{message} (it is named in {} more places)", more - 1)),
            }
        }
    }

    /// Returns the index of a node. Records an unknown name.
    fn known(&mut self, name: &Ident, names: &mut NameScope<'_>) -> Option<usize> {
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

    pub(super) fn target(&mut self, name: &Ident, names: &mut NameScope<'_>, errors: &mut Errors) -> Option<Target> {
        if name == symbol::END {
            return Some(Target::End);
        }
        if name == symbol::START {
            errors.push(name, "an edge cannot lead to START: write the first node instead");
            self.holes = true;
            return None;
        }
        self.known(name, names).map(Target::Node)
    }

    fn source(&mut self, name: &Ident, names: &mut NameScope<'_>, errors: &mut Errors) -> Option<Source> {
        if name == symbol::START {
            return Some(Source::Start);
        }
        if name == symbol::END {
            errors.push(name, "an edge cannot leave END, where a run ends: remove what follows");
            self.holes = true;
            return None;
        }
        self.known(name, names).map(Source::Node)
    }

    pub(super) fn reached(&mut self, target: Target, span: Span) {
        if let Target::Node(node) = target {
            self.plain[node].get_or_insert(span);
        }
    }

    fn chain(&mut self, chain: EdgeChain, names: &mut NameScope<'_>, errors: &mut Errors) {
        let mut links = chain.0.into_iter().peekable();
        let Some(mut left) = links.next() else { return };
        if let ChainLink::Choice(decision) = &left {
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
                ChainLink::Choice(decision) => {
                    if let Some(after) = links.next() {
                        let one = decision.shape.with_article();
                        let message =
                            format!("nothing can follow {one} in a chain: write the next edge on a separate line");
                        errors.at(after.span(), message);
                        self.holes = true;
                    }
                    return routes::route(self, from.as_deref(), decision, names, errors);
                }
                ChainLink::One(ref name) => self.edges(from.as_deref(), std::slice::from_ref(name), names, errors),
                ChainLink::Many(ref targets, _) => self.edges(from.as_deref(), targets, names, errors),
            }
            left = right;
            first = false;
        }
    }

    /// Resolves the sources of an edge, which is a join if there are several. Returns `None` after an error. The parser
    /// has already resolved and reported names that were targets earlier in the chain.
    fn sources(
        &mut self,
        link: &ChainLink,
        first: bool,
        names: &mut NameScope<'_>,
        errors: &mut Errors,
    ) -> Option<Vec<(Source, Span)>> {
        let idents = match link {
            ChainLink::One(name) => std::slice::from_ref(name),
            ChainLink::Many(nodes, _) => nodes.as_slice(),
            ChainLink::Choice(_) => return None,
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
                errors.push(name, "START cannot be part of a join: write its edge on a separate line");
                self.holes = true;
                continue;
            }
            sources.push((source?, name.span()));
        }
        (sources.len() == idents.len()).then_some(sources)
    }

    fn edges(
        &mut self,
        from: Option<&[(Source, Span)]>,
        targets: &[Ident],
        names: &mut NameScope<'_>,
        errors: &mut Errors,
    ) {
        for name in targets {
            let (Some(to), Some(from)) = (self.target(name, names, errors), from) else { continue };
            self.reached(to, name.span());
            let edge = self.spec.edges.len();
            self.put(SpecSite::Edge(edge), name.span());
            self.spec.edges.to_mut().push(match from {
                [(from, _)] => EdgeSpec::Plain { from: *from, to },
                several => {
                    let nodes = several.iter().enumerate().filter_map(|(position, (source, span))| match source {
                        Source::Start => None,
                        Source::Node(node) => {
                            self.sites.push((SpecSite::JoinSource(edge, position), *span));
                            Some(*node)
                        }
                    });
                    EdgeSpec::Join { from: nodes.collect(), to }
                }
            });
        }
    }
}

fn empty_spec(head: &GraphHead, name: Option<&LitStr>) -> GraphSpec {
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
