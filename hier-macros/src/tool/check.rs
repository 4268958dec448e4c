//! The rules of a tool, beside those that reading its parameters finds:
//!
//! 1. [`asynchronous`]: it is an `async fn`.
//! 2. [`concrete`]: it has no parameters of type or lifetime, since its schema is one; but the context of its run may be one.
//! 3. [`provider_name`]: its name is one that providers take.
//! 4. [`one_shape`]: its arguments are one struct or single ones, not both.
//! 5. [`tried_once`]: it is tried at least once.
//! 6. [`described`]: it has a description.

use syn::{Expr, GenericParam, Lit, Type};

use super::model::{Role, Tool};
use super::parse;
use crate::diag::Errors;

/// Checks a tool.
pub(super) fn check(tool: &Tool, errors: &mut Errors) {
    asynchronous(tool, errors);
    concrete(tool, errors);
    provider_name(tool, errors);
    one_shape(tool, errors);
    tried_once(tool, errors);
    described(tool, errors);
}

/// A tool may wait, and others run meanwhile.
fn asynchronous(tool: &Tool, errors: &mut Errors) {
    let signature = &tool.function.sig;
    if signature.asyncness.is_none() {
        errors.push(signature.fn_token, format!("a tool is an `async fn`: write `async fn {}`", signature.ident));
    }
}

/// The model sees one schema, so there is one type of each argument. The context may be any that has what the tool needs.
fn concrete(tool: &Tool, errors: &mut Errors) {
    let generics = &tool.function.sig.generics;
    let is_context = |parameter: &GenericParam| match (parameter, tool.context()) {
        (GenericParam::Type(parameter), Some(Type::Path(context))) => context.path.is_ident(&parameter.ident),
        _ => false,
    };
    if !generics.params.iter().all(is_context) {
        errors.push(
            &generics.params,
            "a tool has no parameters of types or lifetimes: its schema needs concrete types, and lifetimes can be left out; only \
             the context of its run may be one, `run: &Run<C>` with `C: AsRef<Crm>`",
        );
    }
}

/// The common rule of OpenAI and Anthropic: 1 to 64 letters, digits, `_` and `-`.
fn provider_name(tool: &Tool, errors: &mut Errors) {
    let name = tool.name();
    let text = name.value();
    let fits = (1..=64).contains(&text.len())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
    if !fits {
        let mend =
            if tool.options.name.is_some() { "choose another" } else { "give one with `#[tool(name = \"…\")]`" };
        errors.push(
            &name,
            format!(
                "models cannot call a tool by the name `{text}`: 1 to 64 ASCII letters, digits, `_` and `-`; {mend}"
            ),
        );
    }
}

/// With `#[args]`, the struct is the schema, and nothing stands beside it.
fn one_shape(tool: &Tool, errors: &mut Errors) {
    let mut wholes = tool.params.iter().filter_map(|param| match &param.role {
        Role::Whole(ty) => Some((param, ty)),
        _ => None,
    });
    let Some((_, ty)) = wholes.next() else { return };
    for (param, _) in wholes {
        errors.at(param.span, "all arguments are one `#[args]` struct: there cannot be two");
    }
    for argument in tool.arguments() {
        errors.push(
            &argument.ident,
            format!(
                "all arguments are the fields of the `#[args]` struct: make `{}` one of `{}`",
                argument.name(),
                parse::text(ty)
            ),
        );
    }
}

fn tried_once(tool: &Tool, errors: &mut Errors) {
    if let Some(Expr::Lit(literal)) = &tool.options.retry
        && let Lit::Int(number) = &literal.lit
        && number.base10_digits() == "0"
    {
        errors.push(number, "a tool is tried at least once: `1` is no retry, `3` is two retries");
    }
}

/// The model chooses a tool by its description.
fn described(tool: &Tool, errors: &mut Errors) {
    let ident = &tool.function.sig.ident;
    let empty = match &tool.options.description {
        Some(text) => text.value().trim().is_empty(),
        None => tool.docs.is_empty(),
    };
    if empty {
        errors.push(
            ident,
            format!("the tool `{ident}` has no description, by which models choose it: write a doc comment above it"),
        );
    }
}
