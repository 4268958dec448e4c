//! The code of nodes and routes.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Path, Type};

use super::super::ast::{
    ArmBody, CacheOption, NodeDecl, RetryOption, RouteArm, RouteDecl, RouteKind, RouteTarget, Selector,
};
use super::super::model::GraphModel;
use super::local;
use crate::symbol;

/// The constant through which nodes are checked and attached.
pub(in super::super) fn site() -> Ident {
    Ident::new("__HIER_SITE", Span::call_site())
}

/// Returns [`site`] with the span of a user's token.
pub(in super::super) fn site_at(here: Span) -> Ident {
    let mut site = site();
    site.set_span(here);
    site
}

pub(in super::super) fn facts(node: usize) -> Ident {
    format_ident!("__HIER_FACTS_{node}")
}

/// Returns the nodes and their indices. Omits nodes that are the graph itself.
pub(in super::super) fn nodes(model: &GraphModel) -> impl Iterator<Item = (usize, &NodeDecl)> {
    model.nodes.iter().enumerate().filter(|(_, node)| !model.is_itself(node))
}

/// Returns `__HIER_SITE.of(path)` with the span of the name in the path. The code is the same at each use, so that the
/// compiler reports an error of a node once.
pub(in super::super) fn bound_node(path: &Path) -> TokenStream {
    let here = span(path);
    let site = site_at(here);
    quote_spanned!(here=> #site.of(#path))
}

pub(in super::super) fn span(path: &Path) -> Span {
    path.segments.last().map_or_else(Span::call_site, |last| last.ident.span())
}

/// Returns constants and constructors of nodes, and functions of routes. Each is a separate item, because the compile
/// time of a function grows faster than its length.
pub(super) fn items(model: &GraphModel, state: &Type, context: &TokenStream) -> TokenStream {
    let nodes = nodes(model).map(|(index, declared)| {
        let (facts, bound_node, function) =
            (facts(index), bound_node(&declared.path), format_ident!("__hier_node_{index}"));
        // The edge checks that the node takes no item.
        let plain = model.plain[index].map(|edge| quote_spanned!(edge=> .plain()));
        let node = node(declared, &facts);
        let has_graph = declared.options.checkpoints.as_ref().map(|checkpoints| {
            let name = &declared.name;
            let message = format!("`{name}` does not run a graph, so it has no checkpoints: remove `checkpoints`");
            quote_spanned!(checkpoints.span()=> const _: () = __hier::core::assert!(#facts.depth() > 0, #message);)
        });
        // A graph that contains itself through another graph is a cycle of these constants, which the compiler shows at
        // the node.
        let facts = quote_spanned! {span(&declared.path)=>
            const #facts: __hier::NodeInfo<#state, #context> = #bound_node #plain.facts();
        };
        quote! {
            #facts
            #has_graph
            fn #function() -> __hier::NodeDef<#state, #context> { #node }
        }
    });
    let routes = model.routes.iter().enumerate().map(|(index, decision)| {
        let (function, body) = (format_ident!("__hier_route_{index}"), decide(model, decision));
        let (from, to) = (local("__state", Span::call_site()), local("__to", Span::call_site()));
        quote!(fn #function(#from: &#state, #to: &mut __hier::Routing) { #body })
    });
    nodes.chain(routes).collect()
}

/// Returns the body of the function `parts`.
pub(super) fn parts(model: &GraphModel, state: &Type, doubtful: &[Ident]) -> TokenStream {
    let writes = writes(model, state, doubtful);
    let parts = local("__parts", Span::call_site());
    let nodes = nodes(model).map(|(index, _)| format_ident!("__hier_node_{index}"));
    let routes = (0..model.routes.len()).map(|index| format_ident!("__hier_route_{index}"));
    quote! {
        #writes
        let #parts = __hier::Parts::new(Self::SPEC);
        #(let #parts = #parts.node(#nodes());)*
        #(let #parts = #parts.route(#routes);)*
        #parts
    }
}

/// Checks that channels in `writes: […]` exist and are writable, and that channels with two writers in a superstep have
/// a reducer.
fn writes(model: &GraphModel, state: &Type, doubtful: &[Ident]) -> TokenStream {
    let channels = model.nodes.iter().flat_map(|node| &node.options.writes.found);
    let checks = channels.map(|channel| (channel, "writable"));
    let checks = checks.chain(doubtful.iter().map(|channel| (channel, "needs_reducer")));
    let checks = checks.map(|(channel, check)| {
        let check = Ident::new(check, channel.span());
        let here = channel.span();
        quote_spanned! {here=>
            __hier::#check(&<#state as __hier::State>::channels().#channel);
        }
    });
    checks.collect()
}

fn node(node: &NodeDecl, facts: &Ident) -> TokenStream {
    let (call, options) = (call(&node.path), &node.options);
    let durations = [("timeout", &options.timeout), ("idle_timeout", &options.idle_timeout)];
    let durations = durations.into_iter().filter_map(|(option, value)| {
        let (option, value) = (Ident::new(option, Span::call_site()), value.as_ref()?);
        Some(quote!(.#option(#value)))
    });
    let retry = options.retry.as_ref().map(|retry| match retry {
        RetryOption::Times(times) => quote!(.retry(#times)),
        RetryOption::Policy(fields) => {
            let fields = fields.iter().map(|(field, value)| quote!(#field: #value,));
            quote! {
                .retry(__hier::Retry {
                    #(#fields)*
                    ..::core::default::Default::default()
                })
            }
        }
    });
    let on_error = options.on_error.as_ref().map(|handler| {
        let call = self::call(handler);
        quote!(.error_handler(#call))
    });
    let cache = options.cache.as_ref().map(cached);
    let checkpoints = options.checkpoints.as_ref().map(|variant| quote!(.checkpoints(__hier::Checkpoints::#variant)));
    quote!(#facts.node(#call) #retry #(#durations)* #cache #on_error #checkpoints)
}

fn cached(cache: &CacheOption) -> TokenStream {
    let CacheOption { ttl, key } = cache;
    let Some(key) = key else { return quote!(.cache(#ttl)) };
    // Errors of the function are shown at its name.
    let here = match key {
        Expr::Path(path) => span(&path.path),
        other => other.span(),
    };
    let (site, task) = (site_at(here), local("__task", here));
    let key = quote_spanned!(here=> .keyed(|#task| #site.key(#task, #key)));
    quote!(.cache(#ttl) #key)
}

fn call(path: &Path) -> TokenStream {
    let (bound_node, here) = (bound_node(path), span(path));
    let task = local("__task", here);
    quote_spanned!(here=> |#task| #bound_node.call(#task))
}

fn decide(model: &GraphModel, decision: &RouteDecl) -> TokenStream {
    let chosen = selected(decision);
    let arms = decision.arms.iter().map(|arm| (arm, arm_body(model, arm)));
    let body = match decision.shape {
        RouteKind::Match => {
            let arms = arms.map(|(arm, body)| {
                let (pattern, guard) = (&arm.pattern, arm.guard.as_ref().map(|guard| quote!(if #guard)));
                // For a missing arm, the compiler suggests writing it after the last one.
                let end = arm.end;
                quote_spanned!(end=> #pattern #guard => { #body })
            });
            // Without this arm, the compiler would report an arm that could not be parsed as missing.
            let rest = decision.broken.then(|| quote!(#[allow(unreachable_patterns)] _ => {}));
            quote_spanned!(decision.span=> match #chosen { #(#arms)* #rest })
        }
        RouteKind::If => {
            let mut arms = arms.map(|(_, body)| body);
            let (yes, no) = (arms.next(), arms.next());
            let no = no.map(|no| quote!(else { #no }));
            quote_spanned!(decision.span=> if #chosen { #yes } #no)
        }
        RouteKind::For => {
            let arms = arms.map(|(arm, body)| {
                let pattern = &arm.pattern;
                // The parser has reported a node without an item, so the unused pattern is not another mistake.
                let has_items = matches!(&arm.body, ArmBody::Go(goals) if goals.iter().all(|goal| goal.item.is_some()));
                let lint = (!has_items).then(|| quote!(#[allow(unused_variables)]));
                quote_spanned!(decision.span=> #lint for #pattern in #chosen { #body })
            });
            arms.collect()
        }
    };
    // The user's own word binds `state`, so that editors know its type.
    match decision.mentions_state() {
        Some(state) => {
            let from = local("__state", state.span());
            // A pattern of the route may shadow it.
            quote!({ #[allow(unused_variables)] let #state = #from; #body })
        }
        None => body,
    }
}

/// Returns the call of the selector with the span of its name, or the expression.
fn selected(decision: &RouteDecl) -> TokenStream {
    let here = decision.function.span();
    let state = local("__state", here);
    match &decision.function {
        Selector::Path(path) => quote_spanned!(here=> #path(#state)),
        Selector::Closure(closure) => quote_spanned!(here=> __hier::choose(#state, #closure)),
        Selector::Expression(Expr::Let(condition)) => {
            let (pattern, value) = (&condition.pat, owned_value(&condition.expr));
            quote_spanned!(here=> let #pattern = #value)
        }
        // A condition is a `bool`, which needs no clone.
        Selector::Expression(expression) if decision.shape == RouteKind::If => expression.to_token_stream(),
        Selector::Expression(expression) => owned_value(expression),
    }
}

/// Clones a field, so that the arms own the values that they bind.
fn owned_value(expression: &Expr) -> TokenStream {
    if is_field(expression) {
        let here = expression.span();
        return quote_spanned!(here=> __hier::core::clone::Clone::clone(&#expression));
    }
    expression.to_token_stream()
}

/// Returns true for `state.field` and its fields.
fn is_field(expression: &Expr) -> bool {
    match expression {
        Expr::Field(field) => match &*field.base {
            Expr::Path(path) => path.path.is_ident(symbol::STATE_VALUE),
            base => is_field(base),
        },
        _ => false,
    }
}

fn arm_body(model: &GraphModel, arm: &RouteArm) -> TokenStream {
    match &arm.body {
        ArmBody::Decide(inner) => decide(model, inner),
        ArmBody::Go(goals) => goals.iter().filter_map(|target| goal(model, target)).collect(),
    }
}

/// Returns `to.go(2);` or `to.send(1, item);`. Returns `None` for END, and for a target whose error has been reported.
fn goal(model: &GraphModel, goal: &RouteTarget) -> Option<TokenStream> {
    let node = model.index(&goal.name)?;
    let here = goal.name.span();
    let to = local("__to", here);
    let Some(item) = &goal.item else { return Some(quote_spanned!(here=> #to.go(#node);)) };
    let declared = &model.nodes[node];
    let bound_node = (!model.is_itself(declared)).then(|| bound_node(&declared.path))?;
    // Errors of the payload are shown at a variable, because the expression also has the location of the node.
    let payload = Ident::new("__payload", here);
    Some(quote_spanned!(here=> let #payload = #bound_node.sent(#item).fits(); #to.send(#node, #payload);))
}
