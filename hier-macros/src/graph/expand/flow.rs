//! Checks the data flow of a graph. The macro knows the shape of the graph, and the compiler knows the types. The rules
//! are in `hier_spec::flow`.

use std::collections::BTreeSet;

use hier_spec::flow::same_step;
use hier_spec::{ArmTarget, EdgeSpec, Goto, Target};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::super::ast::{ArmBody, RouteDecl, Selector};
use super::super::model::GraphModel;
use super::super::text::state_fields;
use super::code;

pub(super) fn constant() -> Ident {
    Ident::new("__HIER_FLOW", Span::call_site())
}

/// Returns [`constant`] with the span of a user's token, where the compiler reports a failed check.
fn constant_at(here: Span) -> Ident {
    Ident::new("__HIER_FLOW", here)
}

pub(super) fn function() -> Ident {
    Ident::new("__hier_channels", Span::call_site())
}

pub(super) fn items(model: &GraphModel, state: &Type, context: &TokenStream) -> TokenStream {
    let (flow, count) = (constant(), model.nodes.len());
    let names = model.spec.nodes.iter().map(|node| &*node.name);
    let nodes = model.nodes.iter().enumerate().map(|(index, node)| {
        if model.is_itself(node) {
            return quote!(__hier::NodeFlow::UNTYPED);
        }
        let facts = code::facts(index);
        let handler = node.options.on_error.as_ref().map(|handler| {
            let handler = code::bound_node(handler);
            quote!(.or({
                const HANDLER: __hier::NodeInfo<#state, #context> = #handler.facts();
                HANDLER.flow()
            }))
        });
        quote!(#facts.flow() #handler)
    });
    let same = same_step(&model.spec);
    let (rows, commanded) = (same.rows(), commanded(model));
    let input = model.input.as_ref().map(|view| quote!(.input(<__hier::ViewClaim<#state, #view>>::CLAIM)));
    let inbox = model.member.inbox.as_ref().map(|channel| {
        let field = crate::state::field_hash(channel);
        quote!(.inbox(#field))
    });
    let hooks = [&model.member.on_entry, &model.member.on_exit].into_iter().flatten();
    let hooks = hooks.map(|_| quote!(.hook(__hier::WriteClaim::UNKNOWN)));
    let read = read_by_routes(model);
    let output = model.output.as_ref().map(|output| quote!(.output(<__hier::ViewClaim<#state, #output>>::CLAIM)));
    let (checks, channels) = (checks(model, state, rows), function());
    quote! {
        const #flow: __hier::FlowFacts<#count> = {
            #[allow(unused_imports)]
            use __hier::NoClaim as _;
            __hier::FlowFacts::<#count>::new::<#state>(
                [#(#names),*],
                [#(#nodes),*],
                &[#(#rows),*],
                &[#(#commanded),*],
            )
            #input #inbox #(#hooks)* #read #output
        };
        fn #channels(node: ::core::primitive::usize) -> __hier::NodeChannels { #flow.channels(node) }
        #checks
    }
}

/// Returns the nodes that commands can reach or that are sent items. The state of such a node may be the payload of a
/// Send.
fn commanded(model: &GraphModel) -> BTreeSet<usize> {
    let targets = model.spec.nodes.iter().flat_map(|node| match &node.goto {
        Goto::Only(targets) => &**targets,
        Goto::Any => &[],
    });
    let commanded = targets.filter_map(|target| match target {
        Target::Node(node) => Some(*node),
        Target::End => None,
    });
    let arms = model.spec.edges.iter().flat_map(|edge| match edge {
        EdgeSpec::Route { arms, .. } => &**arms,
        _ => &[],
    });
    let sent = arms.flat_map(|arm| arm.to.iter()).filter_map(|target| match target {
        ArmTarget::Send(node) => Some(*node),
        ArmTarget::Go(_) => None,
    });
    commanded.chain(sent).collect()
}

/// Generates one constant for each place, so that the compiler reports all mistakes at once. If the caller passes the
/// whole state to the graph, each channel has been written. A node without parallel nodes has no conflicts.
fn checks(model: &GraphModel, state: &Type, rows: &[u64]) -> TokenStream {
    let words = model.nodes.len().div_ceil(64);
    let is_parallel =
        |node: usize| rows.chunks(words.max(1)).nth(node).is_some_and(|row| row.iter().any(|it| *it != 0));
    let nodes = code::nodes(model).filter(|(index, _)| model.input.is_some() || is_parallel(*index));
    let nodes = nodes.map(|(index, node)| {
        let here = code::span(&node.path);
        let flow = constant_at(here);
        quote_spanned!(here=> const _: () = #flow.check(#index);)
    });
    let commanded = commanded(model);
    let graphs = code::nodes(model).filter(|(index, node)| node.tools.is_none() && !commanded.contains(index));
    let graphs = graphs.filter_map(|(index, node)| {
        let (last, here) = (node.path.segments.last()?.ident.unraw().to_string(), code::span(&node.path));
        let mut facts = code::facts(index);
        facts.set_span(here);
        last.starts_with(char::is_uppercase).then(|| quote_spanned!(here=> const _: () = #facts.check_nested(#last);))
    });
    let routes = model.input.as_ref().map(|_| routes(model));
    let output = model.input.as_ref().and(model.output.as_ref()).map(|output| {
        let here = quote!(#output).into_iter().last().map_or_else(Span::call_site, |token| token.span());
        let flow = constant_at(here);
        quote_spanned! {here=>
            const _: () = {
                #[allow(unused_imports)]
                use __hier::NoClaim as _;
                #flow.check_output(<__hier::ViewClaim<#state, #output>>::CLAIM)
            };
        }
    });
    quote!(#(#nodes)* #(#graphs)* #routes #output)
}

fn routes(model: &GraphModel) -> TokenStream {
    let labels = model.spec.edges.iter().filter_map(|edge| match edge {
        EdgeSpec::Route { label, .. } => Some(&**label),
        _ => None,
    });
    let checks = labels.zip(&model.routes).filter_map(|(label, route)| {
        let fields = reads(route).filter(|fields| !fields.is_empty())?;
        let here = route.function.span();
        let flow = constant_at(here);
        Some(quote_spanned!(here=> const _: () = #flow.check_route(#label, [#(#fields),*]);))
    });
    checks.collect()
}

/// Generates the call that declares the fields that the routes read, for the checks of tools.
fn read_by_routes(model: &GraphModel) -> Option<TokenStream> {
    let read: Option<Vec<BTreeSet<u64>>> = model.routes.iter().map(reads).collect();
    let Some(read) = read else { return Some(quote!(.reads_all())) };
    let read: BTreeSet<u64> = read.into_iter().flatten().collect();
    (!read.is_empty()).then(|| quote!(.routes([#(#read),*])))
}

/// Returns the fields of the state that a route names. Returns `None` if the route also uses the state in another way.
fn reads(route: &RouteDecl) -> Option<BTreeSet<u64>> {
    let mut fields = match &route.function {
        Selector::Expression(expression) => state_fields(expression)?,
        Selector::Path(_) | Selector::Closure(_) => return None,
    };
    for arm in &route.arms {
        if let Some(guard) = &arm.guard {
            fields.extend(state_fields(guard)?);
        }
        match &arm.body {
            ArmBody::Decide(inner) => fields.extend(reads(inner)?),
            ArmBody::Go(goals) => {
                for item in goals.iter().filter_map(|goal| goal.item.as_ref()) {
                    fields.extend(state_fields(item)?);
                }
            }
        }
    }
    Some(fields)
}
