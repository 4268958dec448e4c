//! The code of nodes and routes.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Path, Type};

use super::super::ast::{Arm, ArmBody, Cache, Decision, Function, Goal, Node, Retry, Shape};
use super::super::model::Model;
use super::local;
use crate::symbol;

/// The constant through which nodes are checked and attached.
pub(in super::super) fn site() -> Ident {
    Ident::new("__HIER_SITE", Span::call_site())
}

/// The same, shown at a place of the user's.
pub(in super::super) fn site_at(here: Span) -> Ident {
    let mut site = site();
    site.set_span(here);
    site
}

/// The constant with what is known of a node.
pub(super) fn facts(node: usize) -> Ident {
    format_ident!("__HIER_FACTS_{node}")
}

/// The nodes, but for one that is the graph itself, with their indices.
pub(super) fn nodes(model: &Model) -> impl Iterator<Item = (usize, &Node)> {
    model.nodes.iter().enumerate().filter(|(_, node)| !model.is_itself(node))
}

/// The node in its place: `__HIER_SITE.of(path)`. All of it is shown at the name in the path, and wherever it stands it is
/// the same, so that what is wrong with a node is said once.
pub(super) fn spot(path: &Path) -> TokenStream {
    let here = span(path);
    let site = site_at(here);
    quote_spanned!(here=> #site.of(#path))
}

/// The name in the path of a node.
pub(in super::super) fn span(path: &Path) -> Span {
    path.segments.last().map_or_else(Span::call_site, |last| last.ident.span())
}

/// For each node its facts and a function that makes it, for each route a function. Each is an item of its own: the
/// compiler's time for a function grows faster than the function.
pub(super) fn items(model: &Model, state: &Type, context: &TokenStream) -> TokenStream {
    let nodes = nodes(model).map(|(index, declared)| {
        let (facts, spot, function) = (facts(index), spot(&declared.path), format_ident!("__hier_node_{index}"));
        // That an edge without an item reaches the node is checked at that edge.
        let plain = model.plain[index].map(|edge| quote_spanned!(edge=> .plain()));
        let node = node(declared, &facts);
        let has_graph = declared.options.checkpoints.as_ref().map(|checkpoints| {
            let name = &declared.name;
            let message = format!("`{name}` runs no graph, so it has no checkpoints of its own: remove `checkpoints`");
            quote_spanned!(checkpoints.span()=> const _: () = __hier::core::assert!(#facts.depth() > 0, #message);)
        });
        // A graph that contains itself by way of another is a cycle of these, which is shown at the node.
        let facts = quote_spanned! {span(&declared.path)=>
            const #facts: __hier::NodeInfo<#state, #context> = #spot #plain.facts();
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

/// The body of `parts`.
pub(super) fn parts(model: &Model, state: &Type, doubtful: &[Ident]) -> TokenStream {
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

/// The channels that nodes say they write exist, and can be written; those with two writers in a step have a reducer.
fn writes(model: &Model, state: &Type, doubtful: &[Ident]) -> TokenStream {
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

/// `NodeDef::new(…)` with the node's options.
fn node(node: &Node, facts: &Ident) -> TokenStream {
    let (call, options) = (call(&node.path), &node.options);
    let durations = [("timeout", &options.timeout), ("idle_timeout", &options.idle_timeout)];
    let durations = durations.into_iter().filter_map(|(option, value)| {
        let (option, value) = (Ident::new(option, Span::call_site()), value.as_ref()?);
        Some(quote!(.#option(#value)))
    });
    let retry = options.retry.as_ref().map(|retry| match retry {
        Retry::Times(times) => quote!(.retry(#times)),
        Retry::Policy(fields) => {
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
    quote!(__hier::NodeDef::new(#call, #facts.child()).reads(#facts.reads())#retry #(#durations)* #cache #on_error #checkpoints)
}

/// How long the result is used again, and for which inputs.
fn cached(cache: &Cache) -> TokenStream {
    let Cache { ttl, key } = cache;
    let Some(key) = key else { return quote!(.cache(#ttl)) };
    // What is wrong with the function is shown at its name.
    let here = match key {
        Expr::Path(path) => span(&path.path),
        other => other.span(),
    };
    let (site, task) = (site_at(here), local("__task", here));
    let key = quote_spanned!(here=> .keyed(|#task| #site.key(#task, #key)));
    quote!(.cache(#ttl) #key)
}

/// `|task| __HIER_SITE.of(path).call(task)`
fn call(path: &Path) -> TokenStream {
    let (spot, here) = (spot(path), span(path));
    let task = local("__task", here);
    quote_spanned!(here=> |#task| #spot.call(#task))
}

/// `match verdict(state) { … }`
fn decide(model: &Model, decision: &Decision) -> TokenStream {
    let chosen = choice(decision);
    let arms = decision.arms.iter().map(|arm| (arm, arm_body(model, arm)));
    let body = match decision.shape {
        Shape::Match => {
            let arms = arms.map(|(arm, body)| {
                let (pattern, guard) = (&arm.pattern, arm.guard.as_ref().map(|guard| quote!(if #guard)));
                quote!(#pattern #guard => { #body })
            });
            // A missing arm is not missed where it could only not be parsed.
            let rest = decision.broken.then(|| quote!(#[allow(unreachable_patterns)] _ => {}));
            quote_spanned!(decision.span=> match #chosen { #(#arms)* #rest })
        }
        Shape::If => {
            let mut arms = arms.map(|(_, body)| body);
            let (yes, no) = (arms.next(), arms.next());
            let no = no.map(|no| quote!(else { #no }));
            quote_spanned!(decision.span=> if #chosen { #yes } #no)
        }
        Shape::For => {
            let arms = arms.map(|(arm, body)| {
                let pattern = &arm.pattern;
                quote_spanned!(decision.span=> for #pattern in #chosen { #body })
            });
            arms.collect()
        }
    };
    // What the user calls `state` is bound by a word of the user's own, so that editors know what it is.
    match decision.mentions_state() {
        Some(state) => {
            let from = local("__state", state.span());
            // A pattern of the route may hide it.
            quote!({ #[allow(unused_variables)] let #state = #from; #body })
        }
        None => body,
    }
}

/// The function, called with the state, all of it shown at the function's name; or the expression.
fn choice(decision: &Decision) -> TokenStream {
    let here = decision.function.span();
    let state = local("__state", here);
    match &decision.function {
        Function::Path(path) => quote_spanned!(here=> #path(#state)),
        Function::Closure(closure) => quote_spanned!(here=> __hier::choose(#state, #closure)),
        Function::Expression(Expr::Let(condition)) => {
            let (pattern, value) = (&condition.pat, own(&condition.expr));
            quote_spanned!(here=> let #pattern = #value)
        }
        // A condition is a `bool`, which needs no clone.
        Function::Expression(expression) if decision.shape == Shape::If => expression.to_token_stream(),
        Function::Expression(expression) => own(expression),
    }
}

/// The expression. A field alone is cloned: what is bound to it, or is in it, is the route's own.
fn own(expression: &Expr) -> TokenStream {
    if is_field(expression) {
        let here = expression.span();
        return quote_spanned!(here=> __hier::core::clone::Clone::clone(&#expression));
    }
    expression.to_token_stream()
}

/// Whether it is `state.field`, or a field of one.
fn is_field(expression: &Expr) -> bool {
    match expression {
        Expr::Field(field) => match &*field.base {
            Expr::Path(path) => path.path.is_ident(symbol::STATE_VALUE),
            base => is_field(base),
        },
        _ => false,
    }
}

fn arm_body(model: &Model, arm: &Arm) -> TokenStream {
    match &arm.body {
        ArmBody::Decide(inner) => decide(model, inner),
        ArmBody::Go(goals) => goals.iter().filter_map(|target| goal(model, target)).collect(),
    }
}

/// `to.go(2);` or `to.send(1, item);`. None for END, and for a target that is reported already.
fn goal(model: &Model, goal: &Goal) -> Option<TokenStream> {
    let node = model.index(&goal.name)?;
    let here = goal.name.span();
    let to = local("__to", here);
    let Some(item) = &goal.item else { return Some(quote_spanned!(here=> #to.go(#node);)) };
    let declared = &model.nodes[node];
    let spot = (!model.is_itself(declared)).then(|| spot(&declared.path))?;
    Some(quote_spanned!(here=> #to.send(#node, #spot.sent(#item).fits());))
}
