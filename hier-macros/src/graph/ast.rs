//! The syntax tree of a `graph!`: no name is resolved yet.

use super::agent::ast::{Agent, Membership};
use super::text::the_state;
use crate::symbol;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Expr, ExprClosure, Ident, LitStr, Pat, Path, Type, Visibility};

/// `/// docs`, `pub Review<Filing, Desk>`.
pub(super) struct Head {
    pub(super) attributes: Vec<Attribute>,
    pub(super) visibility: Visibility,
    pub(super) name: Ident,
    /// Missing only if it could not be parsed.
    pub(super) state: Option<Type>,
    pub(super) context: Option<Type>,
}

/// A whole call.
pub(super) struct Ast {
    pub(super) head: Head,
    pub(super) body: Body,
}

/// The fields of a graph, of whatever kind.
#[derive(Default)]
pub(super) struct Body {
    pub(super) nodes: Items<Node>,
    pub(super) edges: Items<Chain>,
    /// The one node of a `SimpleGraph`.
    pub(super) compute: Option<Node>,
    pub(super) input: Option<Type>,
    pub(super) output: Option<Type>,
    pub(super) before: Items<Ident>,
    pub(super) after: Items<Ident>,
    pub(super) name: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    /// The path of the crate, if it is given.
    pub(super) home: Option<Path>,
    /// The options of the graph as a subagent.
    pub(super) member: Membership,
    /// Of the kinds that ask a model.
    pub(super) agent: Option<Agent>,
    /// Whether something that cannot be said of nodes and edges could not be parsed, so that nothing is known of the
    /// graph's shape.
    pub(super) shapeless: bool,
}

/// The items of a list. Those that could not be parsed are reported already.
pub(super) struct Items<T> {
    pub(super) found: Vec<T>,
    /// The words in what could not be parsed.
    pub(super) lost: Vec<Ident>,
    /// Whether something could not be parsed.
    pub(super) broken: bool,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { found: Vec::new(), lost: Vec::new(), broken: false }
    }
}

/// `name = path { options }`.
pub(super) struct Node {
    pub(super) name: Ident,
    /// Of a node that calls tools: that of the graph which is made for it.
    pub(super) path: Path,
    /// `tools![lookup, refund]`: what it calls.
    pub(super) tools: Option<(Vec<Path>, Vec<ExprClosure>)>,
    pub(super) options: Options,
}

/// The options of a node.
#[derive(Default)]
pub(super) struct Options {
    pub(super) retry: Option<Retry>,
    pub(super) timeout: Option<Length>,
    pub(super) idle_timeout: Option<Length>,
    pub(super) cache: Option<Cache>,
    pub(super) defer: bool,
    pub(super) on_error: Option<Path>,
    pub(super) writes: Items<Ident>,
    pub(super) goto: Items<Ident>,
    /// A variant of `Checkpoints`, shown where it was given by its word.
    pub(super) checkpoints: Option<Ident>,
    /// Of a node that calls tools: what becomes of one that fails, with the word.
    pub(super) tool_errors: Option<(Ident, Expr)>,
}

/// How often and when a node is tried again.
pub(super) enum Retry {
    /// `retry: 3`, or any expression.
    Times(Expr),
    /// `retry: Retry { … }`: values by the names of their fields.
    Policy(Vec<(Ident, TokenStream)>),
}

/// How long a node's result is used again, and what tells two inputs apart: a function, unless it is what the node reads.
pub(super) struct Cache {
    pub(super) ttl: Length,
    pub(super) key: Option<Expr>,
}

/// A duration.
pub(crate) enum Length {
    /// `100ms`
    Literal { seconds: u64, nanos: u32, span: Span },
    /// Any other expression.
    Given(Expr),
}

impl ToTokens for Length {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Literal { seconds, nanos, span } => {
                tokens.extend(quote_spanned!(*span=> ::core::time::Duration::new(#seconds, #nanos)));
            }
            Self::Given(expression) => expression.to_tokens(tokens),
        }
    }
}

/// `a >> [b, c] >> match route { … }`.
pub(super) struct Chain(pub(super) Vec<Link>);

/// One part of a chain.
pub(super) enum Link {
    /// A node, START or END.
    One(Ident),
    /// `[a, b]`
    Many(Vec<Ident>, Span),
    /// A `match`, `if` or `for`.
    Choice(Decision),
}

impl Link {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::One(name) => name.span(),
            Self::Many(_, span) => *span,
            Self::Choice(decision) => decision.span,
        }
    }
}

/// A route.
pub(super) struct Decision {
    /// The `match`, `if` or `for`.
    pub(super) span: Span,
    pub(super) shape: Shape,
    pub(super) function: Function,
    pub(super) arms: Vec<Arm>,
    /// Whether an arm could not be parsed.
    pub(super) broken: bool,
}

impl Decision {
    /// A mention of the state in it: where it chooses, in a guard, or in what is sent. Routes nested in it have their own.
    pub(super) fn mentions_state(&self) -> Option<Ident> {
        let chooses = match &self.function {
            Function::Expression(expression) => the_state(expression),
            Function::Path(_) | Function::Closure(_) => None,
        };
        let in_arm = |arm: &Arm| {
            let sent = match &arm.body {
                ArmBody::Go(goals) => goals.iter().filter_map(|goal| goal.item.as_ref()).find_map(the_state),
                ArmBody::Decide(_) => None,
            };
            arm.guard.as_ref().and_then(the_state).or(sent)
        };
        chooses.or_else(|| self.arms.iter().find_map(in_arm))
    }
}

impl Decision {
    /// The route as plain Rust over a `__state`, for editors. Its nodes are noted on their own.
    pub(super) fn outline(&self) -> TokenStream {
        let chosen = match &self.function {
            Function::Path(path) => quote!(#path(__state)),
            Function::Closure(closure) => quote!(__hier::choose(__state, #closure)),
            Function::Expression(expression) => quote!(#expression),
        };
        let arms = self
            .arms
            .iter()
            .map(|arm| (&arm.pattern, arm.guard.as_ref().map(|guard| quote!(if #guard)), arm.outline()));
        let code = match self.shape {
            Shape::Match => {
                let arms = arms.map(|(pattern, guard, body)| quote!(#pattern #guard => { #body }));
                quote!(match #chosen { #(#arms)* _ => {} })
            }
            Shape::If => {
                let mut bodies = arms.map(|(.., body)| body);
                let (yes, no) = (bodies.next(), bodies.next());
                quote!(if #chosen { #yes } else { #no })
            }
            Shape::For => {
                let arms = arms.map(|(pattern, _, body)| quote!(for #pattern in #chosen.clone() { #body }));
                quote!(#(#arms)*)
            }
        };
        // The word itself, so that going to its definition leads nowhere else.
        let state = self.mentions_state().unwrap_or_else(|| Ident::new(symbol::STATE_VALUE, Span::call_site()));
        quote!({ let #state = __state; #code })
    }
}

impl Arm {
    fn outline(&self) -> TokenStream {
        match &self.body {
            ArmBody::Decide(inner) => inner.outline(),
            ArmBody::Go(goals) => {
                let items = goals.iter().filter_map(|goal| goal.item.as_ref());
                quote!(#(let _ = #items;)*)
            }
        }
    }
}

/// The three kinds of routes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Match,
    If,
    For,
}

impl Shape {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::If => "if",
            Self::For => "for",
        }
    }

    /// With its article.
    pub(super) fn one(self) -> &'static str {
        match self {
            Self::Match => "a `match`",
            Self::If => "an `if`",
            Self::For => "a `for`",
        }
    }
}

/// What chooses.
pub(super) enum Function {
    /// A function, called with the state.
    Path(Path),
    /// The same without a name.
    Closure(ExprClosure),
    /// An expression in which `state` is the state.
    Expression(Expr),
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Path(path) => path.to_tokens(tokens),
            Self::Closure(closure) => closure.to_tokens(tokens),
            Self::Expression(expression) => expression.to_tokens(tokens),
        }
    }
}

/// One choice of a route. An `if` has one for `true` and then one for `false`; a `for` has one for its items.
pub(super) struct Arm {
    /// The pattern of a `match` arm or of a `for`.
    pub(super) pattern: Option<Pat>,
    pub(super) guard: Option<Expr>,
    pub(super) body: ArmBody,
}

/// Where an arm leads.
pub(super) enum ArmBody {
    Go(Vec<Goal>),
    Decide(Box<Decision>),
}

/// `node`, or `node(item)`.
pub(super) struct Goal {
    pub(super) name: Ident,
    pub(super) item: Option<Expr>,
}
