//! The syntax tree of a `graph!`, with unresolved names.

pub(super) mod agent;

use self::agent::{AgentFields, MembershipFields, ToolRules};
use super::text::the_state;
use crate::symbol;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Expr, ExprClosure, Ident, LitStr, Pat, Path, Type, Visibility};

/// `/// docs  pub Review<Filing, Desk>`
pub(super) struct GraphHead {
    pub(super) attributes: Vec<Attribute>,
    pub(super) visibility: Visibility,
    pub(super) name: Ident,
    /// `None` only if it could not be parsed.
    pub(super) state: Option<Type>,
    pub(super) context: Option<Type>,
}

pub(super) struct Ast {
    pub(super) head: GraphHead,
    pub(super) body: GraphFields,
}

/// The fields of a graph of any kind.
#[derive(Default)]
pub(super) struct GraphFields {
    pub(super) nodes: ParsedList<NodeDecl>,
    pub(super) edges: ParsedList<EdgeChain>,
    /// The node of a `SimpleGraph`.
    pub(super) compute: Option<NodeDecl>,
    pub(super) input: Option<Type>,
    pub(super) trust: TrustFields,
    pub(super) output: Option<Type>,
    pub(super) before: ParsedList<Ident>,
    pub(super) after: ParsedList<Ident>,
    pub(super) name: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    /// The value of `crate: path`.
    pub(super) home: Option<Path>,
    pub(super) member: MembershipFields,
    /// `None` without the field `asks`.
    pub(super) asks: Option<ParsedList<AskedQuestion>>,
    /// `None` for graphs that ask no model.
    pub(super) agent: Option<AgentFields>,
    /// True if the list of nodes or edges is unknown because of a syntax error.
    pub(super) shapeless: bool,
}

/// `Pay`, `billing::Pay` or `Invoice = billing::Pay`
pub(super) struct AskedQuestion {
    pub(super) name: Ident,
    pub(super) path: Path,
}

#[derive(Default)]
pub(super) struct TrustFields {
    /// `input: untrusted`: an attacker may have written the messages.
    pub(super) untrusted: Option<Ident>,
    /// `allow: trifecta("reason")`
    pub(super) allowed: bool,
}

/// The parsed items of a list. The parser has reported the errors of the other items.
pub(super) struct ParsedList<T> {
    pub(super) found: Vec<T>,
    /// The identifiers in items that could not be parsed.
    pub(super) lost: Vec<Ident>,
    pub(super) broken: bool,
}

impl<T> Default for ParsedList<T> {
    fn default() -> Self {
        Self { found: Vec::new(), lost: Vec::new(), broken: false }
    }
}

/// `name = path { options }`
pub(super) struct NodeDecl {
    pub(super) name: Ident,
    /// For a node with tools, the graph that the macro generates.
    pub(super) path: Path,
    pub(super) tools: Option<(Vec<Path>, Vec<ExprClosure>)>,
    pub(super) rules: ToolRules,
    pub(super) options: NodeOptions,
}

#[derive(Default)]
pub(super) struct NodeOptions {
    pub(super) retry: Option<RetryOption>,
    pub(super) timeout: Option<Length>,
    pub(super) idle_timeout: Option<Length>,
    pub(super) cache: Option<CacheOption>,
    pub(super) defer: bool,
    pub(super) on_error: Option<Path>,
    pub(super) writes: ParsedList<Ident>,
    pub(super) goto: ParsedList<Ident>,
    /// The user's word, which names a variant of `Checkpoints`.
    pub(super) checkpoints: Option<Ident>,
    /// The error policy of a node with tools, with the option's word.
    pub(super) tool_errors: Option<(Ident, Expr)>,
}

pub(super) enum RetryOption {
    /// `retry: 3`, or any expression.
    Times(Expr),
    /// `retry: Retry { … }`: values by field name.
    Policy(Vec<(Ident, TokenStream)>),
}

/// The lifetime of a cached result, and the function that computes the cache key. By default, the key is what the node
/// reads.
pub(super) struct CacheOption {
    pub(super) ttl: Length,
    pub(super) key: Option<Expr>,
}

pub(crate) enum Length {
    /// `100ms`
    Literal {
        seconds: u64,
        nanos: u32,
        span: Span,
    },
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

/// `a >> [b, c] >> match route { … }`
pub(super) struct EdgeChain(pub(super) Vec<ChainLink>);

pub(super) enum ChainLink {
    /// A node, START or END.
    One(Ident),
    /// `[a, b]`
    Many(Vec<Ident>, Span),
    /// A `match`, `if` or `for`.
    Choice(RouteDecl),
}

impl ChainLink {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::One(name) => name.span(),
            Self::Many(_, span) => *span,
            Self::Choice(decision) => decision.span,
        }
    }
}

pub(super) struct RouteDecl {
    /// The span of the `match`, `if` or `for`.
    pub(super) span: Span,
    pub(super) shape: RouteKind,
    pub(super) function: Selector,
    pub(super) arms: Vec<RouteArm>,
    pub(super) broken: bool,
}

impl RouteDecl {
    /// Finds a mention of the state in the selector, in a guard or in an item. Ignores nested routes.
    pub(super) fn mentions_state(&self) -> Option<Ident> {
        let chooses = match &self.function {
            Selector::Expression(expression) => the_state(expression),
            Selector::Path(_) | Selector::Closure(_) => None,
        };
        let in_arm = |arm: &RouteArm| {
            let sent = match &arm.body {
                ArmBody::Go(goals) => goals.iter().filter_map(|goal| goal.item.as_ref()).find_map(the_state),
                ArmBody::Decide(_) => None,
            };
            arm.guard.as_ref().and_then(the_state).or(sent)
        };
        chooses.or_else(|| self.arms.iter().find_map(in_arm))
    }
}

impl RouteDecl {
    /// Returns the route as plain Rust over a `__state`, for editors. Its nodes are recorded separately.
    pub(super) fn outline(&self) -> TokenStream {
        let chosen = match &self.function {
            Selector::Path(path) => quote!(#path(__state)),
            Selector::Closure(closure) => quote!(__hier::choose(__state, #closure)),
            Selector::Expression(expression) => quote!(#expression),
        };
        let arms = self
            .arms
            .iter()
            .map(|arm| (&arm.pattern, arm.guard.as_ref().map(|guard| quote!(if #guard)), arm.outline()));
        let code = match self.shape {
            RouteKind::Match => {
                let arms = arms.map(|(pattern, guard, body)| quote!(#pattern #guard => { #body }));
                quote!(match #chosen { #(#arms)* _ => {} })
            }
            RouteKind::If => {
                let mut bodies = arms.map(|(.., body)| body);
                let (yes, no) = (bodies.next(), bodies.next());
                quote!(if #chosen { #yes } else { #no })
            }
            RouteKind::For => {
                let arms = arms.map(|(pattern, _, body)| quote!(for #pattern in #chosen.clone() { #body }));
                quote!(#(#arms)*)
            }
        };
        // The user's own word, so that editors do not find its definition elsewhere.
        let state = self.mentions_state().unwrap_or_else(|| Ident::new(symbol::STATE_VALUE, Span::call_site()));
        quote!({ let #state = __state; #code })
    }
}

impl RouteArm {
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

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteKind {
    Match,
    If,
    For,
}

impl RouteKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::If => "if",
            Self::For => "for",
        }
    }

    pub(super) fn with_article(self) -> &'static str {
        match self {
            Self::Match => "a `match`",
            Self::If => "an `if`",
            Self::For => "a `for`",
        }
    }
}

pub(super) enum Selector {
    Path(Path),
    Closure(ExprClosure),
    /// An expression over the variable `state`.
    Expression(Expr),
}

impl ToTokens for Selector {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Path(path) => path.to_tokens(tokens),
            Self::Closure(closure) => closure.to_tokens(tokens),
            Self::Expression(expression) => expression.to_tokens(tokens),
        }
    }
}

/// An arm of a route. An `if` has two, for `true` and `false`; a `for` has one, for its items.
pub(super) struct RouteArm {
    pub(super) pattern: Option<Pat>,
    pub(super) guard: Option<Expr>,
    pub(super) body: ArmBody,
    /// The last token of the arm of a `match`.
    pub(super) end: Span,
}

pub(super) enum ArmBody {
    Go(Vec<RouteTarget>),
    Decide(Box<RouteDecl>),
}

pub(super) struct RouteTarget {
    pub(super) name: Ident,
    pub(super) item: Option<Expr>,
}
