//! The syntax tree of agents and subagents.

use hier_spec::agent::AgentKind;
use proc_macro2::{Span, TokenStream};
use syn::{Expr, ExprClosure, ExprMethodCall, Ident, Path, Type};

use crate::symbol::Infer;

/// The fields of `Agent`, `ReactGraph` and `TodoGraph`.
#[derive(Default)]
pub(in super::super) struct Agent {
    pub(in super::super) kind: AgentKind,
    pub(in super::super) system: Option<Expr>,
    pub(in super::super) model: Option<Expr>,
    pub(in super::super) options: Option<Options>,
    pub(in super::super) layers: Vec<Layer>,
    pub(in super::super) answer: Option<Ident>,
    pub(in super::super) attempts: Option<Expr>,
    pub(in super::super) reasoning: Option<Expr>,
    pub(in super::super) tools: Vec<Path>,
    /// What chooses toolsets of the context.
    pub(in super::super) toolsets: Vec<ExprClosure>,
    pub(in super::super) tool_errors: Option<Expr>,
    pub(in super::super) max_iterations: Option<Expr>,
    pub(in super::super) max_repeats: Option<Expr>,
    pub(in super::super) reports: Option<Expr>,
    pub(in super::super) report_into: Option<Ident>,
    pub(in super::super) front: Vec<Attachment>,
    pub(in super::super) back: Vec<Attachment>,
    pub(in super::super) subagents: Vec<Attachment>,
    pub(in super::super) parallel: bool,
    pub(in super::super) todo_check: Option<Expr>,
    pub(in super::super) todo_refusal: Option<Expr>,
    /// Whether a rule is broken, so that the compiler need not check any more.
    pub(in super::super) flawed: bool,
}

/// One of `tools: [lookup, |desk| &desk.crm]`.
pub(in super::super) enum Tool {
    /// A `#[tool]` function.
    Named(Path),
    /// A toolset of the context.
    Set(ExprClosure),
}

/// The functions and the toolsets among tools.
pub(in super::super) fn parted(tools: Vec<Tool>) -> (Vec<Path>, Vec<ExprClosure>) {
    let (mut named, mut sets) = (Vec::new(), Vec::new());
    for tool in tools {
        match tool {
            Tool::Named(path) => named.push(path),
            Tool::Set(choose) => sets.push(choose),
        }
    }
    (named, sets)
}

/// How a model is to answer.
pub(in super::super) enum Options {
    /// `ModelOptions { temperature: 0.2 }`, where it begins.
    Fields(Span, Vec<(Ident, Expr)>),
    /// Any other expression.
    Given(Expr),
}

/// A layer around the calls of an agent.
pub(in super::super) enum Layer {
    /// `Limit { model_calls: 50 }`: setters of the type.
    Fields(Path, Vec<(Ident, Expr)>),
    /// `Retry { attempts: 3 }`: fields of the type.
    Literal(Path, Vec<(Ident, TokenStream)>),
    /// `Redact(Emails)`, and what a closure in it is a function of.
    Made(Path, Infer, Vec<Expr>),
    /// `Inherited(…)`
    Wrapper(Path, Box<Layer>),
    /// One of these with methods called: `Redact(Emails).mark("…")`.
    Method(Box<Layer>, ExprMethodCall),
    /// Any other expression.
    Given(Expr),
}

/// `Worker { merge_fields: [artifact] }`
pub(in super::super) struct Attachment {
    pub(in super::super) path: Path,
    pub(in super::super) policy: Option<Policy>,
}

/// What any graph says of itself as a subagent.
#[derive(Default)]
pub(in super::super) struct Membership {
    pub(in super::super) policy: Option<Policy>,
    pub(in super::super) args: Option<Type>,
    pub(in super::super) on_entry: Option<Path>,
    pub(in super::super) on_exit: Option<Path>,
    pub(in super::super) inbox: Option<Ident>,
}

/// The options of a policy.
#[derive(Default)]
pub(in super::super) struct Policy {
    pub(in super::super) clear_messages: Option<Expr>,
    pub(in super::super) preserve_chat: Option<Expr>,
    pub(in super::super) reset_iteration: Option<Expr>,
    pub(in super::super) max_iterations: Option<Expr>,
    pub(in super::super) merge_fields: Option<Vec<Ident>>,
    pub(in super::super) discard_fields: Option<Vec<Ident>>,
}
