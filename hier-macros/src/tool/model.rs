//! A tool, as its function declares it.

use proc_macro2::Span;
use syn::{Expr, Ident, ItemFn, LitStr, Path, Type};

use crate::approval::Approval;
use crate::docs::Docs;
use crate::graph::Length;

pub(super) struct ToolModel {
    /// The function, without the attributes of this macro.
    pub(super) function: ItemFn,
    /// False for a function that ends with a semicolon.
    pub(super) has_body: bool,
    pub(super) docs: Docs,
    pub(super) options: ToolOptions,
    pub(super) params: Vec<Param>,
}

#[derive(Default)]
pub(super) struct ToolOptions {
    pub(super) name: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    pub(super) needs_approval: bool,
    /// The rule for approval, with the option's word.
    pub(super) approve: Option<(Ident, Approval)>,
    /// The word `client`, if a client executes the tool. Its function has no body.
    pub(super) client: Option<Ident>,
    pub(super) labels: Vec<Ident>,
    /// The word `step`, if the engine records the calls.
    pub(super) step: Option<Ident>,
    pub(super) timeout: Option<Length>,
    pub(super) retry: Option<Expr>,
    /// The value of `crate = path`.
    pub(super) home: Option<Path>,
}

pub(super) struct Param {
    pub(super) span: Span,
    pub(super) role: ParamRole,
}

/// The source of a parameter's value.
pub(super) enum ParamRole {
    Argument(Box<Argument>),
    /// All arguments of the model as one struct: `#[args]`.
    Whole(Type),
    /// The run, `&Run<C>`, with this context.
    Run(Type),
    /// The state or a part of it, `&S`.
    State(Type),
    /// `&ToolCall`
    Call,
    /// `ToolCallId`
    CallId,
    /// An extractor, as in a node: `#[inject]`.
    Inject(Type),
    /// `Ask<Q>`, with the type and its question.
    Ask(Type, Box<Type>),
    /// An invalid parameter, which has been reported.
    Wrong,
}

pub(super) struct Argument {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) description: Docs,
    pub(super) need: Need,
}

pub(super) enum Need {
    Required,
    /// An `Option` of this type.
    Optional(Type),
    /// With this default; `#[default]` alone is `Default::default()`.
    Default(Option<Expr>),
}

impl Argument {
    /// The name that the model sees.
    pub(super) fn name(&self) -> String {
        let name = self.ident.to_string();
        name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
    }
}

impl ToolModel {
    /// The name by which models call it, with its location.
    pub(super) fn name(&self) -> LitStr {
        self.options.name.clone().unwrap_or_else(|| {
            let ident = &self.function.sig.ident;
            let name = ident.to_string();
            LitStr::new(name.strip_prefix("r#").unwrap_or(&name), ident.span())
        })
    }

    /// The context of its run, if it takes one.
    pub(super) fn context(&self) -> Option<&Type> {
        self.params.iter().find_map(|param| match &param.role {
            ParamRole::Run(context) => Some(context),
            _ => None,
        })
    }

    /// Returns the arguments that the model passes separately.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.params.iter().filter_map(|param| match &param.role {
            ParamRole::Argument(argument) => Some(&**argument),
            _ => None,
        })
    }
}
