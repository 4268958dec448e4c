//! The syntax tree of agents and subagents.

use hier_spec::agent::AgentKind;
use proc_macro2::Span;
use syn::{Expr, Ident, Path, Type};

/// The fields of `Agent`, `ReactGraph` and `TodoGraph`.
#[derive(Default)]
pub(in super::super) struct Agent {
    pub(in super::super) kind: AgentKind,
    pub(in super::super) system: Option<Expr>,
    pub(in super::super) model: Option<Expr>,
    pub(in super::super) options: Option<Options>,
    pub(in super::super) answer: Option<Ident>,
    pub(in super::super) attempts: Option<Expr>,
    pub(in super::super) reasoning: Option<Expr>,
    pub(in super::super) tools: Vec<Path>,
    pub(in super::super) tool_errors: Option<Expr>,
    pub(in super::super) max_iterations: Option<Expr>,
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

/// How a model is to answer.
pub(in super::super) enum Options {
    /// `ModelOptions { temperature: 0.2 }`, where it begins.
    Fields(Span, Vec<(Ident, Expr)>),
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
