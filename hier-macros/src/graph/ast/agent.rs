//! The syntax tree of agents and subagents.

use hier_spec::agent::AgentKind;
use proc_macro2::{Span, TokenStream};
use syn::{Expr, ExprClosure, ExprMethodCall, Ident, LitBool, Path, Type};

use crate::approval::Approval;
use crate::symbol::Infer;

#[derive(Default)]
pub(in super::super) struct AgentFields {
    pub(in super::super) kind: AgentKind,
    pub(in super::super) system: Option<Expr>,
    pub(in super::super) model: Option<Expr>,
    pub(in super::super) options: Option<AgentModelOptions>,
    pub(in super::super) layers: Vec<LayerExpr>,
    pub(in super::super) answer: Option<Ident>,
    pub(in super::super) attempts: Option<Expr>,
    pub(in super::super) reasoning: Option<Expr>,
    pub(in super::super) tools: Vec<Path>,
    pub(in super::super) toolsets: Vec<ExprClosure>,
    pub(in super::super) rules: ToolRules,
    pub(in super::super) search: Option<SearchExpr>,
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
    /// True if the agent violates a rule, so that the compiler need not check further.
    pub(in super::super) flawed: bool,
}

/// An item of `tools: [lookup, |desk| &desk.crm]`.
pub(in super::super) enum ToolItem {
    /// A `#[tool]` function.
    Named(Path, ToolItemOptions),
    /// A closure that selects a toolset of the context.
    Set(ExprClosure, ToolItemOptions),
}

/// `{ approve: tainted, labels: [private] }`
#[derive(Default)]
pub(in super::super) struct ToolItemOptions {
    pub(in super::super) approve: Option<Approval>,
    pub(in super::super) labels: Option<Vec<Ident>>,
}

#[derive(Default)]
pub(in super::super) struct ToolRules {
    pub(in super::super) named: Vec<ToolItemOptions>,
    pub(in super::super) sets: Vec<ToolItemOptions>,
}

pub(in super::super) fn parted(tools: Vec<ToolItem>) -> (Vec<Path>, Vec<ExprClosure>, ToolRules) {
    let (mut named, mut sets, mut rules) = (Vec::new(), Vec::new(), ToolRules::default());
    for tool in tools {
        match tool {
            ToolItem::Named(path, options) => {
                named.push(path);
                rules.named.push(options);
            }
            ToolItem::Set(choose, options) => {
                sets.push(choose);
                rules.sets.push(options);
            }
        }
    }
    (named, sets, rules)
}

pub(in super::super) enum AgentModelOptions {
    /// `ModelOptions { temperature: 0.2 }`, with its location.
    Fields(Span, Vec<(Ident, Expr)>),
    Given(Expr),
}

pub(in super::super) enum SearchExpr {
    Flag(LitBool),
    /// `ToolSearch { above: 20 }`, with its location.
    Fields(Span, Vec<(Ident, Expr)>),
    Given(Expr),
}

pub(in super::super) enum LayerExpr {
    /// `Limit { model_calls: 50 }`: setters of the type.
    Fields(Path, Vec<(Ident, Expr)>),
    /// `Retry { attempts: 3 }`: fields of the type.
    Literal(Path, Vec<(Ident, TokenStream)>),
    /// `Redact(Emails)`, and the argument of a closure in it.
    Made(Path, Infer, Vec<Expr>),
    Wrapper(Path, Box<LayerExpr>),
    Method(Box<LayerExpr>, ExprMethodCall),
    Given(Expr),
}

/// `Worker { merge_fields: [artifact] }`
pub(in super::super) struct Attachment {
    pub(in super::super) path: Path,
    pub(in super::super) policy: Option<PolicyFields>,
}

impl PolicyFields {
    pub(in super::super) fn in_background(&self) -> Option<&Ident> {
        let words = [&self.background, &self.detached].into_iter().flatten();
        words.filter(|(_, is_set)| is_set.value).map(|(word, _)| word).next()
    }
}

impl Attachment {
    /// Returns the word `background` or `detached` of a subagent that runs in the background.
    pub(in super::super) fn in_background(&self) -> Option<&Ident> {
        self.policy.as_ref()?.in_background()
    }
}

/// The options of any graph as a subagent.
#[derive(Default)]
pub(in super::super) struct MembershipFields {
    pub(in super::super) policy: Option<PolicyFields>,
    pub(in super::super) args: Option<Type>,
    pub(in super::super) on_entry: Option<Path>,
    pub(in super::super) on_exit: Option<Path>,
    pub(in super::super) inbox: Option<Ident>,
}

#[derive(Default)]
pub(in super::super) struct PolicyFields {
    pub(in super::super) clear_messages: Option<Expr>,
    pub(in super::super) preserve_chat: Option<Expr>,
    pub(in super::super) reset_iteration: Option<Expr>,
    pub(in super::super) max_iterations: Option<Expr>,
    pub(in super::super) background: Option<(Ident, LitBool)>,
    pub(in super::super) detached: Option<(Ident, LitBool)>,
    pub(in super::super) merge_fields: Option<Vec<Ident>>,
    pub(in super::super) discard_fields: Option<Vec<Ident>>,
}
