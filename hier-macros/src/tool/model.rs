//! A tool, as its function declares it.

use proc_macro2::Span;
use syn::{Expr, Ident, ItemFn, LitStr, Path, Type};

use crate::docs::Docs;
use crate::graph::Length;

/// A tool.
pub(super) struct Tool {
    /// The function, without what only this macro understands.
    pub(super) function: ItemFn,
    /// Its doc comment.
    pub(super) docs: Docs,
    pub(super) options: Options,
    /// What its parameters are, in order.
    pub(super) params: Vec<Param>,
}

/// What stands in `#[tool(…)]`.
#[derive(Default)]
pub(super) struct Options {
    pub(super) name: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    pub(super) needs_approval: bool,
    pub(super) step: bool,
    pub(super) timeout: Option<Length>,
    pub(super) retry: Option<Expr>,
    /// The path of the crate, if it is given.
    pub(super) home: Option<Path>,
}

/// A parameter of the function.
pub(super) struct Param {
    /// The parameter as a whole, for errors.
    pub(super) span: Span,
    pub(super) role: Role,
}

/// Who gives a parameter its value, and which.
pub(super) enum Role {
    /// The model.
    Argument(Box<Argument>),
    /// The model gives all arguments as one struct: `#[args]`.
    Whole(Type),
    /// The run: `&Run<C>`, of this context.
    Run(Type),
    /// The state, or a part of it: `&S`.
    State(Type),
    /// `&ToolCall`
    Call,
    /// `ToolCallId`
    CallId,
    /// Whatever a node could take: `#[inject]`.
    Inject(Type),
    /// Something was wrong with it, which is reported.
    Wrong,
}

/// An argument that the model gives.
pub(super) struct Argument {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    pub(super) description: Docs,
    pub(super) need: Need,
}

/// Whether an argument must be given.
pub(super) enum Need {
    /// It must.
    Required,
    /// It is an `Option` of this type.
    Optional(Type),
    /// It has this default; `#[default]` alone is `Default::default()`.
    Default(Option<Expr>),
}

impl Argument {
    /// The name that the model sees.
    pub(super) fn name(&self) -> String {
        let name = self.ident.to_string();
        name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
    }
}

impl Tool {
    /// The name by which models call it, with its place.
    pub(super) fn name(&self) -> LitStr {
        self.options.name.clone().unwrap_or_else(|| {
            let ident = &self.function.sig.ident;
            let name = ident.to_string();
            LitStr::new(name.strip_prefix("r#").unwrap_or(&name), ident.span())
        })
    }

    /// The context of the run that it takes, if it takes one.
    pub(super) fn context(&self) -> Option<&Type> {
        self.params.iter().find_map(|param| match &param.role {
            Role::Run(context) => Some(context),
            _ => None,
        })
    }

    /// The arguments that the model gives one by one.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.params.iter().filter_map(|param| match &param.role {
            Role::Argument(argument) => Some(&**argument),
            _ => None,
        })
    }
}
