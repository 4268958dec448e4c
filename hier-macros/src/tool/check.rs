//! The rules of a tool, in addition to those of its parameters:
//!
//! 1. [`asynchronous`]: it is an `async fn`.
//! 2. [`concrete`]: it is not generic, except over the context of its run.
//! 3. [`provider_name`]: providers accept its name.
//! 4. [`one_shape`]: its arguments are one struct or single ones, not both.
//! 5. [`tried_once`]: it has at least one attempt.
//! 6. [`described`]: it has a description.
//! 7. [`approved_once`]: it has one rule for approval.
//! 8. [`owned`]: its result owns its data.
//! 9. [`client`](super::client::check): a client tool needs nothing of the server.

use syn::{Expr, GenericParam, Lit, ReturnType, Type};

use super::model::{ParamRole, ToolModel};
use super::{client, parse};
use crate::diag::Errors;

pub(super) fn check(tool: &ToolModel, errors: &mut Errors) {
    asynchronous(tool, errors);
    concrete(tool, errors);
    provider_name(tool, errors);
    one_shape(tool, errors);
    tried_once(tool, errors);
    described(tool, errors);
    approved_once(tool, errors);
    owned(tool, errors);
    client::check(tool, errors);
}

/// A tool must be asynchronous, so that other tools run while it waits.
fn asynchronous(tool: &ToolModel, errors: &mut Errors) {
    let signature = &tool.function.sig;
    if signature.asyncness.is_none() {
        errors.push(signature.fn_token, format!("a tool is an `async fn`: write `async fn {}`", signature.ident));
    }
}

/// The model sees one schema, so each argument must have one type.
fn concrete(tool: &ToolModel, errors: &mut Errors) {
    let generics = &tool.function.sig.generics;
    let is_context = |parameter: &GenericParam| match (parameter, tool.context()) {
        (GenericParam::Type(parameter), Some(Type::Path(context))) => context.path.is_ident(&parameter.ident),
        _ => false,
    };
    if !generics.params.iter().all(is_context) {
        errors.push(
            &generics.params,
            "a tool cannot be generic, except over the context of its run, `run: &Run<C>` with `C: AsRef<Crm>`: write concrete \
             types, and leave lifetimes out",
        );
    }
}

/// The common rule of OpenAI and Anthropic: 1 to 64 letters, digits, `_` and `-`.
fn provider_name(tool: &ToolModel, errors: &mut Errors) {
    let name = tool.name();
    let text = name.value();
    if !hier_spec::names::is_callable(&text) {
        let fix = if tool.options.name.is_some() {
            "choose another name"
        } else {
            "set another with `#[tool(name = \"…\")]`"
        };
        errors.push(
            &name,
            format!(
                "models cannot call the tool `{text}`, because a name has 1 to 64 ASCII letters, digits, `_` and `-`: {fix}"
            ),
        );
    }
}

/// With `#[args]`, the schema is that of the struct.
fn one_shape(tool: &ToolModel, errors: &mut Errors) {
    let mut wholes = tool.params.iter().filter_map(|param| match &param.role {
        ParamRole::Whole(ty) => Some((param, ty)),
        _ => None,
    });
    let Some((_, ty)) = wholes.next() else { return };
    for (param, _) in wholes {
        errors.at(param.span, "a tool takes one `#[args]` struct: merge the two");
    }
    for argument in tool.arguments() {
        errors.push(
            &argument.ident,
            format!(
                "the `#[args]` struct contains all arguments: make `{}` a field of `{}`",
                argument.name(),
                parse::text(ty)
            ),
        );
    }
}

fn tried_once(tool: &ToolModel, errors: &mut Errors) {
    if let Some(Expr::Lit(literal)) = &tool.options.retry
        && let Lit::Int(number) = &literal.lit
        && number.base10_digits() == "0"
    {
        errors.push(number, "a tool has at least one attempt: `1` means no retry, `3` means two retries");
    }
}

/// The model chooses a tool by its description.
fn described(tool: &ToolModel, errors: &mut Errors) {
    let ident = &tool.function.sig.ident;
    let empty = match &tool.options.description {
        Some(text) => text.value().trim().is_empty(),
        None => tool.docs.is_empty(),
    };
    if empty {
        errors.push(
            ident,
            format!(
                "the tool `{ident}` has no description, which models need to choose it: write a doc comment above it"
            ),
        );
    }
}

/// The result outlives the call.
fn owned(tool: &ToolModel, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &tool.function.sig.output
        && let Type::Reference(reference) = &**ty
        && reference.lifetime.is_none()
    {
        errors.push(ty, "the result of a tool owns its data: write `String` or another owned type");
    }
}

fn approved_once(tool: &ToolModel, errors: &mut Errors) {
    if let (true, Some((word, _))) = (tool.options.needs_approval, &tool.options.approve) {
        errors.push(word, "`needs_approval` already asks about every call: remove one of the two");
    }
}
